//! One message and its answer as ACP events, without a gateway: [`Client::send_message`].

mod driver;
mod message_queue;
mod reader;

use super::client::Client;
use super::conversation::{Budget, Pace};
use super::rest::SessionRef;
use futures_core::Stream;
pub(crate) use message_queue::MessageQueues;
use reader::Reader;
use serde_json::{Map, Value};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use turnstream_dialects::acp::AcpEvent;
use turnstream_model::event::{ApprovalOutcome, Permissions};
use turnstream_model::id::{ApprovalId, QuestionId};

/// Events that may wait for the reader; then the conversation waits.
const QUEUED_EVENTS: usize = 256;

/// Settings of a turn of [`Client::send_message`].
#[derive(Clone, Debug, PartialEq)]
pub struct TurnSettings {
    /// How permissions and questions are answered. `Ask` returns them as events: answer with
    /// [`Turn::approve`] and [`Turn::answer`]. The other rules decline every question.
    pub permissions: Permissions,
    /// The turn is stopped after this time without an event of the session or its subagents. Heartbeats do
    /// not count as events, and time spent waiting for a person does not count.
    pub inactivity: Duration,
    /// The longest time for the whole turn.
    pub wall_clock: Option<Duration>,
    /// A keep-alive event is sent after this time without another event.
    pub keep_alive: Option<Duration>,
    /// `provider/model`.
    pub model: Option<String>,
    /// opencode's agent: `build`, `plan` or another.
    pub mode: Option<String>,
    /// Limits on model calls, time, tokens and cost.
    pub budget: Budget,
    /// How long the conversation waits before it asks the server.
    pub pace: Pace,
}

impl Default for TurnSettings {
    fn default() -> Self {
        Self {
            permissions: Permissions::Ask,
            inactivity: Duration::from_secs(200),
            wall_clock: None,
            keep_alive: Some(Duration::from_secs(15)),
            model: None,
            mode: None,
            budget: Budget::default(),
            pace: Pace::default(),
        }
    }
}

/// The answer to a message as a stream of events. It ends with exactly one terminator
/// ([`AcpEvent::is_terminator`]). Dropping it earlier stops the turn.
pub struct Turn {
    events: mpsc::Receiver<AcpEvent>,
    commands: mpsc::UnboundedSender<TurnCommand>,
}

enum TurnCommand {
    Cancel,
    Approve(ApprovalId, ApprovalOutcome),
    Answer(QuestionId, Option<Map<String, Value>>),
}

impl Turn {
    /// The next event; `None` after the terminator.
    pub async fn next(&mut self) -> Option<AcpEvent> {
        self.events.recv().await
    }

    /// Stops the turn. Its terminator still follows.
    pub fn cancel(&self) {
        self.send(TurnCommand::Cancel);
    }

    /// Answers a permission. The first answer counts.
    pub fn approve(&self, approval: ApprovalId, outcome: ApprovalOutcome) {
        self.send(TurnCommand::Approve(approval, outcome));
    }

    /// Answers a question: by the id of each part, the chosen labels or a text. `None` declines it. The first
    /// answer counts.
    pub fn answer(&self, question: QuestionId, answers: Option<Map<String, Value>>) {
        self.send(TurnCommand::Answer(question, answers));
    }

    /// A turn that has ended takes no commands: its receiver is gone, and there is nothing to do.
    fn send(&self, command: TurnCommand) {
        drop(self.commands.send(command));
    }
}

impl Stream for Turn {
    type Item = AcpEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<AcpEvent>> {
        self.events.poll_recv(context)
    }
}

impl Client {
    /// Sends a message and returns its answer as a stream. Messages to one session run one after the other:
    /// this one waits for the end of the one before. If another client's turn runs, it waits for at most
    /// [`Pace::busy`].
    pub fn send_message(&self, session: &SessionRef, text: &str, settings: TurnSettings) -> Turn {
        let (sender, events) = mpsc::channel(QUEUED_EVENTS);
        let (commands, received) = mpsc::unbounded_channel();
        let reader = Reader::new(sender, received, settings.keep_alive);
        let (client, at, text) = (self.clone(), session.clone(), text.to_owned());
        let place = self.queues.next_place(&session.id);
        tokio::spawn(driver::run(client, at, text, settings, reader, place));
        Turn { events, commands }
    }
}
