//! `turnstream approve SESSION [ID] allow|always|reject`: the answer to what an agent wants to do.

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

/// Answer what an agent asks permission for.
///
/// Exit code: 0 when this was the answer, 2 when it was not taken: nothing waits, or somebody else was first.
#[derive(clap::Args)]
#[command(allow_missing_positional = true, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session, or as much of its id as tells it from the others
    session: String,
    /// Which ask; not needed while only one waits
    #[arg(value_name = "ID")]
    approval: Option<String>,
    /// The answer
    #[arg(value_enum)]
    decision: Decision,
    /// Words for the agent
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// End the turn too; with reject
    #[arg(long)]
    stop: bool,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Decision {
    /// This time
    Allow,
    /// Now and whenever the agent asks for the same
    Always,
    /// No
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

/// What is asked for.
fn about(ask: &Value) -> Safe {
    let tool = Record(ask).member("tool");
    let title = tool.some_text("title").or_else(|| tool.some_text("name"));
    title.unwrap_or(Untrusted("something it does not name")).preview(WIDEST)
}
