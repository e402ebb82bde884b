//! `turnstream delete SESSION`: a session is removed with everything that was derived from it.

use super::{VerbError, say};
use crate::client::{Client, Reach, connect, segment};
use crate::escape::{Untrusted, safe};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  turnstream delete 3f2                     the session 3f2…, for good
  turnstream export 3f2 -o kept.jsonl && turnstream delete 3f2";

/// Delete sessions for good: their events, and everything that was derived from them. What runs in one is
/// stopped.
///
/// Exit code: 0 when all are deleted, 2 when one is not; those before it are.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session, or as much of its id as tells it from the others; may be several
    #[arg(required = true, value_name = "SESSION")]
    sessions: Vec<String>,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, VerbError> {
    let connected = connect(&args.reach, None).await?;
    let deleted = delete(&connected.client, &args.sessions).await;
    connected.end().await;
    deleted
}

async fn delete(client: &Client, asked: &[String]) -> Result<ExitCode, VerbError> {
    // All are looked up first: a name that is not clear stops the command before anything is gone.
    let mut ids = Vec::new();
    for session in asked {
        ids.push(client.session_id(session).await?);
    }
    for id in ids {
        let answer = client.delete(&format!("/v1/sessions/{}", segment(&id))).await?;
        let rest =
            if answer["removed"] == true { "" } else { "; its bytes are being removed from the files" };
        say(&safe!["deleted session ", Untrusted(&id), rest])?;
    }
    Ok(ExitCode::SUCCESS)
}
