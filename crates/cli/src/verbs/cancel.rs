//! `turnstream cancel SESSION`: cancels the open turn.

use super::{Target, VerbError, say};
use crate::client::Reach;
use crate::escape::{Untrusted, safe};
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  turnstream cancel 3f2     stop what the session 3f2… does; prompts that wait in its queue follow";

/// Cancel the open turn of a session
///
/// Queued prompts stay in the queue. Exit codes: 0 when the agent was told to stop, 2 when there is nothing
/// to stop. `turnstream tail` shows the end of the turn.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session id, or its unique beginning
    session: String,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, VerbError> {
    let target = Target::find(&args.reach, &args.session).await?;
    let asked = target.client.post(&target.path("cancel"), &json!({})).await?;
    let what = ["turn", "prompt"].into_iter().find_map(|what| Some((what, asked[what].as_str()?)));
    let session = Untrusted(&target.session);
    say(&match what {
        Some((what, id)) => safe!["cancelling ", what, " ", Untrusted(id), " of session ", session],
        None => safe!["cancelling what session ", session, " does"],
    })
}
