//! Short commands about one session of a gateway: each asks once, says what became of it, and ends.

pub(crate) mod agents;
pub(crate) mod answer;
pub(crate) mod approve;
pub(crate) mod cancel;
pub(crate) mod delete;
pub(crate) mod send;

use crate::client::{Client, ClientError, FindError, Reach, connect_running, segment};
use crate::escape::{Safe, Untrusted, safe};
use crate::out;
use crate::run::prompt::PromptError;
use serde_json::Value;
use std::io;
use std::process::ExitCode;

/// How much of what is asked is shown in a line.
const WIDEST: usize = 100;

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VerbError {
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// What the command line asks for is not there, or is not clear.
    #[error("{0}")]
    Unclear(Safe),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// A session of a gateway that runs.
struct Target {
    client: Client,
    session: String,
}

impl Target {
    /// A session, by the beginning of its id.
    async fn find(reach: &Reach, asked: &str) -> Result<Self, VerbError> {
        let client = connect_running(reach).await?;
        let session = client.session_id(asked).await?;
        Ok(Self { client, session })
    }

    /// A path below the session.
    fn path(&self, below: &str) -> String {
        format!("/v1/sessions/{}/{below}", segment(&self.session))
    }

    /// What waits for a person: the members of that list of the snapshot that have no outcome.
    async fn open(&self, list: &str) -> Result<Vec<Value>, ClientError> {
        let snapshot = self.client.get(&self.path("snapshot")).await?;
        let all = snapshot[list].as_array().cloned().unwrap_or_default();
        Ok(all.into_iter().filter(|one| one["outcome"].is_null()).collect())
    }
}

/// Which of those that wait is meant: the one with this id, the only one whose id begins so, or the only one
/// there is.
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

/// One line of output. A reader that goes away has seen enough.
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
