//! A real server behind a fault proxy, with one provider for many sessions: each finds its answers by words
//! of its prompt.

use crate::seen::Watch;
use crate::support::{client, client_as, opencode, provider_of, within};
use serde_json::Value;
use std::sync::atomic::{AtomicU32, Ordering};
use turnstream_fake_provider::{Delivery, Provider, Step};
use turnstream_opencode_client::{BusSettings, Client, ClientInfo, Directory, SessionRef, TurnSettings};
use turnstream_testkit::agents::Opencode;
use turnstream_testkit::proxy::{EventMatch, FaultProxy, RequestHead};

/// Dropped in this order: the server before what it talks to.
pub(crate) struct Lab {
    pub(crate) client: Client,
    pub(crate) opencode: Opencode,
    pub(crate) proxy: FaultProxy,
    pub(crate) provider: Provider,
    places: AtomicU32,
}

impl Lab {
    pub(crate) async fn start(steps: impl IntoIterator<Item = Step>) -> Self {
        let provider = provider_of(steps).await;
        let opencode = opencode(&provider).await;
        let upstream = opencode.base_url().trim_start_matches("http://").parse().unwrap();
        let proxy = FaultProxy::http(upstream).await.unwrap();
        let client = client(&proxy.url());
        Self { client, opencode, proxy, provider, places: AtomicU32::new(0) }
    }

    /// A session in the directory of the server.
    pub(crate) async fn session(&self) -> SessionRef {
        let directory = Directory::new(self.opencode.work()).unwrap();
        self.client.ensure_session(None, &directory, Some("Mine")).await.unwrap().at
    }

    /// A client of its own with a session: what happens to its event stream happens to no other.
    pub(crate) async fn line(&self) -> Line {
        let number = self.places.fetch_add(1, Ordering::SeqCst) + 1;
        let info = ClientInfo { name: format!("line-{number}"), version: "1".to_owned() };
        let agent = format!("{}/{}", info.name, info.version);
        Line { client: client_as(&self.proxy.url(), info), session: self.session().await, agent }
    }

    /// A session in a directory of its own, with a configuration of its own.
    pub(crate) async fn session_with(&self, config: &Value) -> SessionRef {
        let number = self.places.fetch_add(1, Ordering::SeqCst) + 1;
        let place = self.opencode.work().join(format!("place-{number}"));
        std::fs::create_dir(&place).unwrap();
        std::fs::write(place.join("opencode.json"), config.to_string()).unwrap();
        let directory = Directory::new(&place).unwrap();
        self.client.ensure_session(None, &directory, Some("Mine")).await.unwrap().at
    }

    /// Another session in the same directory.
    pub(crate) async fn session_beside(&self, other: &SessionRef) -> SessionRef {
        self.client.ensure_session(None, &other.directory, Some("Mine")).await.unwrap().at
    }

    /// Sends a message.
    pub(crate) fn send(&self, session: &SessionRef, text: &str, settings: TurnSettings) -> Watch {
        Watch::new(self.client.send_message(session, text, settings))
    }

    /// Sends a message with the settings that nobody changed.
    pub(crate) fn ask(&self, session: &SessionRef, text: &str) -> Watch {
        self.send(session, text, TurnSettings::default())
    }

    /// How often the model was asked with these words.
    pub(crate) fn model_calls(&self, words: &str) -> usize {
        self.provider.calls().iter().filter(|call| is_asked(call, words)).count()
    }

    /// Waits until that many answers to these words went out, to whatever end.
    pub(crate) async fn until_answered(&self, words: &str, times: usize) {
        let ended =
            |call: &turnstream_fake_provider::Request| call.ended != turnstream_fake_provider::Ended::Open;
        let count =
            || self.provider.calls().iter().filter(|call| is_asked(call, words) && ended(call)).count();
        within(|| (count() >= times).then_some(())).await;
    }

    /// How often this was asked for about a session: `abort`, `prompt_async`.
    pub(crate) fn requests(&self, session: &SessionRef, what: &str) -> usize {
        let start = format!("POST /session/{}/{what}", session.id);
        let record = self.proxy.record();
        let all = record.connections.iter().flat_map(|connection| &connection.requests);
        all.filter(|request| request.starts_with(&start)).count()
    }

    /// Permissions and questions of a session that wait at the server.
    pub(crate) async fn asks(&self, session: &SessionRef) -> usize {
        let permissions = self.client.permissions(&session.directory).await.unwrap();
        let questions = self.client.questions(&session.directory).await.unwrap();
        let all = permissions.iter().chain(&questions);
        all.filter(|ask| ask.session == session.id).count()
    }

    pub(crate) fn aborts(&self, session: &SessionRef) -> usize {
        self.requests(session, "abort")
    }

    pub(crate) fn prompts(&self, session: &SessionRef) -> usize {
        self.requests(session, "prompt_async")
    }
}

fn is_asked(call: &turnstream_fake_provider::Request, words: &str) -> bool {
    call.asked.model == Opencode::MODEL && call.asked.user_text.contains(words)
}

/// A client of its own with a session.
pub(crate) struct Line {
    pub(crate) client: Client,
    pub(crate) session: SessionRef,
    agent: String,
}

impl Line {
    /// The same with other settings for its event stream.
    pub(crate) fn with(self, settings: BusSettings) -> Self {
        Self { client: self.client.with_bus_settings(settings), ..self }
    }

    /// Sends a message with the settings that nobody changed.
    pub(crate) fn ask(&self, text: &str) -> Watch {
        Watch::new(self.client.send_message(&self.session, text, TurnSettings::default()))
    }

    /// Requests for its event stream.
    pub(crate) fn is_stream(&self) -> impl Fn(&RequestHead) -> bool + Send + Sync + 'static {
        let agent = self.agent.clone();
        move |request| request.target.starts_with("/event?") && request.header("user-agent") == Some(&agent)
    }
}

/// Events of this type that name this session.
pub(crate) fn events(kind: &str, session: &SessionRef) -> EventMatch {
    let (kind, session) = (format!("\"type\":\"{kind}\""), session.id.clone());
    EventMatch::new(move |event| {
        let data = event.data();
        data.contains(&kind) && data.contains(&session)
    })
}

/// The nth event about a session, counted over all streams.
pub(crate) fn nth_event(session: &SessionRef, nth: u32) -> EventMatch {
    let (seen, session) = (AtomicU32::new(0), session.id.clone());
    EventMatch::new(move |event| {
        event.data().contains(&session) && seen.fetch_add(1, Ordering::SeqCst) + 1 == nth
    })
}

/// In pieces with pauses, so that there is a middle.
pub(crate) fn slowly(before_delta_ms: u64) -> Delivery {
    Delivery { before_delta_ms, ..Delivery::default() }
}
