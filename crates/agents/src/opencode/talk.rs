//! A conversation with a real server: its events, its answers and its clock.

use super::client::Client;
use super::conduct::{Answer, Call};
use super::hands::{self, Hands};
use super::rest::SessionRef;
use super::subscription::{BusItem, Closed, Subscription};
use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::{self, AbortHandle, JoinSet};
use tokio::time::{Instant, timeout};
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::time::Time;

/// What one call may take, however many requests it makes. A conversation waits a little longer.
const LONGEST: Duration = Duration::from_secs(150);

/// The time as a conversation counts it: it begins as the time of day, and never goes back.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    began: Instant,
    at: Time,
}

impl Clock {
    pub(super) fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { began: Instant::now(), at: Time(since.as_millis() as u64) }
    }

    pub(super) fn now(&self) -> Time {
        self.at.plus_millis(self.began.elapsed().as_millis() as u64)
    }

    pub(super) fn moment(&self, time: Time) -> Instant {
        self.began + Duration::from_millis(time.0.saturating_sub(self.at.0))
    }
}

/// The way to the server.
pub(super) struct Way {
    hands: Hands,
    subscription: Subscription,
    calls: JoinSet<Option<Answer>>,
    /// The questions what the server has, as far as they run.
    questions: Vec<AbortHandle>,
    /// What the calls that run are answered with if they panic.
    unanswered: HashMap<task::Id, Option<Answer>>,
    /// The subscription has said that it is closed. It would say so again and again.
    closed: bool,
}

/// What came on it.
pub(super) enum News {
    Item(BusItem),
    Answer(Answer),
}

impl Way {
    /// Subscribes to the events of a session.
    pub(super) fn new(client: &Client, at: &SessionRef) -> Self {
        let subscription = client.bus(&at.directory).subscribe(&at.id);
        let hands = Hands { client: client.clone(), at: at.clone() };
        let (calls, questions) = (JoinSet::new(), Vec::new());
        Self { hands, subscription, calls, questions, unanswered: HashMap::new(), closed: false }
    }

    /// Waits until events are seen.
    pub(super) async fn connected(&mut self) -> Result<(), Closed> {
        loop {
            match self.subscription.next().await {
                BusItem::Connected { .. } => return Ok(()),
                BusItem::Closed { reason } => return Err(reason),
                BusItem::Event(_)
                | BusItem::Durable { .. }
                | BusItem::Lost { .. }
                | BusItem::Lagged { .. } => {}
            }
        }
    }

    /// Begins a call.
    pub(super) fn begin(&mut self, call: Call) {
        if let Call::Adopt(child) = &call {
            return self.subscription.adopt(child);
        }
        let unanswered = call.unanswered();
        let is_question = matches!(call, Call::Shelf { .. });
        let limit = (self.hands.client.timeouts().request * 4).min(LONGEST);
        let (made, too_late) = (self.hands.clone().make(call), unanswered.clone());
        let made = async move { timeout(limit, made).await.unwrap_or(too_late) };
        let call = self.calls.spawn(made);
        self.unanswered.insert(call.id(), unanswered);
        self.questions.retain(|question| !question.is_finished());
        self.questions.extend(is_question.then_some(call));
    }

    /// Gives up what was asked before the stream was there again. It is asked anew, and a server that was
    /// just starting takes requests which it never answers.
    fn drop_questions(&mut self) {
        self.questions.drain(..).for_each(|question| question.abort());
    }

    /// The next thing that comes. Safe to cancel.
    pub(super) async fn news(&mut self) -> News {
        loop {
            tokio::select! {
                biased;
                Some(made) = self.calls.join_next_with_id(), if !self.calls.is_empty() => {
                    let answer = match made {
                        Ok((id, answer)) => {
                            self.unanswered.remove(&id);
                            answer
                        }
                        // It panicked or was given up. The conversation waits for its answer all the same.
                        Err(error) => self.unanswered.remove(&error.id()).flatten(),
                    };
                    if let Some(answer) = answer {
                        return News::Answer(answer);
                    }
                }
                item = self.subscription.next(), if !self.closed => {
                    self.closed = matches!(item, BusItem::Closed { .. });
                    if matches!(item, BusItem::Connected { gap: true }) {
                        self.drop_questions();
                    }
                    return News::Item(item);
                }
                else => std::future::pending().await,
            }
        }
    }

    /// Waits until every call that was begun has been answered.
    pub(super) async fn settled(&mut self) {
        while self.calls.join_next().await.is_some() {}
        self.unanswered.clear();
    }

    /// Whether the server works on the session.
    pub(super) async fn is_busy(&self) -> Result<bool, TurnError> {
        self.hands.is_busy().await.map_err(|error| hands::turn_error(&error))
    }
}

/// What became of the stream, in the words of a conversation.
pub(super) enum Heard {
    Event(std::sync::Arc<super::event::Event>),
    Lost(String),
    Gap(String),
    Closed(TurnError),
    Nothing,
}

impl Heard {
    pub(super) fn of(item: BusItem) -> Self {
        match item {
            BusItem::Event(event) => Self::Event(event),
            BusItem::Connected { gap: false } | BusItem::Durable { .. } => Self::Nothing,
            BusItem::Lost { reason, attempt: _ } => Self::Lost(reason.to_string()),
            BusItem::Connected { gap: true } => {
                Self::Gap("the event stream of opencode was cut and is there again".to_owned())
            }
            BusItem::Lagged { why } => Self::Gap(format!("events of opencode were left out: {why:?}")),
            BusItem::Closed { reason } => Self::Closed(closed(&reason)),
        }
    }
}

/// A stream that cannot be opened fails for the reason it cannot: a wrong password is not a broken connection.
pub(super) fn closed(reason: &Closed) -> TurnError {
    match reason.cause() {
        Some(error) => hands::turn_error(error),
        None => TurnError::new(ErrorClass::TransportLost, reason.to_string()),
    }
}
