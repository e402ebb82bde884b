//! The link between a keeper and its agent: an adapter task and two bounded queues.

use serde_json::{Map, Value};
use std::future::Future;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::Instrument;
use turnstream_model::event::{ApprovalOutcome, Permissions, QuestionOutcome};
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
pub struct Observer(mpsc::Sender<Observed>);

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
        self.0.send(observed).await.map_err(|_| LinkEnd)
    }

    /// Returns when the keeper has dropped the link.
    pub async fn gone(&self) {
        self.0.closed().await;
    }
}

/// The keeper's side of a link. Dropping it aborts the adapter task, which must leave no process behind.
pub struct Link {
    /// Why the agent must not be prompted yet.
    away: Option<String>,
    commands: Option<mpsc::Sender<Command>>,
    observed: mpsc::Receiver<Observed>,
    adapter: JoinHandle<()>,
}

impl Link {
    /// Starts an adapter task. It ends when its commands end, or when the agent is gone for good. Before
    /// the latter it reports [`Signal::LinkLost`]. The task runs in the current `tracing` span.
    pub fn spawn<F>(adapter: impl FnOnce(mpsc::Receiver<Command>, Observer) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (commands, received) = mpsc::channel(COMMAND_QUEUE);
        let (sender, observed) = mpsc::channel(OBSERVED_QUEUE);
        let adapter = tokio::spawn(adapter(received, Observer(sender)).in_current_span());
        Self { away: None, commands: Some(commands), observed, adapter }
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

    /// Sends a command. False when the adapter has ended: the reason was reported as an observation.
    pub async fn tell(&self, command: Command) -> bool {
        match &self.commands {
            Some(commands) => commands.send(command).await.is_ok(),
            None => false,
        }
    }

    /// The next observation; `None` when the adapter has ended.
    pub async fn observe(&mut self) -> Option<Observed> {
        self.observed.recv().await
    }

    /// The next observation if it has already arrived.
    pub fn try_observe(&mut self) -> Option<Observed> {
        self.observed.try_recv().ok()
    }

    /// Ends the adapter: lets it finish until the deadline, then aborts it. It has ended when this returns.
    pub async fn stop(mut self, deadline: Duration) {
        self.commands = None;
        self.observed.close();
        if tokio::time::timeout(deadline, &mut self.adapter).await.is_err() {
            tracing::warn!(?deadline, "the adapter did not end in time and is aborted");
            self.adapter.abort();
            // It ends at its next await. A task that never awaits must not block the keeper.
            if tokio::time::timeout(ABORT_LIMIT, &mut self.adapter).await.is_err() {
                tracing::error!(limit = ?ABORT_LIMIT, "the adapter does not end, not even when aborted");
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.adapter.abort();
    }
}
