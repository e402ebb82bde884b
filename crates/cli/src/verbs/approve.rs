//! `turnstream approve SESSION [ID] allow|always|reject`: answers an approval.

use super::{Target, VerbError, WIDEST, pick, say};
use crate::client::{Reach, segment};
use crate::escape::{Safe, Untrusted, safe};
use crate::record::Record;
use serde_json::{Value, json};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  turnstream approve 3f2 allow                       what the session 3f2… asks for, this time
  turnstream approve 3f2 q4 always                   that of several asks, now and whenever it asks again
  turnstream approve 3f2 reject --message \"use git mv\"
  turnstream approve 3f2 reject --stop               and end the turn";

/// Allow or reject what an agent asks permission for
///
/// Exit codes: 0 when the answer was accepted, 2 when it was not: nothing waits, or another client answered
/// first.
#[derive(clap::Args)]
#[command(allow_missing_positional = true, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session id, or its unique beginning
    session: String,
    /// The id of the approval; only needed if several wait
    #[arg(value_name = "ID")]
    approval: Option<String>,
    /// The answer
    #[arg(value_enum)]
    decision: Decision,
    /// A message for the agent
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Also end the turn; only with reject
    #[arg(long)]
    stop: bool,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Decision {
    /// Allow it once
    Allow,
    /// Allow it now and whenever the agent asks for the same
    Always,
    /// Refuse it
    Reject,
}

impl Decision {
    fn outcome(self) -> &'static str {
        match self {
            Self::Allow => "allow_once",
            Self::Always => "allow_always",
            Self::Reject => "reject",
        }
    }
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, VerbError> {
    if args.stop && args.decision != Decision::Reject {
        return Err(VerbError::Unclear(safe!["--stop goes with reject: what is allowed is not stopped"]));
    }
    let target = Target::find(&args.reach, &args.session).await?;
    let open = target.open("approvals").await?;
    let ask = pick(&open, "approval", args.approval.as_deref(), about)?;
    let id = ask["approval"].as_str().unwrap_or_default();
    let mut body = json!({"outcome": args.decision.outcome()});
    if let Some(message) = &args.message {
        body["message"] = json!(message);
    }
    if args.stop {
        body["stop"] = json!(true);
    }
    target.client.post(&target.path(&format!("approvals/{}", segment(id))), &body).await?;
    say(&safe![args.decision.outcome(), " ", Untrusted(id), ": ", about(ask)])
}

/// The subject of an approval, in a line.
fn about(ask: &Value) -> Safe {
    let tool = Record(ask).member("tool");
    let title = tool.some_text("title").or_else(|| tool.some_text("name"));
    title.unwrap_or(Untrusted("something it does not name")).preview(WIDEST)
}
