//! A hub reads one session's log and encodes it once for all readers at its tail. It exists while it has
//! readers.

use super::encoder::{Encoder, Form, ResumePoints};
use super::open_streams::OpenStreams;
use super::saved_resume_points::SavedResumePoints;
use super::tail::{Place, Tail, TailRead};
use crate::closing::Closing;
use futures_util::FutureExt;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use turnstream_gateway::{Gateway, RequestError};
use turnstream_log::{Follow, Follower};
use turnstream_model::Chain;
use turnstream_model::cursor::{Cursor, CursorOutcome, Generation, Seq};
use turnstream_model::fold::State as Fold;
use turnstream_model::id::SessionId;

/// With the generation, because a deleted session may be created again while the old one still has readers.
pub(super) type Key = (SessionId, Generation, Form);

/// The hubs of one server.
pub(crate) struct Hubs {
    gateway: Gateway,
    closing: Closing,
    streams: Arc<OpenStreams>,
    hubs: Mutex<HashMap<Key, Weak<Hub>>>,
    saved: SavedResumePoints,
}

/// A hub, and the fold it began with if it was created for this reader and needed one.
pub(crate) struct Joined {
    pub(crate) hub: Arc<Hub>,
    pub(crate) fold: Option<Arc<Fold>>,
}

/// The shared tail of one session in one dialect.
pub(crate) struct Hub {
    hubs: Arc<Hubs>,
    key: Key,
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    tail: Mutex<Tail>,
    /// Notified when a reader has everything and waits for more. The hub reads the log only then, so it is
    /// never ahead of its fastest reader, and readers of one speed share every chunk.
    wanted: Notify,
    state: watch::Sender<State>,
    /// Places from which a reader that fell behind the tail can continue.
    resume_points: Mutex<ResumePoints>,
}

/// The progress of a hub.
#[derive(Clone, Debug)]
pub(crate) struct State {
    next: Seq,
    end: Option<End>,
}

/// Why a hub or a stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The server is shutting down.
    Closing,
    /// The session was deleted.
    Gone,
    /// Retention removed the next event before a reader asked for it. Readers continue with a new hub.
    Behind,
    /// The log could not be read.
    Failed(RequestError),
}

impl Hubs {
    pub(crate) fn new(gateway: Gateway, closing: Closing, streams: Arc<OpenStreams>) -> Arc<Self> {
        Arc::new(Self {
            gateway,
            closing,
            streams,
            hubs: Mutex::default(),
            saved: SavedResumePoints::default(),
        })
    }

    pub(crate) fn streams(&self) -> &Arc<OpenStreams> {
        &self.streams
    }

    pub(crate) fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// The hub of a session, created if there is none. A new hub begins after `head`, or later if the
    /// dialect needs the fold.
    pub(crate) async fn join(
        self: &Arc<Self>,
        session: &SessionId,
        form: Form,
        generation: &Generation,
        head: Seq,
    ) -> Result<Joined, RequestError> {
        let key = (session.clone(), generation.clone(), form);
        let there = self.lock().get(&key).and_then(Weak::upgrade);
        if let Some(hub) = there {
            return Ok(Joined { hub, fold: None });
        }
        if !form.keeps_state() {
            let encoder = Encoder::resume(form, generation, &Fold::default());
            return Ok(Joined { hub: self.make(key, head, encoder)?, fold: None });
        }
        let fold = Arc::new(self.fold(session, generation).await?);
        let (read, of) = (fold.clone(), generation.clone());
        let encoder = off_thread(move || Encoder::resume(form, &of, &read)).await?;
        Ok(Joined { hub: self.make(key, fold.seq, encoder)?, fold: Some(fold) })
    }

    /// The fold of the session at its head.
    pub(crate) async fn fold(
        &self,
        session: &SessionId,
        generation: &Generation,
    ) -> Result<Fold, RequestError> {
        let mut now = self.gateway.snapshot(session).await?;
        if now.generation != *generation {
            return Err(RequestError::UnknownSession(session.clone()));
        }
        // An imported session may have another id here than in its events.
        now.state.session.id = Some(session.clone());
        Ok(now.state)
    }

    /// Creates a hub, unless another reader was faster.
    fn make(self: &Arc<Self>, key: Key, last: Seq, encoder: Encoder) -> Result<Arc<Hub>, RequestError> {
        let mut hubs = self.lock();
        if let Some(hub) = hubs.get(&key).and_then(Weak::upgrade) {
            return Ok(hub);
        }
        let (session, generation, form) = &key;
        let cursor = Cursor { generation: Some(generation.clone()), seq: last };
        let follower = self.gateway.follow(session, &cursor)?;
        let mut resume_points = ResumePoints::default();
        if form.keeps_state() {
            resume_points = self.saved.claim(&key);
            resume_points.push(encoder.resume_point(last));
        }
        let shared = Arc::new(Shared {
            tail: Mutex::new(Tail::new(form.carrier, last.next())),
            wanted: Notify::new(),
            state: watch::Sender::new(State { next: last.next(), end: None }),
            resume_points: Mutex::new(resume_points),
        });
        let run = run(self.clone(), key.clone(), shared.clone(), follower, encoder);
        let task = tokio::spawn(run).abort_handle();
        let hub = Arc::new(Hub { hubs: self.clone(), key: key.clone(), shared, task });
        hubs.insert(key, Arc::downgrade(&hub));
        Ok(hub)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Weak<Hub>>> {
        // The map is valid also after a panic of its holder.
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run(hubs: Arc<Hubs>, key: Key, shared: Arc<Shared>, mut follower: Follower, mut encoder: Encoder) {
    let feed = async {
        loop {
            shared.wanted.notified().await;
            match follower.next().await {
                Ok(Follow::Outcome(CursorOutcome::Reset { .. })) => return End::Behind,
                Ok(Follow::Outcome(CursorOutcome::Replayed { .. } | CursorOutcome::CaughtUp { .. })) => {
                    shared.wanted.notify_one();
                }
                Ok(Follow::Events(events)) => {
                    let (encoded, begun) = match encoder.encode_and_keep(&events) {
                        Ok(encoded) => encoded,
                        Err(error) => return End::Failed(RequestError::log(error)),
                    };
                    shared.resume_points().extend(begun);
                    let next = shared.tail().push(encoded);
                    shared.state.send_modify(|state| state.next = next);
                }
                Ok(Follow::Closed) => return End::Closing,
                Ok(Follow::Deleted) => return End::Gone,
                Err(error) => return End::Failed(RequestError::log(error)),
            }
        }
    };
    let (session, ..) = &key;
    // After a panic only `shared` is used: the encoder may be anywhere.
    let feed = AssertUnwindSafe(feed).catch_unwind();
    let end = tokio::select! {
        end = feed => end,
        () = hubs.closing.begun() => Ok(End::Closing),
    };
    let end = match end {
        Ok(end) => {
            log_end(session, &end);
            end
        }
        // The message is not repeated: it may quote the conversation.
        Err(_panic) => {
            tracing::error!(%session, "the encoder of a session panicked; its streams end");
            End::Failed(RequestError::log("the encoder panicked"))
        }
    };
    // The next reader creates a new hub.
    hubs.lock().remove(&key);
    shared.state.send_modify(|state| state.end = Some(end));
}

fn log_end(session: &SessionId, end: &End) {
    match end {
        End::Failed(error) => {
            tracing::warn!(%session, error = %Chain(error), "a session cannot be followed");
        }
        End::Behind => tracing::debug!(%session, "a hub was overtaken by retention"),
        End::Closing | End::Gone => {}
    }
}

impl Hub {
    /// The frames from this place on.
    pub(crate) fn read_from(self: &Arc<Self>, place: Place) -> TailRead {
        let readers = Arc::strong_count(self);
        self.shared.tail().read_from(place, readers)
    }

    /// Whether the tail has everything from this place on.
    pub(crate) fn has(&self, place: Place) -> bool {
        self.shared.tail().has(place)
    }

    /// An encoder for a reader that has everything up to this event, and the event after which it begins.
    pub(crate) fn encoder_before(&self, last: Seq) -> Option<(Encoder, Seq)> {
        let (_, generation, form) = &self.key;
        let resume_points = self.shared.resume_points();
        let resume_point = resume_points.before(last)?;
        Some((Encoder::behind(*form, generation, resume_point), resume_point.seq))
    }

    /// Asks for more frames.
    pub(crate) fn want(&self) {
        self.shared.wanted.notify_one();
    }

    /// Follows the progress.
    pub(crate) fn watch(&self) -> watch::Receiver<State> {
        self.shared.state.subscribe()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.task.abort();
        let mut hubs = self.hubs.lock();
        if hubs.get(&self.key).is_some_and(|hub| hub.strong_count() == 0) {
            hubs.remove(&self.key);
        }
        drop(hubs);
        if self.shared.state.borrow().end == Some(End::Gone) {
            return;
        }
        self.hubs.saved.save(&self.key, std::mem::take(&mut *self.shared.resume_points()));
    }
}

impl Shared {
    fn tail(&self) -> MutexGuard<'_, Tail> {
        // No code that holds the lock panics between two related changes.
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resume_points(&self) -> MutexGuard<'_, ResumePoints> {
        // The list is valid also after a panic of its holder.
        self.resume_points.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs work whose cost grows with the session on another thread.
pub(super) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RequestError> {
    tokio::task::spawn_blocking(work).await.map_err(RequestError::log)
}

impl State {
    /// Why the hub ended, if it has.
    pub(crate) fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Whether there are frames after this event, or the hub has ended.
    pub(crate) fn is_past(&self, next: Seq) -> bool {
        self.next > next || self.end.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::dialects::Offered;
    use super::super::subscriber::{Piece, Subscriber};
    use super::super::{Carrier, OpenStreams};
    use super::{Closing, End, Form, Hubs};
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::time::timeout;
    use turnstream_agents::Agent;
    use turnstream_agents::demo::{DemoAgent, DemoConfig};
    use turnstream_dialects::{Dialect, FrameSink, Repeats};
    use turnstream_gateway::{Gateway, NewSession, Settings};
    use turnstream_model::cursor::Cursor;
    use turnstream_model::event::{EventError, Known, Line};
    use turnstream_model::fold::State;
    use turnstream_testkit::diagnostics::{Capture, Level, Line as LogLine};

    /// A dialect that fails at the end of a session: it panics, or it quotes the event in its error.
    #[derive(Clone)]
    struct Fails<const PANICS: bool>;

    impl<const PANICS: bool> Dialect for Fails<PANICS> {
        const NAME: &'static str = if PANICS { "panics" } else { "fails" };
        const REPEATS: Repeats = Repeats::Nothing;
        const ID_MEMBER: &'static str = "id";

        fn resume(_: &State) -> Self {
            Self
        }

        fn replay(_: &State, _: &mut impl FrameSink) -> Self {
            Self
        }

        fn encode(&mut self, line: &Line<'_>, out: &mut impl FrameSink) -> Result<(), EventError> {
            if line.kind().is(Known::SessionEnded) {
                assert!(!PANICS, "a bug");
                let problem = serde::de::Error::custom("invalid type: string \"sesame\"");
                return Err(EventError::Malformed {
                    r#type: "session.ended".to_owned(),
                    member: "reason",
                    problem,
                });
            }
            out.frame(None, line.json());
            Ok(())
        }
    }

    static PANICS: Offered = Offered::of::<Fails<true>>();
    static FAILS: Offered = Offered::of::<Fails<false>>();

    /// The line of a stream whose dialect fails. The stream ends, and the next reader gets a new hub.
    async fn line_of_failure(dialect: &'static Offered) -> LogLine {
        let capture = Capture::start();
        let home = tempfile::tempdir().unwrap();
        let settings = Settings { roots: vec![home.path().to_owned()], ..Settings::default() };
        let agent = Arc::new(DemoAgent::new(DemoConfig::default())) as Arc<dyn Agent>;
        let agents = BTreeMap::from([("scripted".to_owned(), agent)]);
        let gateway = Gateway::open(&home.path().join("data"), settings, agents).await.unwrap();
        let new =
            NewSession { agent: "scripted".to_owned(), cwd: home.path().to_owned(), ..NewSession::default() };
        let id = gateway.create(new).await.unwrap().session.id.unwrap();
        let hubs = Hubs::new(gateway.clone(), Closing::new(), Arc::new(OpenStreams::default()));
        let form = Form { dialect, carrier: Carrier::Sse };
        let info = gateway.session(&id).unwrap();
        let cursor = Cursor { generation: Some(info.generation), seq: info.head };
        let opened = Subscriber::open(hubs.clone(), id.clone(), &cursor.into(), form).await;
        let (mut reader, _) = opened.ok().unwrap();
        let read = async {
            loop {
                if let Piece::End(end) = reader.next().await {
                    return end;
                }
            }
        };
        let (end, ended) =
            tokio::join!(timeout(Duration::from_secs(60), read), gateway.end(&id, "the test is over"));
        ended.unwrap();
        assert!(matches!(end, Ok(End::Failed(_))), "{end:?}");
        assert!(hubs.lock().is_empty());
        drop(reader);
        gateway.close().await;
        let is_wanted =
            |line: &LogLine| line.target.ends_with("::hub") && line.field("session") == Some(id.as_str());
        capture.until(is_wanted).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_panic_of_a_dialect_ends_the_streams_and_leaves_a_line() {
        let line = line_of_failure(&PANICS).await;
        assert_eq!(line.level, Level::ERROR);
        assert!(line.message.contains("panicked"), "{line}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_line_about_a_damaged_event_has_nothing_of_its_content() {
        let line = line_of_failure(&FAILS).await.to_string();
        assert!(line.contains("is damaged: member \"reason\" is malformed"), "{line}");
        assert!(!line.contains("sesame"), "{line}");
    }
}
