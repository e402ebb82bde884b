//! Commands about a session, for another terminal. They reach the same gateway.

use crate::client::Reach;
use crate::escape::{Safe, Untrusted, safe};
use crate::shell::{quoted, quoted_path};
use std::path::Path;

/// Makes the commands.
pub(crate) struct FollowUp {
    session: String,
    /// The flags that the command needs to find the same gateway. The token is not printed.
    flags: Safe,
}

impl FollowUp {
    pub(crate) fn new(reach: &Reach, session: &str) -> Self {
        let path = |flag: &'static str, path: Option<&Path>| given(flag, path.map(quoted_path));
        let flags = safe![
            path(" --config ", reach.place.config.as_deref()),
            path(" --data ", reach.place.data.as_deref()),
            given(" --url ", reach.url.as_deref().map(quoted)),
        ];
        Self { session: session.to_owned(), flags }
    }

    pub(crate) fn attach(&self) -> Safe {
        safe!["turnstream attach ", Untrusted(&self.session), &self.flags]
    }

    /// Allows what an agent asks for.
    pub(crate) fn approve(&self, approval: &str) -> Safe {
        let (session, approval) = (Untrusted(&self.session), Untrusted(approval));
        safe!["turnstream approve ", session, " ", approval, " allow", &self.flags]
    }

    /// Shows a question, and what can be answered.
    pub(crate) fn answer(&self, question: &str) -> Safe {
        let (session, question) = (Untrusted(&self.session), Untrusted(question));
        safe!["turnstream answer ", session, " --question ", question, &self.flags]
    }
}

/// A flag and its value, if it was given.
fn given(flag: &'static str, value: Option<String>) -> Safe {
    value.map_or_else(Safe::default, |value| safe![flag, Untrusted(&value)])
}

#[cfg(test)]
mod tests {
    use super::FollowUp;
    use crate::client::Reach;
    use clap::{Args, FromArgMatches};

    #[test]
    fn a_command_names_the_gateway_that_was_named() {
        let command = Reach::augment_args(clap::Command::new("x"));
        let given = ["x", "--data", "/it's", "--config", "/c.toml", "--url", "http://127.0.0.1:1"];
        let reach = Reach::from_arg_matches(&command.get_matches_from(given)).unwrap();
        assert_eq!(
            FollowUp::new(&reach, "ses_1").attach().as_str(),
            r"turnstream attach ses_1 --config /c.toml --data '/it'\''s' --url http://127.0.0.1:1"
        );
    }
}
