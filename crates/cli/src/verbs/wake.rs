//! `turnstream wake SESSION`: continues a failed turn now, of a session that waits for that.

use super::{Target, VerbError, say};
use crate::client::Reach;
use crate::escape::safe;
use crate::record::Record;
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  turnstream wake 3f2       the session 3f2… continues its failed turn now
  turnstream cancel 3f2     it does not continue it at all";

/// Continue a failed turn now, and not when its time has come
///
/// A session that waits for a limit, or for the pause after a failure, is shown as retrying. Exit codes: 0
/// when the prompt that continues the turn is stored, 2 when the session does not wait.
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
    let woken = target.client.post(&target.path("wake"), &json!({})).await?;
    let (prompt, session) = (Record(&woken).text("prompt"), crate::escape::Untrusted(&target.session));
    say(&safe!["session ", session, " goes on with prompt ", prompt])
}
