//! Finds the session and the turn of a run. TanStack AI names only the run when it comes back.

use crate::chat::{History, Wanted, find};
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
    runs: HashMap<String, KnownRun>,
    oldest_first: VecDeque<String>,
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
        if all.runs.insert(run.to_owned(), known).is_none() {
            all.oldest_first.push_back(run.to_owned());
        }
        if all.oldest_first.len() > MOST
            && let Some(oldest) = all.oldest_first.pop_front()
        {
            all.runs.remove(&oldest);
        }
    }

    /// The run with this id. Of runs before the last start of the gateway, those are found that are open.
    pub(super) async fn find(&self, gateway: &Gateway, run: &str) -> Result<Option<KnownRun>, RequestError> {
        let known = self.lock().runs.get(run).cloned();
        if let Some(known) = known
            && gateway.session(&known.session).is_ok()
        {
            return Ok(Some(known));
        }
        if let Some((session, id)) = run.split_once('/')
            && let Some(session) = find(gateway, session)?
        {
            let state = History::newest(gateway, &session, 1).await?.state;
            let has_turn = state.turns.iter().any(|turn| turn.turn.as_str() == id);
            let turn = has_turn.then(|| Wanted::Turn(TurnId::from(id)));
            let wanted = turn.or_else(|| prompt_where(&state, |prompt| prompt.prompt.as_str() == id));
            return Ok(wanted.map(|wanted| KnownRun { session, wanted }));
        }
        for entry in gateway.sessions_at_work() {
            let state = History::newest(gateway, &entry.id, 1).await?.state;
            if let Some(wanted) = prompt_where(&state, |prompt| prompt.key.as_deref() == Some(run)) {
                return Ok(Some(KnownRun { session: entry.id, wanted }));
            }
        }
        Ok(None)
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
        let known =
            || KnownRun { session: SessionId::from("ses_1"), wanted: Wanted::Prompt(PromptId::from("p1")) };
        for number in 0..=MOST {
            runs.add(&number.to_string(), known());
            runs.add(&number.to_string(), known());
        }
        let all = runs.lock();
        assert_eq!((all.runs.len(), all.oldest_first.len()), (MOST, MOST));
        assert!(!all.runs.contains_key("0") && all.runs.contains_key("1"));
    }
}
