//! `turnstream resume SESSION --as CHOICE`: goes on with a session that its agent has forgotten.

use super::{Target, VerbError, say};
use crate::client::Reach;
use crate::escape::{Untrusted, safe};
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  turnstream resume 3f2 --as transcript     the agent gets the conversation from the log with the next prompt
  turnstream resume 3f2 --as fresh          the agent begins anew";

/// Go on with a session that its agent has forgotten
///
/// An agent that has lost its own record of a session gets no further prompts until you choose. Exit codes:
/// 0 when the choice is stored, 2 when the agent has not forgotten the session.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session id, or its unique beginning
    session: String,
    /// What the agent gets of the conversation so far
    #[arg(long = "as", value_enum)]
    choice: Choice,
    #[command(flatten)]
    reach: Reach,
}

/// What the agent gets.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Choice {
    /// Nothing: it begins anew
    Fresh,
    /// The finished messages and tool calls of the log
    Transcript,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, VerbError> {
    let target = Target::find(&args.reach, &args.session).await?;
    let (word, what) = match args.choice {
        Choice::Fresh => ("fresh", "; its agent begins anew"),
        Choice::Transcript => ("transcript", "; its agent gets the conversation with the next prompt"),
    };
    target.client.post(&target.path("resume"), &json!({"as": word})).await?;
    say(&safe!["session ", Untrusted(&target.session), " goes on", what])
}
