//! `turnstream delete SESSION`: deletes a session and all data derived from it.

use super::{VerbError, say};
use crate::client::{Client, Reach, connect, segment};
use crate::escape::{Untrusted, safe};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  turnstream delete 3f2                     the session 3f2…, for good
  turnstream export 3f2 -o kept.jsonl && turnstream delete 3f2";

/// Delete sessions for good, with all data derived from them
///
/// An open turn is stopped. Exit codes: 0 when all are deleted, 2 when one is not; those before it are.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Session ids, or their unique beginnings
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
    // All are looked up first, so that an ambiguous id deletes nothing.
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
