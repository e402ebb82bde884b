//! The wire between a keeper and its agent: two bounded queues and a task between them.

use serde_json::{Map, Value};
use std::future::Future;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use turnstream_model::event::{ApprovalOutcome, Permissions, QuestionOutcome};
use turnstream_model::id::Key;
use turnstream_model::signal::{Need, Signal};

/// Observations that may wait for the keeper; then the adapter waits, and with it the agent.
const OBSERVED: usize = 1_024;
/// Commands that may wait for the adapter.
const COMMANDS: usize = 64;

/// How long an adapter that was aborted may go on.
const STUCK: Duration = Duration::from_secs(5);

/// What a keeper tells an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Run this prompt. That it was sent is durable.
    Prompt {
        /// The name under which the agent will know it.
        native_id: String,
        /// ACP content blocks.
        content: Vec<Value>,
    },
    /// Stop the turn that is running. Its end is still to be observed.
    Cancel,
    /// Stop the prompt that was sent under this name and had no turn when this was said. If it began meanwhile, its turn is to
    /// end; if it never did, [`Signal::PromptRefused`] says so. What another prompt does goes on. May be repeated.
    CancelPrompt(String),
    /// The answer to an ask. It is durable. May be repeated after a crash.
    Approve {
        /// The agent's name of the ask.
        key: Key,
        /// What was decided.
        outcome: ApprovalOutcome,
        /// Which of the offered answers it was.
        option: Option<String>,
        /// What the person said with it.
        message: Option<String>,
    },
    /// The answer to a question. It is durable. May be repeated after a crash.
    Answer {
        /// The agent's name of the question.
        key: Key,
        /// How it was settled.
        outcome: QuestionOutcome,
        /// The answers.
        answers: Option<Map<String, Value>>,
    },
    /// Use these from the next turn on; `None` changes nothing.
    Change {
        /// The model.
        model: Option<String>,
        /// The mode.
        mode: Option<String>,
        /// What becomes of asks.
        permissions: Option<Permissions>,
    },
    /// A fact is missing: answer with a signal, also when the answer is that it is not known.
    Fetch(Need),
}

/// What a link tells its keeper.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly all are signals, and a box for each would cost more")]
pub enum Observed {
    /// Something happened at the agent.
    Signal(Signal),
    /// What the agent says of a prompt that an earlier owner sent, or was about to send.
    Fate {
        /// The name it was sent under.
        native_id: String,
        /// What became of it.
        fate: Fate,
    },
    /// Everything about what was left open has been said. Asks and questions that were left and not repeated are gone.
    CaughtUp,
    /// The agent cannot be reached for now, for this reason. It may be starting again; prompts are better
    /// kept until it is [`Observed::Back`].
    Away(String),
    /// It can be reached again.
    Back,
}

/// What became of a prompt that was sent before a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The agent has it: what it does with it comes as signals, or came already.
    Taken,
    /// The agent never had it: it can be sent.
    NeverSeen,
    /// The agent cannot say.
    Unknown,
}

/// The adapter's side of the observations.
#[derive(Clone)]
pub struct Observer(mpsc::Sender<Observed>);

/// The keeper is gone: the adapter ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the keeper of this link is gone")]
pub struct LinkEnd;

impl Observer {
    /// Reports a signal; waits while the keeper has enough to do.
    pub async fn signal(&self, signal: Signal) -> Result<(), LinkEnd> {
        self.observed(Observed::Signal(signal)).await
    }

    /// Reports anything; waits while the keeper has enough to do.
    pub async fn observed(&self, observed: Observed) -> Result<(), LinkEnd> {
        self.0.send(observed).await.map_err(|_| LinkEnd)
    }

    /// Returns when the keeper is gone.
    pub async fn gone(&self) {
        self.0.closed().await;
    }
}

/// The keeper's side of one link. When it is dropped the adapter is aborted, which must leave no process behind.
pub struct Link {
    /// Why the agent is not to be prompted yet.
    away: Option<String>,
    commands: Option<mpsc::Sender<Command>>,
    observed: mpsc::Receiver<Observed>,
    adapter: JoinHandle<()>,
}

impl Link {
    /// Starts an adapter. It ends when its commands end, or when the agent is gone for good, of which it sends
    /// [`Signal::LinkLost`] first.
    pub fn spawn<F>(adapter: impl FnOnce(mpsc::Receiver<Command>, Observer) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (commands, received) = mpsc::channel(COMMANDS);
        let (sender, observed) = mpsc::channel(OBSERVED);
        let adapter = tokio::spawn(adapter(received, Observer(sender)));
        Self { away: None, commands: Some(commands), observed, adapter }
    }

    /// The same; its agent is not to be prompted before [`Observed::Back`], for this reason.
    pub fn away(mut self, reason: impl Into<String>) -> Self {
        self.away = Some(reason.into());
        self
    }

    /// Why it is not to be prompted yet, if it is so when the link is made.
    pub fn begins_away(&self) -> Option<&str> {
        self.away.as_deref()
    }

    /// Tells the agent something. False when the adapter has ended; the reason comes, or came, as an observation.
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

    /// An observation that is already here.
    pub fn try_observe(&mut self) -> Option<Observed> {
        self.observed.try_recv().ok()
    }

    /// Ends the adapter in good order, and by force after the deadline. It has ended when this returns.
    pub async fn stop(mut self, deadline: Duration) {
        self.commands = None;
        self.observed.close();
        if tokio::time::timeout(deadline, &mut self.adapter).await.is_err() {
            self.adapter.abort();
            // At its next await. One that never comes to one holds up nobody for ever.
            let _ = tokio::time::timeout(STUCK, &mut self.adapter).await;
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.adapter.abort();
    }
}
