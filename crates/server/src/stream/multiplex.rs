//! Several sessions on one WebSocket: the states of all sessions, and the logs of those that the client
//! subscribes to.
//!
//! A socket buffers one piece at a time, however many sessions it carries: a subscription is asked for its
//! next frames when the last ones were sent. So a slow client costs no memory, as on a stream of one
//! session.

use super::carrier::{Carrier, GONE};
use super::encoder::Form;
use super::heartbeat::HeartbeatTimer;
use super::hub::{End, Hubs};
use super::session_states::{CAUGHT_UP, GATHER, status};
use super::subscriber::{Piece, Subscriber};
use super::websocket::{CloseReason, broken, close};
use crate::json_errors;
use crate::problem::{Kind, Problem};
use axum::Error;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use futures_util::stream::{FuturesUnordered, SplitSink, SplitStream};
use futures_util::{FutureExt, SinkExt, StreamExt};
use memchr::{memchr_iter, memmem};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use turnstream_gateway::SessionWatcher;
use turnstream_model::cursor::FrameCursor;
use turnstream_model::id::SessionId;

/// Most sessions on one socket.
const MOST_SESSIONS: usize = 256;
/// Messages of a client that may wait to be handled.
const MOST_UNREAD: usize = 16;

/// A message of a client.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientMessage {
    subscribe: Option<SessionId>,
    unsubscribe: Option<SessionId>,
    after: Option<String>,
}

/// The request in a message.
enum ClientRequest {
    Subscribe(SessionId, FrameCursor),
    Unsubscribe(SessionId),
}

/// The next piece of a subscription, together with its subscriber.
type Next = Abortable<BoxFuture<'static, (u64, SessionId, Subscriber, Piece)>>;

/// One socket with its subscriptions.
struct Multiplex {
    hubs: Arc<Hubs>,
    sink: SplitSink<WebSocket, Message>,
    /// The next piece of every subscription.
    waiting: FuturesUnordered<Next>,
    /// The number of each session's subscription: an ended subscription may still deliver a last piece.
    subscriptions: HashMap<SessionId, (u64, AbortHandle)>,
    last: u64,
}

/// Serves one socket until one side ends. `closing` returns when the gateway shuts down, whether or not the
/// client reads.
pub(crate) async fn serve_sessions(
    socket: WebSocket,
    hubs: Arc<Hubs>,
    watcher: SessionWatcher,
    every: Duration,
    closing: impl Future<Output = ()>,
) {
    let (sink, mut source) = socket.split();
    let (waiting, subscriptions) = (FuturesUnordered::new(), HashMap::new());
    let mut multiplex = Multiplex { hubs, sink, waiting, subscriptions, last: 0 };
    let (received, messages) = mpsc::channel(MOST_UNREAD);
    let reason = tokio::select! {
        ended = multiplex.run(watcher, messages, every) => ended.unwrap_or_else(broken),
        () = read_until_closed(&mut source, received) => CloseReason::Gone,
        () = closing => CloseReason::Closing,
    };
    close(&mut multiplex.sink, &mut source, reason).await;
}

/// Passes the client's messages on until it closes the socket.
async fn read_until_closed(source: &mut SplitStream<WebSocket>, received: mpsc::Sender<Message>) {
    while let Some(Ok(message)) = source.next().await {
        let is_over = match message {
            Message::Close(_) => true,
            Message::Text(_) | Message::Binary(_) => received.send(message).await.is_err(),
            Message::Ping(_) | Message::Pong(_) => false,
        };
        if is_over {
            return;
        }
    }
}

impl Multiplex {
    async fn run(
        &mut self,
        mut watcher: SessionWatcher,
        mut messages: mpsc::Receiver<Message>,
        every: Duration,
    ) -> Result<CloseReason, Error> {
        let mut timer = HeartbeatTimer::new(every);
        let (mut show_at, mut is_first) = (Instant::now(), true);
        loop {
            let gathered = tokio::time::sleep_until(show_at);
            let states = async {
                gathered.await;
                watcher.next().await
            };
            tokio::select! {
                Some(message) = messages.recv() => self.answer(&message).await?,
                entries = states => {
                    for entry in &entries {
                        self.sink.feed(Message::text(status(entry))).await?;
                    }
                    if std::mem::take(&mut is_first) {
                        self.sink.feed(Message::text(CAUGHT_UP)).await?;
                    }
                    self.sink.flush().await?;
                    show_at = Instant::now() + GATHER;
                }
                Some(next) = self.waiting.next(), if !self.waiting.is_empty() => match next {
                    Ok((number, session, subscriber, piece)) => {
                        if let Some(reason) = self.send_piece(number, session, subscriber, piece).await? {
                            return Ok(reason);
                        }
                    }
                    // The subscription was ended.
                    Err(_aborted) => continue,
                },
                () = timer.due() => self.sink.send(Message::Ping(Bytes::new())).await?,
            }
            timer.sent();
        }
    }

    async fn answer(&mut self, message: &Message) -> Result<(), Error> {
        match parse_request(message) {
            Ok(ClientRequest::Subscribe(session, cursor)) => self.subscribe(session, &cursor).await,
            Ok(ClientRequest::Unsubscribe(session)) => {
                self.unsubscribe(&session);
                let ended = json!({"session": session, "type": "stream", "outcome": "unsubscribed"});
                self.sink.send(Message::text(ended.to_string())).await
            }
            Err(problem) => self.refuse(None, &problem).await,
        }
    }

    /// Subscribes to a session. A second subscription replaces the first.
    async fn subscribe(&mut self, session: SessionId, cursor: &FrameCursor) -> Result<(), Error> {
        self.unsubscribe(&session);
        if self.subscriptions.len() >= MOST_SESSIONS {
            let detail = format!(
                "a socket carries at most {MOST_SESSIONS} sessions, and {session} is one more; unsubscribe from another \
                 one, or open another socket"
            );
            return self.refuse(Some(&session), &Problem::new(Kind::BadBody, detail)).await;
        }
        match Subscriber::open(self.hubs.clone(), session.clone(), cursor, Form::native(Carrier::Lines)).await
        {
            Ok((subscriber, outcome)) => {
                let outcome = labelled(&session, outcome.to_json().as_bytes());
                self.sink.send(Message::Text(text(outcome)?)).await?;
                self.last += 1;
                self.queue_next(self.last, session, subscriber);
                Ok(())
            }
            Err(error) => self.refuse(Some(&session), &Problem::from(error)).await,
        }
    }

    fn unsubscribe(&mut self, session: &SessionId) {
        if let Some((_, handle)) = self.subscriptions.remove(session) {
            handle.abort();
        }
    }

    fn queue_next(&mut self, number: u64, session: SessionId, mut subscriber: Subscriber) {
        let (handle, registration) = AbortHandle::new_pair();
        self.subscriptions.insert(session.clone(), (number, handle));
        let next = async move {
            let piece = subscriber.next().await;
            (number, session, subscriber, piece)
        };
        self.waiting.push(Abortable::new(next.boxed(), registration));
    }

    /// Sends one piece of a subscription, and asks for the next. The socket outlives its subscriptions.
    async fn send_piece(
        &mut self,
        number: u64,
        session: SessionId,
        subscriber: Subscriber,
        piece: Piece,
    ) -> Result<Option<CloseReason>, Error> {
        if self.subscriptions.get(&session).is_none_or(|(current, _)| *current != number) {
            return Ok(None);
        }
        match piece {
            Piece::Frames(lines) => {
                let mut start = 0;
                for end in memchr_iter(b'\n', &lines) {
                    let frame = labelled(&session, &lines[start..end]);
                    start = end + 1;
                    self.sink.feed(Message::Text(text(frame)?)).await?;
                }
                self.sink.flush().await?;
                self.queue_next(number, session, subscriber);
            }
            Piece::End(End::Closing) => return Ok(Some(CloseReason::Closing)),
            // `Behind` is handled by the subscriber, and does not end a stream.
            Piece::End(End::Gone | End::Behind) => {
                self.subscriptions.remove(&session);
                self.sink.send(Message::Text(text(labelled(&session, GONE.as_bytes()))?)).await?;
            }
            Piece::End(End::Failed(error)) => {
                self.subscriptions.remove(&session);
                let problem = Problem::new(Kind::LogFailed, error.to_string());
                self.refuse(Some(&session), &problem).await?;
            }
        }
        Ok(None)
    }

    async fn refuse(&mut self, session: Option<&SessionId>, problem: &Problem) -> Result<(), Error> {
        let mut frame = json!({"type": "error", "problem": problem.body()});
        if let Some(session) = session {
            frame["session"] = json!(session);
        }
        self.sink.send(Message::text(frame.to_string())).await
    }
}

/// Parses a message.
fn parse_request(message: &Message) -> Result<ClientRequest, Problem> {
    const FORMS: &str =
        r#"send {"subscribe":"SESSION","after":"GENERATION:SEQ"} or {"unsubscribe":"SESSION"}"#;
    let bad = |why: &str| Problem::new(Kind::BadBody, format!("{why}; {FORMS}"));
    let Message::Text(said) = message else { return Err(bad("the message is binary")) };
    // Serde would accept a list of values in the right order.
    if !said.trim_start().starts_with('{') {
        return Err(bad("the message is not a JSON object"));
    }
    let said: ClientMessage = turnstream_json::from_str(said).map_err(|error| match error.classify() {
        Category::Data => bad(&format!("the message: {}", json_errors::of_member(&error))),
        Category::Io | Category::Syntax | Category::Eof => {
            bad(&format!("the message is not JSON: {}", json_errors::of_json(&error)))
        }
    })?;
    match said {
        ClientMessage { subscribe: Some(session), unsubscribe: None, after } => {
            let cursor = after.map_or_else(|| Ok(FrameCursor::default()), |after| after.parse());
            let cursor = cursor.map_err(|error| {
                let detail = format!("`after` for {session}: {error}; leave it out to get everything");
                Problem::new(Kind::BadCursor, detail)
            })?;
            Ok(ClientRequest::Subscribe(session, cursor))
        }
        ClientMessage { subscribe: None, unsubscribe: Some(session), after: None } => {
            Ok(ClientRequest::Unsubscribe(session))
        }
        ClientMessage { subscribe: Some(_), unsubscribe: Some(_), .. } => {
            Err(bad("the message has both `subscribe` and `unsubscribe`"))
        }
        ClientMessage { subscribe: None, unsubscribe: Some(_), after: Some(_) } => {
            Err(bad("`after` belongs to `subscribe`"))
        }
        ClientMessage { subscribe: None, unsubscribe: None, .. } => {
            Err(bad("the message has neither `subscribe` nor `unsubscribe`"))
        }
    }
}

/// A frame with the member `session`. An event that already has one stays as it is.
fn labelled(session: &SessionId, frame: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(frame.len() + session.as_str().len() + 16);
    if names_its_session(frame) {
        out.put_slice(frame);
        return out.freeze();
    }
    out.put_slice(b"{\"session\":");
    out.put_slice(Value::from(session.as_str()).to_string().as_bytes());
    out.put_u8(b',');
    out.put_slice(frame.get(1..).unwrap_or_default());
    out.freeze()
}

/// Whether the frame has a member `session`. Only frames that contain the word are parsed.
fn names_its_session(frame: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Named {
        session: Option<IgnoredAny>,
    }
    memmem::find(frame, b"\"session\":").is_some()
        && serde_json::from_slice::<Named>(frame).is_ok_and(|named| named.session.is_some())
}

fn text(frame: Bytes) -> Result<Utf8Bytes, Error> {
    Utf8Bytes::try_from(frame).map_err(Error::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_session_once() {
        let id = SessionId::from("ses_\"1");
        let frame = labelled(&id, br#"{"id":"g1:2","seq":2,"type":"notice","detail":{"session":"x"}}"#);
        let read: Value = serde_json::from_slice(&frame).unwrap();
        assert_eq!((&read["session"], &read["seq"]), (&json!("ses_\"1"), &json!(2)));
        let created = br#"{"id":"g1:1","seq":1,"type":"session.created","session":"ses_1"}"#;
        assert_eq!(labelled(&id, created), created.as_slice());
    }

    #[test]
    fn a_message_that_is_no_request_is_refused() {
        for bad in [
            "hello",
            "[]",
            "{}",
            r#"{"subscribe":""}"#,
            r#"{"subscribe":"a","unsubscribe":"a"}"#,
            r#"{"unsubscribe":"a","after":"1"}"#,
            r#"{"subscribe":"a","from":1}"#,
        ] {
            let refused = parse_request(&Message::text(bad)).map(drop).unwrap_err();
            assert_eq!(refused.kind(), Kind::BadBody, "{bad}");
        }
        let cursor = parse_request(&Message::text(r#"{"subscribe":"a","after":"x"}"#)).map(drop).unwrap_err();
        assert_eq!(cursor.kind(), Kind::BadCursor);
        assert!(parse_request(&Message::binary("{}")).is_err());
    }
}
