//! `turnstream send SESSION PROMPT`: queues a prompt.

use super::{Target, VerbError, say};
use crate::client::Reach;
use crate::escape::safe;
use crate::out;
use crate::record::Record;
use crate::run::prompt;
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  turnstream send 3f2 \"Now the tests\"     behind what the session 3f2… does already
  turnstream send 3f2 - < task.md          a prompt from a file
  turnstream tail 3f2                      what became of it";

/// Queue a prompt for a session, without waiting for the answer
///
/// The id of the prompt is printed. Exit codes: 0 when the prompt is on disk at the gateway, 2 when it was
/// not accepted. `turnstream run --session` waits for the answer.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session id, or its unique beginning
    session: String,
    /// The prompt; - reads standard input
    prompt: String,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, VerbError> {
    let prompt = prompt::read(&args.prompt)?;
    let target = Target::find(&args.reach, &args.session).await?;
    let key = turnstream_client::new_key("send");
    let body = json!({"content": [{"type": "text", "text": prompt}], "key": key});
    let accepted = target.client.queue_prompt(&target.session, &body).await?;
    let before = accepted["position"].as_u64().unwrap_or_default();
    if before > 0 {
        out::note(safe![before, " prompts are before it"]);
    }
    say(&safe![Record(&accepted).text("prompt")])
}
