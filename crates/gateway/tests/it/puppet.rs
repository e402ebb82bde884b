//! Agents that a test plays itself, signal by signal.

use crate::support::*;
use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use turnstream_agents::{Agent, Command, Connecting, Description, Link, Observer, Start, Stopping};
use turnstream_gateway::{Gateway, Settings};
use turnstream_log::{Log, Options};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{ItemKind, ItemState, Role, StopReason};
use turnstream_model::id::{Key, SessionId};
use turnstream_model::signal::{Ending, Signal};

type Playing = Pin<Box<dyn Future<Output = ()> + Send>>;
type Play = dyn Fn(Start, Receiver<Command>, Observer) -> Playing + Send + Sync;

/// An agent that a test plays itself.
pub(crate) struct Puppet {
    outlives: bool,
    stops: bool,
    play: Box<Play>,
}

impl Puppet {
    /// It dies with the gateway.
    pub(crate) fn new<F>(
        play: impl Fn(Start, Receiver<Command>, Observer) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let play: Box<Play> =
            Box::new(move |start, commands, observer| Box::pin(play(start, commands, observer)));
        Self { outlives: false, stops: true, play }
    }

    pub(crate) fn outliving(self) -> Self {
        Self { outlives: true, ..self }
    }

    /// Whoever stops it waits for ever.
    pub(crate) fn never_stopping(self) -> Self {
        Self { stops: false, ..self }
    }
}

impl Agent for Puppet {
    fn describe(&self) -> Description {
        Description { scripted: true, ..Description::new("puppet", "") }
    }

    fn connect(&self, start: Start) -> Connecting<'_> {
        Box::pin(async move { Ok(Link::spawn(|commands, observer| (self.play)(start, commands, observer))) })
    }

    fn outlives_gateway(&self) -> bool {
        self.outlives
    }

    fn stop(&self) -> Stopping<'_> {
        let stops = self.stops;
        Box::pin(async move { if stops { Ok(()) } else { std::future::pending().await } })
    }
}

pub(crate) async fn stage<F>(
    home: &Home,
    outlives: bool,
    play: impl Fn(Start, Receiver<Command>, Observer) -> F + Send + Sync + 'static,
) -> Gateway
where
    F: Future<Output = ()> + Send + 'static,
{
    let puppet = Puppet { outlives, ..Puppet::new(play) };
    open_with(home.directory(), home.settings.clone(), puppet).await
}

/// A gateway in a directory that is laid out, with this agent as `puppet`.
pub(crate) async fn open_with(home: &Path, settings: Settings, puppet: Puppet) -> Gateway {
    let settings = Settings { roots: vec![home.join("work")], ..settings };
    let agents = BTreeMap::from([("puppet".to_owned(), Arc::new(puppet) as Arc<dyn Agent>)]);
    Gateway::open(&home.join("data"), settings, agents).await.unwrap()
}

pub(crate) async fn began(observer: &Observer, native: &str, prompts: &[&str]) {
    let prompts = prompts.iter().map(|prompt| (*prompt).to_owned()).collect();
    let signal = Signal::TurnBegan { origin: None, prompts, native_id: Some(native.to_owned()) };
    let _ = observer.signal(signal).await;
}

pub(crate) async fn says(observer: &Observer, key: &str) {
    let seen = turnstream_model::signal::ItemSeen {
        key: Key::from(key),
        parent: None,
        kind: ItemKind::Message,
        role: Some(Role::Assistant),
        synthetic: false,
    };
    let _ = observer.signal(Signal::ItemSeen(seen)).await;
    let text = "hello".to_owned();
    let field = turnstream_model::event::Field::Text;
    let _ = observer.signal(Signal::TextDelta { key: Key::from(key), field, text }).await;
    let ended = Signal::ItemEnded { key: Key::from(key), state: ItemState::Completed, reason: None };
    let _ = observer.signal(ended).await;
}

pub(crate) fn done(native: &str) -> Signal {
    Signal::TurnDone { native_id: Some(native.to_owned()), ending: Ending::completed(StopReason::EndTurn) }
}

pub(crate) fn ask(key: &str) -> Signal {
    Signal::Ask { key: Key::from(key), item: None, tool: None, options: Vec::new() }
}

pub(crate) async fn within<T>(limit: Duration, what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: not within {limit:?}"),
    }
}

pub(crate) async fn lines(home: &Home, id: &SessionId) -> Vec<String> {
    let log = Log::open(&home.path("data"), &Options::default()).unwrap().log;
    let events = log.read(id, Seq(0), usize::MAX).unwrap();
    let lines = events.iter().map(|event| String::from_utf8(event.json().to_vec()).unwrap()).collect();
    log.close().await;
    lines
}
