//! `turnstream budget SESSION [CAP…]`: shows what a session has used, and raises its caps.

use super::{Target, VerbError, say};
use crate::budget::{self, CapArg};
use crate::client::{Reach, segment};
use crate::escape::{Safe, Untrusted, safe};
use crate::record::Record;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  turnstream budget 3f2                                what the session 3f2… has used
  turnstream budget 3f2 session_tokens=2000000         it goes on until it has used so many
  turnstream budget 3f2 steps=50 session_cost=none     50 model calls in a turn, and any cost";

/// Show or raise the budget of a session
///
/// A session that has reached a cap takes no prompt until the cap is raised. Caps are steps, time, tokens and
/// cost of each turn, and session_steps, session_time, session_tokens and session_cost of all turns together.
/// Exit codes: 0 when the caps are stored, 2 when they are not accepted.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session id, or its unique beginning
    session: String,
    /// Caps to set, like session_tokens=2000000; none lifts a cap
    #[arg(value_name = "CAP=VALUE")]
    caps: Vec<CapArg>,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, VerbError> {
    let target = Target::find(&args.reach, &args.session).await?;
    let session = match budget::body(&args.caps) {
        Some(change) => target.client.post(&target.path("budget"), &change).await?,
        None => target.client.get(&format!("/v1/sessions/{}", segment(&target.session))).await?,
    };
    let lines = budget::lines(Record(&session));
    if lines.is_empty() {
        return say(&safe!["session ", Untrusted(&target.session), " has no caps"]);
    }
    let mut text = safe!["session ", Untrusted(&target.session)];
    text.extend(lines.into_iter().map(|line| safe!["\n  ", line]).collect::<Vec<Safe>>());
    say(&text)
}
