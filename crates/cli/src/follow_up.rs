//! Commands about a session that a person can copy into another terminal, and that reach the same gateway there.

use crate::client::Reach;
use crate::escape::{Safe, Untrusted, safe};
use std::path::Path;

/// What a command on the same session needs.
pub(crate) struct FollowUp {
    session: String,
    /// The flags without which it would look for a gateway somewhere else. A token is not printed.
    flags: Safe,
}

impl FollowUp {
    pub(crate) fn new(reach: &Reach, session: &str) -> Self {
        let path = |flag: &'static str, path: Option<&Path>| {
            let path = path.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
            given(flag, path.map(|path| path.display().to_string()).as_deref())
        };
        let flags = safe![
            path(" --config ", reach.place.config.as_deref()),
            path(" --data ", reach.place.data.as_deref()),
            given(" --url ", reach.url.as_deref()),
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
fn given(flag: &'static str, value: Option<&str>) -> Safe {
    value.map_or_else(Safe::default, |value| safe![flag, Untrusted(&quoted(value))])
}

/// One word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%".contains(&byte);
    if text.bytes().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
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
