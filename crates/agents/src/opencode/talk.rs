//! A conversation with a real server: its events, its answers and its clock.

use super::client::Client;
use super::conduct::{Answer, Call};
use super::hands::{self, Hands};
use super::rest::SessionRef;
use super::subscription::{BusItem, Closed, Loss, Subscription};
use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::{self, JoinSet};
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
        Self { hands, subscription, calls: JoinSet::new(), unanswered: HashMap::new(), closed: false }
    }

    /// Waits until events are seen.
    pub(super) async fn connected(&mut self) -> Result<(), TurnError> {
        loop {
            match self.subscription.next().await {
                BusItem::Connected { .. } => return Ok(()),
                BusItem::Closed { reason } => return Err(closed(&reason)),
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
        let limit = (self.hands.client.timeouts().request * 4).min(LONGEST);
        let (made, too_late) = (self.hands.clone().make(call), unanswered.clone());
        let made = async move { timeout(limit, made).await.unwrap_or(too_late) };
        let id = self.calls.spawn(made).id();
        self.unanswered.insert(id, unanswered);
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
                        // It panicked. The conversation waits for its answer all the same.
                        Err(error) => self.unanswered.remove(&error.id()).flatten(),
                    };
                    if let Some(answer) = answer {
                        return News::Answer(answer);
                    }
                }
                item = self.subscription.next(), if !self.closed => {
                    self.closed = matches!(item, BusItem::Closed { .. });
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
    Gap(String),
    Closed(TurnError),
    Nothing,
}

impl Heard {
    pub(super) fn of(item: BusItem) -> Self {
        match item {
            BusItem::Event(event) => Self::Event(event),
            BusItem::Connected { gap: false } | BusItem::Durable { .. } | BusItem::Lost { .. } => {
                Self::Nothing
            }
            BusItem::Connected { gap: true } => {
                Self::Gap("the event stream of opencode was cut and is there again".to_owned())
            }
            BusItem::Lagged { why } => Self::Gap(format!("events of opencode were left out: {why:?}")),
            BusItem::Closed { reason } => Self::Closed(closed(&reason)),
        }
    }
}

/// A stream that cannot be opened fails for the reason it cannot: a wrong password is not a broken connection.
fn closed(reason: &Closed) -> TurnError {
    match reason {
        Closed::Refused(error) | Closed::GaveUp { last: Loss::NotOpened(error), .. } => {
            hands::turn_error(error)
        }
        Closed::GaveUp { .. } | Closed::ReaderGone => {
            TurnError::new(ErrorClass::TransportLost, reason.to_string())
        }
    }
}
