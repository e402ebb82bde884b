//! Helpers for log lines: failures that repeat, threads that panic, and callers that stop waiting.

use std::collections::HashSet;
use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tracing::{error, info, warn};
use turnstream_model::Chain;

/// The shortest time between two lines about the same failure.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Background work that is retried until it succeeds. Its failures are logged at once, then once a minute.
pub(crate) struct Retried {
    what: &'static str,
    failing: Option<Failing>,
}

struct Failing {
    logged: Instant,
    /// Failures since then.
    unlogged: u64,
}

impl Retried {
    /// `what` is the subject of the line: `what failed, and is retried`.
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, failing: None }
    }

    /// Returns the value of a step that succeeded, or logs its error.
    pub(crate) fn note<T, E: Error + 'static>(&mut self, result: Result<T, E>) -> Option<T> {
        match result {
            Ok(value) => {
                if self.failing.take().is_some() {
                    info!("{} succeeds again", self.what);
                }
                Some(value)
            }
            Err(error) => {
                self.failed(&error);
                None
            }
        }
    }

    fn failed(&mut self, error: &(dyn Error + 'static)) {
        let repeated = match &mut self.failing {
            Some(failing) if failing.logged.elapsed() < AGAIN_AFTER => {
                failing.unlogged += 1;
                return;
            }
            Some(failing) => failing.unlogged + 1,
            None => 1,
        };
        self.failing = Some(Failing { logged: Instant::now(), unlogged: 0 });
        warn!(error = %Chain(error), repeated, "{} failed, and is retried", self.what);
    }
}

/// Commits that took long. A slow disk is logged once a minute, not once per commit.
#[derive(Default)]
pub(crate) struct SlowCommits {
    logged: Option<Instant>,
    unlogged: u64,
}

impl SlowCommits {
    /// A commit that takes longer is slow. A healthy disk needs one or two milliseconds.
    const SLOW: Duration = Duration::from_secs(1);

    pub(crate) fn note(&mut self, events: usize, took: Duration) {
        if took < Self::SLOW {
            return;
        }
        self.unlogged += 1;
        if self.logged.is_some_and(|logged| logged.elapsed() < AGAIN_AFTER) {
            return;
        }
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let commits = std::mem::take(&mut self.unlogged);
        warn!(duration_ms, events, commits, "slow commit");
        self.logged = Some(Instant::now());
    }
}

/// Stored folds that cannot be used. Each session is logged once: its readers rebuild it on every request.
#[derive(Default)]
pub(crate) struct DamagedFolds {
    logged: Mutex<HashSet<i64>>,
}

impl DamagedFolds {
    /// `key` and `session` name the session to the database and to a person.
    pub(crate) fn note(&self, key: i64, session: impl FnOnce() -> String, error: &(dyn Error + 'static)) {
        // An insert cannot panic half-way.
        if self.logged.lock().unwrap_or_else(PoisonError::into_inner).insert(key) {
            let (session, error) = (session(), Chain(error));
            warn!(session, %error, "a stored fold is damaged; it is rebuilt from the events");
        }
    }
}

/// Joins a thread of the log, and logs its panic. The message of the panic is on standard error, and not
/// here: it may quote the text that the thread worked on.
pub(crate) fn join(thread: JoinHandle<()>) {
    let name = thread.thread().name().unwrap_or_default().to_owned();
    if thread.join().is_err() {
        error!(thread = name, "a thread of the log panicked; standard error has the message");
    }
}

/// Answers a caller, who may have stopped waiting: then nobody needs the answer.
pub(crate) fn answer<T>(caller: oneshot::Sender<T>, value: T) {
    drop(caller.send(value));
}

#[cfg(test)]
mod tests {
    use super::{Retried, SlowCommits};
    use std::io;
    use std::time::Duration;
    use turnstream_testkit::diagnostics::{Level, Line, capture};

    fn told(lines: &[Line], word: &str) -> Vec<(Level, String)> {
        let lines = lines.iter().filter(|line| line.to_string().contains(word));
        lines.map(|line| (line.level, line.message.clone())).collect()
    }

    #[test]
    fn work_that_fails_again_and_again_is_logged_once_and_once_more_when_it_succeeds() {
        let ((), lines) = capture(|| {
            let mut retried = Retried::new("polishing");
            for _ in 0..100 {
                assert_eq!(retried.note(Err::<(), _>(io::Error::other("no cloth"))), None);
            }
            assert_eq!(retried.note(Ok::<_, io::Error>(7)), Some(7));
            retried.note(Ok::<_, io::Error>(8));
        });
        let expected = [
            (Level::WARN, "polishing failed, and is retried".to_owned()),
            (Level::INFO, "polishing succeeds again".to_owned()),
        ];
        assert_eq!(told(&lines, "polishing"), expected);
        let failed = lines.iter().find(|line| line.message.starts_with("polishing failed")).unwrap();
        assert_eq!(failed.field("error"), Some("no cloth"));
    }

    #[test]
    fn a_slow_disk_is_logged_once_a_minute_and_not_per_commit() {
        let ((), lines) = capture(|| {
            let mut slow = SlowCommits::default();
            slow.note(1, Duration::from_millis(999));
            for _ in 0..100 {
                slow.note(3, Duration::from_millis(1_234));
            }
        });
        assert_eq!(told(&lines, "slow commit"), [(Level::WARN, "slow commit".to_owned())]);
        let line = lines.iter().find(|line| line.message == "slow commit").unwrap();
        assert_eq!((line.field("duration_ms"), line.field("commits")), (Some("1234"), Some("1")));
    }
}
