//! One message and its answer, for those who have no gateway: [`Client::send_message`].

mod drive;
mod reader;

use super::client::Client;
use super::conduct::{Budget, Pace};
use super::rest::SessionRef;
use futures_core::Stream;
use reader::Reader;
use serde_json::{Map, Value};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use turnstream_dialects::acp::AcpEvent;
use turnstream_model::event::{ApprovalOutcome, Permissions};
use turnstream_model::id::{ApprovalId, QuestionId};

/// Events that may wait for the one who reads them; then the conversation waits.
const WAITING: usize = 256;

/// How turns of [`Client::send_message`] behave.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnSettings {
    /// What becomes of asks. `Ask` hands them out; answer them with [`Turn::approve`] and [`Turn::answer`]. By any other
    /// rule a question is declined.
    pub permissions: Permissions,
    /// Silence of the session and its subagents after which the turn is stopped. Heartbeats do not count, and a turn that
    /// waits for a person is not silent.
    pub inactivity: Duration,
    /// How long a turn may take in all.
    pub wall_clock: Option<Duration>,
    /// Silence after which a keep-alive is handed out.
    pub keep_alive: Option<Duration>,
    /// `provider/model`.
    pub model: Option<String>,
    /// opencode's agent: `build`, `plan` and so on.
    pub mode: Option<String>,
    /// What the turn may take.
    pub budget: Budget,
    /// How long the conversation waits for signs of life.
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

/// The answer to a message, as it comes. It ends after exactly one terminator ([`AcpEvent::is_terminator`]). Dropped
/// before that, it stops the turn.
pub struct Turn {
    events: mpsc::Receiver<AcpEvent>,
    orders: mpsc::UnboundedSender<Order>,
}

enum Order {
    Cancel,
    Approve(ApprovalId, ApprovalOutcome),
    Answer(QuestionId, Option<Map<String, Value>>),
}

impl Turn {
    /// The next event; `None` after the terminator.
    pub async fn next(&mut self) -> Option<AcpEvent> {
        self.events.recv().await
    }

    /// Stops the turn; its terminator still comes.
    pub fn cancel(&self) {
        // A turn that is over has nobody who listens.
        let _ = self.orders.send(Order::Cancel);
    }

    /// Answers a permission that was asked for. The first answer counts.
    pub fn approve(&self, approval: ApprovalId, outcome: ApprovalOutcome) {
        let _ = self.orders.send(Order::Approve(approval, outcome));
    }

    /// Answers a question: for each of its questions, by its id, the chosen labels or words of one's own. Without
    /// answers it is declined. The first answer counts.
    pub fn answer(&self, question: QuestionId, answers: Option<Map<String, Value>>) {
        let _ = self.orders.send(Order::Answer(question, answers));
    }
}

impl Stream for Turn {
    type Item = AcpEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<AcpEvent>> {
        self.events.poll_recv(context)
    }
}

impl Client {
    /// Sends a message and hands out the answer. Messages to one session are sent one after the other: this one waits
    /// until the one before has its end, and for at most [`Pace::busy`] until the session rests from what others do in it.
    pub fn send_message(&self, session: &SessionRef, text: &str, settings: TurnSettings) -> Turn {
        let (sender, events) = mpsc::channel(WAITING);
        let (orders, ordered) = mpsc::unbounded_channel();
        let reader = Reader::new(sender, ordered, settings.keep_alive);
        let (client, at, text) = (self.clone(), session.clone(), text.to_owned());
        tokio::spawn(drive::run(client, at, text, settings, reader, self.place_in_queue(&session.id)));
        Turn { events, orders }
    }
}
