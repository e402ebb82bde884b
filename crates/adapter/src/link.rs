//! The link between a keeper and its agent: an adapter task and two bounded queues.

use serde_json::{Map, Value};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};
use tracing::Instrument;
use turnstream_model::event::{ApprovalOutcome, ErrorClass, Permissions, QuestionOutcome, TurnError};
use turnstream_model::id::Key;
use turnstream_model::signal::{Need, Signal};

/// Observations that may wait for the keeper. When the queue is full the adapter waits, and with it the
/// agent.
const OBSERVED_QUEUE: usize = 1_024;
/// Commands that may wait for the adapter.
const COMMAND_QUEUE: usize = 64;

/// How long an aborted adapter may take to end.
const ABORT_LIMIT: Duration = Duration::from_secs(5);

/// A command of a keeper to an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Run this prompt. The log already says that it was sent.
    Prompt {
        /// The id under which the agent will know it; from [`Agent::name_prompt`](crate::Agent::name_prompt).
        native_id: String,
        /// ACP content blocks.
        content: Vec<Value>,
    },
    /// Stop the running turn. Its end must still be observed.
    Cancel,
    /// Stop the prompt with this id, which had no turn when the command was sent.
    ///
    /// If it has started meanwhile, its turn must end. If it never started, report
    /// [`Signal::PromptRefused`]. Other prompts go on. May be repeated.
    CancelPrompt(String),
    /// The answer to a permission. It is durable, and may be repeated after a crash.
    Approve {
        /// The agent's id of the permission.
        key: Key,
        /// The decision.
        outcome: ApprovalOutcome,
        /// The id of the chosen option, if one was chosen.
        option: Option<String>,
        /// A message of the person to the agent.
        message: Option<String>,
    },
    /// The answer to a question. It is durable, and may be repeated after a crash.
    Answer {
        /// The agent's id of the question.
        key: Key,
        /// Answered or rejected.
        outcome: QuestionOutcome,
        /// The answers.
        answers: Option<Map<String, Value>>,
    },
    /// Use these settings from the next turn on. `None` changes nothing.
    Change {
        /// The model.
        model: Option<String>,
        /// The mode.
        mode: Option<String>,
        /// How permissions are answered.
        permissions: Option<Permissions>,
    },
    /// The machine lacks a fact. Answer with a signal, also if the answer is not known.
    Fetch(Need),
}

/// An observation that an adapter reports to the keeper.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly all are signals, and a box for each would cost more")]
pub enum Observed {
    /// Something happened at the agent.
    Signal(Signal),
    /// What became of a prompt that was sent, or was about to be sent, over an earlier link.
    Fate {
        /// The id it was sent under.
        native_id: String,
        /// What became of it.
        fate: Fate,
    },
    /// Everything about [`OpenWork`](crate::OpenWork) was reported. Its permissions and questions that were
    /// not repeated are gone.
    CaughtUp,
    /// The agent cannot be reached, for this reason; it may be restarting. The keeper holds prompts back
    /// until [`Observed::Back`].
    Away(String),
    /// The agent can be reached again.
    Back,
}

/// What became of a prompt that was sent over an earlier link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The agent has it. Its work is, or was, reported as signals.
    Taken,
    /// The agent never received it: it can be sent.
    NeverSeen,
    /// The agent cannot tell.
    Unknown,
}

/// The adapter's sender of observations.
#[derive(Clone)]
pub struct Observer {
    observed: mpsc::Sender<Observed>,
    background: Arc<AtomicBool>,
}

/// The keeper has dropped the link: the adapter must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the keeper of this link is gone")]
pub struct LinkEnd;

impl Observer {
    /// Reports a signal. Waits while the queue is full.
    pub async fn signal(&self, signal: Signal) -> Result<(), LinkEnd> {
        self.observed(Observed::Signal(signal)).await
    }

    /// Reports an observation. Waits while the queue is full.
    pub async fn observed(&self, observed: Observed) -> Result<(), LinkEnd> {
        self.observed.send(observed).await.map_err(|_| LinkEnd)
    }

    /// Says whether the agent works although no turn is open. Such a session is not idle.
    pub fn works_in_background(&self, works: bool) {
        self.background.store(works, Ordering::Relaxed);
    }

    /// Returns when the keeper has dropped the link.
    pub async fn gone(&self) {
        self.observed.closed().await;
    }
}

/// The keeper's side of a link. Dropping it aborts the adapter task, which must leave no process behind.
pub struct Link {
    /// Why the agent must not be prompted yet.
    away: Option<String>,
    commands: Option<mpsc::Sender<Command>>,
    observed: mpsc::Receiver<Observed>,
    background: Arc<AtomicBool>,
    /// `None` once the task has ended and its result was read.
    adapter: Option<JoinHandle<()>>,
}

impl Link {
    /// Starts an adapter task. It ends when its commands end, or when the agent is gone for good. Before
    /// the latter it reports [`Signal::LinkLost`]; for a task that panics, the link reports it. The task runs
    /// in the current `tracing` span.
    pub fn spawn<F>(adapter: impl FnOnce(mpsc::Receiver<Command>, Observer) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (commands, received) = mpsc::channel(COMMAND_QUEUE);
        let (sender, observed) = mpsc::channel(OBSERVED_QUEUE);
        let background = Arc::new(AtomicBool::new(false));
        let observer = Observer { observed: sender.clone(), background: Arc::clone(&background) };
        let adapter = adapter(received, observer);
        // Holds a sender, so that the observations end only when the task ends.
        let task = async move {
            adapter.await;
            drop(sender);
        };
        let adapter = Some(tokio::spawn(task.in_current_span()));
        Self { away: None, commands: Some(commands), observed, background, adapter }
    }

    /// Marks the agent as away from the start, for this reason: no prompt before [`Observed::Back`].
    pub fn away(mut self, reason: impl Into<String>) -> Self {
        self.away = Some(reason.into());
        self
    }

    /// Why the agent must not be prompted yet, if the link was made so.
    pub fn begins_away(&self) -> Option<&str> {
        self.away.as_deref()
    }

    /// Whether the agent works although no turn is open.
    pub fn works_in_background(&self) -> bool {
        self.background.load(Ordering::Relaxed)
    }

    /// Sends a command. False when the adapter has ended: the reason was reported as an observation.
    pub async fn tell(&self, command: Command) -> bool {
        match &self.commands {
            Some(commands) => commands.send(command).await.is_ok(),
            None => false,
        }
    }

    /// The next observation; `None` when the adapter has ended. A panic of the adapter is observed as
    /// [`Signal::LinkLost`]. Safe to drop and call again.
    pub async fn observe(&mut self) -> Option<Observed> {
        if let Some(observed) = self.observed.recv().await {
            return Some(observed);
        }
        let ended = self.adapter.as_mut()?.await;
        self.adapter = None;
        let lost = ended.is_err_and(|error| log_panic(&error));
        lost.then(|| {
            let error = TurnError::new(ErrorClass::AgentExited, "the agent's adapter panicked");
            Observed::Signal(Signal::LinkLost(error))
        })
    }

    /// The next observation if it has already arrived.
    pub fn try_observe(&mut self) -> Option<Observed> {
        self.observed.try_recv().ok()
    }

    /// Ends the adapter: lets it finish until the deadline, then aborts it. It has ended when this returns.
    pub async fn stop(mut self, deadline: Duration) {
        self.commands = None;
        self.observed.close();
        // It stays in `self`: a caller that drops this future aborts the adapter.
        let Some(adapter) = &mut self.adapter else { return };
        let ended = match tokio::time::timeout(deadline, &mut *adapter).await {
            Ok(ended) => ended,
            Err(_) => {
                tracing::warn!(?deadline, "the adapter did not end in time and is aborted");
                adapter.abort();
                // It ends at its next await. A task that never awaits must not block the keeper.
                match tokio::time::timeout(ABORT_LIMIT, &mut *adapter).await {
                    Ok(ended) => ended,
                    Err(_) => {
                        let limit = ABORT_LIMIT;
                        tracing::error!(?limit, "the adapter does not end, not even when aborted");
                        return;
                    }
                }
            }
        };
        if let Err(error) = ended {
            log_panic(&error);
        }
    }
}

/// Logs that an adapter panicked. False for one that was aborted. The message of the panic may quote the
/// agent, so it is only in the line for debugging.
fn log_panic(error: &JoinError) -> bool {
    if error.is_panic() {
        tracing::error!("the adapter of an agent panicked");
        tracing::debug!(%error, "how the adapter panicked");
    }
    error.is_panic()
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(adapter) = &self.adapter {
            adapter.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnstream_testkit::diagnostics::{Capture, Level};

    /// What the agent says. It may be text of a model.
    const AGENT_TEXT: &str = "the model said blue";

    #[tokio::test]
    async fn an_adapter_that_panics_is_reported_as_lost_after_its_observations_and_logged() {
        let capture = Capture::start();
        let mut link = Link::spawn(|_commands, observer| async move {
            observer.observed(Observed::Back).await.unwrap();
            panic!("{AGENT_TEXT}");
        });
        assert_eq!(link.observe().await, Some(Observed::Back));
        let error = TurnError::new(ErrorClass::AgentExited, "the agent's adapter panicked");
        assert_eq!(link.observe().await, Some(Observed::Signal(Signal::LinkLost(error))));
        assert_eq!(link.observe().await, None, "it is lost once");
        assert!(!link.tell(Command::Cancel).await);
        link.stop(Duration::from_secs(60)).await;
        let panicked = |line: &&turnstream_testkit::diagnostics::Line| line.message.contains("panicked");
        let errors = capture.at_least(Level::ERROR);
        assert_eq!(errors.iter().filter(panicked).count(), 1, "{}", capture.text());
        let shown = capture.at_least(Level::INFO);
        assert!(shown.iter().all(|line| !line.to_string().contains(AGENT_TEXT)), "{}", capture.text());
    }

    #[tokio::test]
    async fn an_adapter_that_panics_while_it_is_stopped_is_logged() {
        let capture = Capture::start();
        let link = Link::spawn(|mut commands, _observer| async move {
            while commands.recv().await.is_some() {}
            panic!("{AGENT_TEXT}");
        });
        link.stop(Duration::from_secs(60)).await;
        capture.until(|line| line.message == "the adapter of an agent panicked").await;
    }

    #[tokio::test]
    async fn an_adapter_that_ends_by_itself_is_no_panic() {
        let mut link = Link::spawn(|_commands, _observer| async {});
        assert_eq!((link.observe().await, link.observe().await), (None, None));
        link.stop(Duration::from_secs(60)).await;
    }
}
