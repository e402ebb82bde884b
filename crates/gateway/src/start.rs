//! The first look at a log that others wrote: every session is shown, and those with something open are taken up.

use crate::error::OpenError;
use crate::gateway::Gateway;
use std::collections::BTreeSet;
use turnstream_log::Abandoned;
use turnstream_model::fold::{Activity, State};
use turnstream_model::id::SessionId;

/// Shows every session on the board, and wakes the keepers of those that a dead owner left in the middle of something.
pub(crate) fn take_up(gateway: &Gateway, abandoned: Vec<Abandoned>) -> Result<(), OpenError> {
    let open_turns: BTreeSet<SessionId> = abandoned.into_iter().map(|turn| turn.session).collect();
    let mut unfinished = Vec::new();
    for summary in gateway.log().summaries()? {
        let state = match summary.state {
            // What a person is asked is in none of the summaries, and has to be counted.
            Some(state) if !may_wait(&state) => state,
            Some(_) | None => gateway.log().snapshot(&summary.id)?.state,
        };
        // A crash came between the row and the first event: nobody was told of the session.
        if state.session.id.is_none() {
            continue;
        }
        gateway.tallies_shared().found(&state);
        let mut session = state.session.clone();
        if open_turns.contains(&summary.id) || is_unfinished(&state) {
            // It is what the log will say in a moment; until then no client shall believe that it is idle.
            session.status = Activity::Recovering;
            unfinished.push(summary.id.clone());
        }
        gateway.board().show(&summary.id, session);
    }
    for id in unfinished {
        // Nobody waits for it: what it finds is in the log.
        let _ = gateway.keeper(&id);
    }
    Ok(())
}

/// Somebody may have been asked something there and not have answered.
fn may_wait(state: &State) -> bool {
    matches!(state.session.status, Activity::Waiting | Activity::Recovering)
}

fn is_unfinished(state: &State) -> bool {
    !state.queue.is_empty() || state.session.status != Activity::Idle
}
