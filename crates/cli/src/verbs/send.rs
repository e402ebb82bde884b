//! `turnstream send SESSION PROMPT`: a prompt that nobody here waits for.

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

/// Put a prompt into the queue of a session and end; the id of the prompt goes to standard output.
///
/// Exit code: 0 when the gateway has it for good, 2 when it was not taken. `turnstream run` waits for the
/// answer instead.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session, or as much of its id as tells it from the others
    session: String,
    /// What to ask; - reads standard input
    prompt: String,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, VerbError> {
    let prompt = prompt::read(&args.prompt)?;
    let target = Target::find(&args.reach, &args.session).await?;
    let key = format!("send-{:032x}", fastrand::u128(..));
    let body = json!({"content": [{"type": "text", "text": prompt}], "key": key});
    let path = target.path("prompts");
    // With its key it is one prompt, however often it is sent.
    let accepted = crate::run::patiently(|| target.client.post(&path, &body)).await?;
    let before = accepted["position"].as_u64().unwrap_or_default();
    if before > 0 {
        out::note(safe![before, " prompts are before it"]);
    }
    say(&safe![Record(&accepted).text("prompt")])
}
