//! When the keeper of a session that failed is started again: after a pause that doubles with every failure.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use turnstream_model::id::SessionId;

/// The first pause.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest pause. A keeper that ran this long has recovered from earlier failures.
const LONGEST: Duration = Duration::from_secs(60);

/// Sessions whose keeper failed, and whose next one has not run for long.
#[derive(Default)]
pub(crate) struct Restarts(Mutex<HashMap<SessionId, Failing>>);

#[derive(Default)]
struct Failing {
    /// The last pause.
    pause: Option<Duration>,
    /// A task waits for the end of the pause.
    is_waiting: bool,
    /// Why the session could not be opened, as it was logged.
    logged: Option<String>,
}

impl Restarts {
    /// A keeper failed after it had run for this long. Returns the pause before the next one, or `None` if
    /// somebody waits for that already: a client's request can start a keeper during a pause.
    pub(super) fn begin_pause(&self, id: &SessionId, ran: Duration) -> Option<Duration> {
        let mut sessions = self.lock();
        let failing = sessions.entry(id.clone()).or_default();
        if ran >= LONGEST {
            failing.pause = None;
        }
        if std::mem::replace(&mut failing.is_waiting, true) {
            return None;
        }
        let pause = failing.pause.map_or(SHORTEST, |last| (last * 2).min(LONGEST));
        failing.pause = Some(pause);
        Some(pause)
    }

    /// The pause is over.
    pub(super) fn end_pause(&self, id: &SessionId) {
        if let Some(failing) = self.lock().get_mut(id) {
            failing.is_waiting = false;
        }
    }

    /// Whether this error was not the last one of the session that was logged.
    pub(super) fn is_new(&self, id: &SessionId, error: &str) -> bool {
        let mut sessions = self.lock();
        let failing = sessions.entry(id.clone()).or_default();
        let is_new = failing.logged.as_deref() != Some(error);
        if is_new {
            failing.logged = Some(error.to_owned());
        }
        is_new
    }

    /// The session was opened: the next error is new, also if it is the same.
    pub(super) fn opened(&self, id: &SessionId) {
        if let Some(failing) = self.lock().get_mut(id) {
            failing.logged = None;
        }
    }

    /// A keeper of the session ended as it should, or there is no such session any more.
    pub(super) fn forget(&self, id: &SessionId) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Failing>> {
        // The map is valid also after a panic of its holder.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, LONGEST, Restarts, SessionId};

    /// The pauses after so many failures in a row, in seconds.
    fn pauses(restarts: &Restarts, id: &SessionId, failures: usize) -> Vec<u64> {
        let pause = |_| {
            let pause = restarts.begin_pause(id, Duration::ZERO).expect("nobody waits");
            restarts.end_pause(id);
            pause.as_secs()
        };
        (0..failures).map(pause).collect()
    }

    #[test]
    fn the_pause_doubles_up_to_a_minute_and_is_short_again_after_a_good_run() {
        let (restarts, id) = (Restarts::default(), SessionId::from("s"));
        assert_eq!(pauses(&restarts, &id, 8), [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(restarts.begin_pause(&id, LONGEST), Some(Duration::from_secs(1)));
        restarts.end_pause(&id);
        assert_eq!(pauses(&restarts, &id, 2), [2, 4]);
        restarts.forget(&id);
        assert_eq!(pauses(&restarts, &id, 1), [1]);
    }

    #[test]
    fn only_one_waits_however_many_keepers_fail() {
        let (restarts, id) = (Restarts::default(), SessionId::from("s"));
        assert!(restarts.begin_pause(&id, Duration::ZERO).is_some());
        assert_eq!(restarts.begin_pause(&id, Duration::ZERO), None);
        assert!(restarts.begin_pause(&SessionId::from("other"), Duration::ZERO).is_some());
        restarts.end_pause(&id);
        assert!(restarts.begin_pause(&id, Duration::ZERO).is_some());
    }

    #[test]
    fn an_error_is_new_once() {
        let (restarts, id) = (Restarts::default(), SessionId::from("s"));
        assert!(restarts.is_new(&id, "damaged"));
        assert!(!restarts.is_new(&id, "damaged"));
        assert!(restarts.is_new(&id, "missing"));
    }
}
