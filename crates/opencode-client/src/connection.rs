//! The connection between a conversation and a real server: its event stream, its calls and its clock.

use super::call_executor::{self, CallExecutor};
use super::client::Client;
use super::conversation::{Answer, Call, Conversation};
use super::event::Event;
use super::rest::SessionRef;
use super::subscription::{BusItem, Closed, Subscription};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{self, AbortHandle, JoinSet};
use tokio::time::timeout;
use turnstream_model::event::{ErrorClass, TurnError};

/// The longest time one call may take, however many requests it makes. A conversation waits a little longer.
const CALL_LIMIT: Duration = Duration::from_secs(150);

/// The connection of one conversation: a subscription to the events of its session, and the calls in flight.
pub struct ServerConnection {
    executor: CallExecutor,
    subscription: Subscription,
    calls: JoinSet<Option<Answer>>,
    /// Snapshot calls in flight.
    snapshots: Vec<AbortHandle>,
    /// For each call in flight, the answer to give if it panics or is aborted.
    fallbacks: HashMap<task::Id, Option<Answer>>,
    /// The subscription has reported [`BusItem::Closed`], and would report it again on every read.
    closed: bool,
}

/// What arrives on a connection.
#[derive(Debug)]
pub enum Incoming {
    /// A call was answered, or given up.
    Answer(Answer),
    /// An event of the session or of one of its subagents.
    Event(Arc<Event>),
    /// The event stream broke; the client reconnects.
    Lost(String),
    /// Events may have been missed: the stream was reconnected, or events were dropped.
    Gap(String),
    /// The event stream is closed for good.
    Closed(TurnError),
}

// === impl ServerConnection ===

impl ServerConnection {
    /// Subscribes to the events of a session. Must be called within a runtime.
    pub fn new(client: &Client, session: &SessionRef) -> Self {
        let subscription = client.bus(&session.directory).subscribe(&session.id);
        let executor = CallExecutor { client: client.clone(), session: session.clone() };
        let (calls, snapshots) = (JoinSet::new(), Vec::new());
        Self { executor, subscription, calls, snapshots, fallbacks: HashMap::new(), closed: false }
    }

    /// Waits until the event stream is open.
    pub async fn connected(&mut self) -> Result<(), Closed> {
        loop {
            match self.subscription.next().await {
                BusItem::Connected { .. } => return Ok(()),
                BusItem::Closed { reason } => return Err(reason),
                BusItem::Event(_) | BusItem::Lost { .. } | BusItem::Lagged { .. } => {}
            }
        }
    }

    /// Starts a call. Its answer arrives as [`Incoming::Answer`].
    pub fn start_call(&mut self, call: Call) {
        if let Call::Adopt(child) = &call {
            return self.subscription.adopt(child);
        }
        let fallback = call.unanswered();
        let name = call.name();
        let is_snapshot = matches!(call, Call::Snapshot { .. });
        let limit = (self.executor.client.timeouts().request * 4).min(CALL_LIMIT);
        let (execution, timed_out) = (self.executor.clone().execute(call), fallback.clone());
        let session = self.executor.session.id.clone();
        let execution = async move {
            match timeout(limit, execution).await {
                Ok(answer) => answer,
                Err(_) => {
                    tracing::warn!(
                        native_session = %session, call = name, ?limit,
                        "opencode did not answer a call"
                    );
                    timed_out
                }
            }
        };
        let call = self.calls.spawn(execution);
        self.fallbacks.insert(call.id(), fallback);
        self.snapshots.retain(|snapshot| !snapshot.is_finished());
        self.snapshots.extend(is_snapshot.then_some(call));
    }

    /// Starts every call that the conversation wants to make.
    pub fn start_calls_of(&mut self, conversation: &mut Conversation) {
        while let Some(call) = conversation.next_call() {
            self.start_call(call);
        }
    }

    /// Aborts snapshot calls that were sent before the stream was reconnected. The conversation asks again,
    /// and a server that was just starting accepts requests that it never answers.
    fn abort_snapshots(&mut self) {
        self.snapshots.drain(..).for_each(|snapshot| snapshot.abort());
    }

    /// Waits for the next answer or event. Safe to cancel.
    pub async fn next_incoming(&mut self) -> Incoming {
        loop {
            tokio::select! {
                biased;
                Some(finished) = self.calls.join_next_with_id(), if !self.calls.is_empty() => {
                    if let Some(answer) = self.answer_of(finished) {
                        return Incoming::Answer(answer);
                    }
                }
                item = self.subscription.next(), if !self.closed => {
                    if let Some(incoming) = self.incoming_of(item) {
                        return incoming;
                    }
                }
                else => std::future::pending().await,
            }
        }
    }

    /// The answer of a finished call. A conversation waits for an answer also when the call panicked.
    fn answer_of(&mut self, finished: Result<(task::Id, Option<Answer>), task::JoinError>) -> Option<Answer> {
        match finished {
            Ok((id, answer)) => {
                self.fallbacks.remove(&id);
                answer
            }
            Err(error) => {
                if error.is_panic() {
                    let session = &self.executor.session.id;
                    tracing::error!(native_session = %session, "a call to opencode panicked");
                    // The message of the panic may quote the server.
                    tracing::debug!(native_session = %session, %error, "how a call to opencode panicked");
                }
                self.fallbacks.remove(&error.id()).flatten()
            }
        }
    }

    /// The item in the form for a conversation; `None` for the first connect, which it knows of.
    fn incoming_of(&mut self, item: BusItem) -> Option<Incoming> {
        match item {
            BusItem::Event(event) => Some(Incoming::Event(event)),
            BusItem::Connected { gap: false } => None,
            BusItem::Connected { gap: true } => {
                self.abort_snapshots();
                Some(Incoming::Gap("the event stream of opencode was cut and is there again".to_owned()))
            }
            BusItem::Lost { reason, attempt: _ } => Some(Incoming::Lost(reason.to_string())),
            BusItem::Lagged { why } => {
                Some(Incoming::Gap(format!("events of opencode were left out: {why:?}")))
            }
            BusItem::Closed { reason } => {
                self.closed = true;
                Some(Incoming::Closed(turn_error_of(&reason)))
            }
        }
    }

    /// Waits until every call in flight has finished.
    pub async fn finish_calls(&mut self) {
        while self.calls.join_next().await.is_some() {}
        self.fallbacks.clear();
    }

    /// Asks the server whether it works on the session.
    #[cfg(feature = "acp")]
    pub(super) async fn is_busy(&self) -> Result<bool, TurnError> {
        self.executor.is_busy().await.map_err(|error| call_executor::turn_error(&error))
    }
}

/// The error of a turn whose stream is closed. If the stream could not be opened, it is the reason for
/// that: a wrong password is not a broken connection.
pub(super) fn turn_error_of(reason: &Closed) -> TurnError {
    match reason.cause() {
        Some(error) => call_executor::turn_error(error),
        None => TurnError::new(ErrorClass::TransportLost, reason.to_string()),
    }
}
