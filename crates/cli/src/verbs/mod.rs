//! Short commands: each sends one request, prints the result in a line, and ends.

pub(crate) mod agents;
pub(crate) mod answer;
pub(crate) mod approve;
pub(crate) mod budget;
pub(crate) mod cancel;
pub(crate) mod delete;
pub(crate) mod login;
pub(crate) mod open;
pub(crate) mod resume;
pub(crate) mod send;
pub(crate) mod wake;

use crate::client::{Client, ClientError, FindError, Reach, connect_running, segment};
use crate::escape::{Safe, Untrusted, safe};
use crate::out;
use crate::run::prompt::PromptError;
use serde_json::Value;
use std::io;
use std::process::ExitCode;

/// The width of an ask in a line.
const WIDEST: usize = 100;

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VerbError {
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The command line names nothing that exists, or is ambiguous.
    #[error("{0}")]
    Unclear(Safe),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// A session of a running gateway.
struct Target {
    client: Client,
    session: String,
}

impl Target {
    /// Looks a session up by the beginning of its id.
    async fn find(reach: &Reach, asked: &str) -> Result<Self, VerbError> {
        let client = connect_running(reach).await?;
        let session = client.session_id(asked).await?;
        Ok(Self { client, session })
    }

    /// A path below the session.
    fn path(&self, below: &str) -> String {
        format!("/v1/sessions/{}/{below}", segment(&self.session))
    }

    /// The open asks: the entries of that list of the snapshot without an outcome.
    async fn open(&self, list: &str) -> Result<Vec<Value>, ClientError> {
        let snapshot = self.client.get(&self.path("snapshot")).await?;
        let all = snapshot[list].as_array().cloned().unwrap_or_default();
        Ok(all.into_iter().filter(|one| one["outcome"].is_null()).collect())
    }
}

/// The ask that is meant: the one with this id or beginning, or the only one.
fn pick<'a>(
    open: &'a [Value],
    what: &'static str,
    asked: Option<&str>,
    about: impl Fn(&Value) -> Safe,
) -> Result<&'a Value, VerbError> {
    let id = |one: &Value| one[what].as_str().unwrap_or_default().to_owned();
    let list = |some: &[&Value]| -> Safe {
        some.iter().map(|one| safe!["\n  ", Untrusted(&id(one)), "  ", about(one)]).collect()
    };
    let all: Vec<&Value> = open.iter().collect();
    if let Some(exact) = all.iter().find(|one| Some(id(one).as_str()) == asked) {
        return Ok(exact);
    }
    let found: Vec<&Value> =
        all.iter().copied().filter(|one| asked.is_none_or(|asked| id(one).starts_with(asked))).collect();
    match (found.as_slice(), asked) {
        ([one], _) => Ok(one),
        ([], _) if all.is_empty() => Err(VerbError::Unclear(safe!["no ", what, " waits in this session"])),
        ([], Some(asked)) => {
            let (asked, lines) = (Untrusted(asked), list(&all));
            Err(VerbError::Unclear(safe![
                "no ",
                what,
                " that waits begins with ",
                asked,
                "; there is:",
                lines
            ]))
        }
        (several, _) => {
            let (count, lines) = (several.len(), list(several));
            Err(VerbError::Unclear(safe![count, " of them wait; say which ", what, " is meant:", lines]))
        }
    }
}

/// Prints one line. A closed pipe is no error.
fn say(line: &Safe) -> Result<ExitCode, VerbError> {
    match out::print(&safe![line, "\n"]) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

#[cfg(test)]
mod tests {
    use super::pick;
    use crate::record::Record;
    use serde_json::{Value, json};

    #[test]
    fn what_is_meant_is_named_by_its_beginning_or_is_the_only_one() {
        let open = [json!({"approval": "q1", "t": "one"}), json!({"approval": "q10", "t": "ten"})];
        let about = |one: &Value| Record(one).text("t").line();
        let picked = |open: &[Value], asked| match pick(open, "approval", asked, about) {
            Ok(one) => one["approval"].as_str().unwrap().to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(picked(&open, Some("q1")), "q1", "the whole id is stronger than a beginning");
        assert_eq!(picked(&open, Some("q10")), "q10");
        assert_eq!(picked(&open[..1], None), "q1");
        assert_eq!(
            picked(&open, None),
            "2 of them wait; say which approval is meant:\n  q1  one\n  q10  ten"
        );
        assert_eq!(
            picked(&open[..1], Some("x")),
            "no approval that waits begins with x; there is:\n  q1  one"
        );
        assert_eq!(picked(&[], None), "no approval waits in this session");
    }
}
