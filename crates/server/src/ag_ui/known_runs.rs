//! Finds the session and the turn of a run. TanStack AI names only the run when it comes back.

use super::replies;
use crate::chat::{History, Wanted, find};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use turnstream_gateway::{Gateway, RequestError};
use turnstream_model::fold::{Prompt, State};
use turnstream_model::id::{SessionId, TurnId};

/// Most runs that are remembered. A client comes back to one within seconds or minutes.
const MOST: usize = 4_096;

/// The runs that clients have sent since the gateway started, the newest ones.
#[derive(Default)]
pub(crate) struct KnownRuns(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// By the id of the run. Clients choose it, so several threads may have the same.
    runs: HashMap<String, Vec<KnownRun>>,
    oldest_first: VecDeque<(String, SessionId)>,
}

/// Where a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownRun {
    pub(super) session: SessionId,
    pub(super) wanted: Wanted,
}

impl KnownRuns {
    pub(super) fn add(&self, run: &str, known: KnownRun) {
        let mut all = self.lock();
        let place = (run.to_owned(), known.session.clone());
        let of_id = all.runs.entry(run.to_owned()).or_default();
        match of_id.iter_mut().find(|before| before.session == known.session) {
            Some(before) => *before = known,
            None => {
                of_id.push(known);
                all.oldest_first.push_back(place);
            }
        }
        if all.oldest_first.len() > MOST
            && let Some((oldest, session)) = all.oldest_first.pop_front()
            && let Entry::Occupied(mut of_id) = all.runs.entry(oldest)
        {
            of_id.get_mut().retain(|known| known.session != session);
            if of_id.get().is_empty() {
                of_id.remove();
            }
        }
    }

    /// The runs with this id, each in another session. Of runs before the last start of the gateway, those
    /// are found that are open.
    pub(super) async fn find(&self, gateway: &Gateway, run: &str) -> Result<Vec<KnownRun>, RequestError> {
        let mut known = self.lock().runs.get(run).cloned().unwrap_or_default();
        known.retain(|known| gateway.session(&known.session).is_ok());
        if let Some((session, id)) = run.split_once('/')
            && known.is_empty()
            && let Some(session) = find(gateway, session)?
        {
            let state = History::newest(gateway, &session, 1).await?.state;
            let has_turn = state.turns.iter().any(|turn| turn.turn.as_str() == id);
            let turn = has_turn.then(|| Wanted::Turn(TurnId::from(id)));
            let wanted = turn.or_else(|| prompt_where(&state, |prompt| prompt.prompt.as_str() == id));
            return Ok(wanted.map(|wanted| KnownRun { session, wanted }).into_iter().collect());
        }
        for entry in gateway.sessions_at_work() {
            if known.iter().any(|known| known.session == entry.id) {
                continue;
            }
            let state = History::newest(gateway, &entry.id, 1).await?.state;
            let prompt = prompt_where(&state, |prompt| prompt.key.as_deref() == Some(run));
            if let Some(wanted) = prompt.or_else(|| replies::turn_answered_by(&state, run).map(Wanted::Turn))
            {
                known.push(KnownRun { session: entry.id, wanted });
            }
        }
        Ok(known)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // The map is valid also after a panic of its holder.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn prompt_where(state: &State, is_it: impl Fn(&Prompt) -> bool) -> Option<Wanted> {
    let found = state.prompts.iter().chain(&state.queue).rev().find(|prompt| is_it(prompt));
    found.map(|prompt| Wanted::Prompt(prompt.prompt.clone()))
}

/// The id of the run that is open, or that the queue will begin: the key of its prompt. A prompt without a
/// key, and a turn without a prompt, are named with their session.
pub(super) fn open_run(state: &State, session: &SessionId) -> Option<String> {
    let (id, prompt) = match (state.open_turn(), state.queue.first()) {
        (Some(turn), _) => {
            let first = turn.prompts.first();
            let prompts = state.prompts.iter().chain(&state.queue);
            (turn.turn.as_str(), prompts.rev().find(|prompt| Some(&prompt.prompt) == first))
        }
        (None, Some(queued)) => (queued.prompt.as_str(), Some(queued)),
        (None, None) => return None,
    };
    let key = prompt.and_then(|prompt| prompt.key.clone());
    Some(key.unwrap_or_else(|| format!("{session}/{id}")))
}

#[cfg(test)]
mod tests {
    use super::{KnownRun, KnownRuns, MOST};
    use crate::chat::Wanted;
    use turnstream_model::id::{PromptId, SessionId};

    #[test]
    fn the_oldest_runs_are_forgotten() {
        let runs = KnownRuns::default();
        let of = |session: &str| KnownRun {
            session: SessionId::from(session),
            wanted: Wanted::Prompt(PromptId::from("p1")),
        };
        let known = || of("ses_1");
        for number in 0..=MOST {
            runs.add(&number.to_string(), known());
            runs.add(&number.to_string(), known());
        }
        let all = runs.lock();
        assert_eq!((all.runs.len(), all.oldest_first.len()), (MOST, MOST));
        assert!(!all.runs.contains_key("0") && all.runs.contains_key("1"));
        drop(all);
        // The same id in another session is another run.
        runs.add("2", of("ses_2"));
        let all = runs.lock();
        assert_eq!(
            (all.runs["2"].len(), all.runs.contains_key("1"), all.oldest_first.len()),
            (2, false, MOST)
        );
    }
}
