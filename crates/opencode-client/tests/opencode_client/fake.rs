//! A server that answers requests as the test says, and hands every event stream to the test.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use turnstream_opencode_client::{
    BusItem, BusSettings, Client, ClientInfo, Directory, Event, NoPassword, PasswordSource, Subscription,
    Timeouts,
};

/// How long nothing may come before a test gives up.
pub(crate) const SOON: Duration = Duration::from_secs(300);
/// How long it must be quiet to be called so.
pub(crate) const QUIET: Duration = Duration::from_millis(300);

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// With the query.
    pub(crate) target: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: String,
}

/// What is done with a request.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// Status, headers and body.
    Say(u16, &'static str, String),
    /// The head of an event stream; the rest is the test's.
    Stream,
    /// Nothing, for ever.
    Mute,
    /// The connection is closed.
    HangUp,
}

type Behaviour = Box<dyn FnMut(&Asked) -> Answer + Send>;

pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    streams: mpsc::UnboundedReceiver<Stream>,
    task: JoinHandle<()>,
}

/// An event stream that was asked for.
pub(crate) struct Stream {
    pub(crate) asked: Asked,
    socket: TcpStream,
}

// === impl Answer ===

impl Answer {
    pub(crate) fn json(status: u16, body: impl Into<String>) -> Self {
        Self::Say(status, "content-type: application/json\r\n", body.into())
    }

    pub(crate) fn empty(status: u16) -> Self {
        Self::Say(status, "", String::new())
    }
}

// === impl Fake ===

impl Fake {
    /// Event streams are given, everything else is answered as said.
    pub(crate) async fn start(behaviour: impl FnMut(&Asked) -> Answer + Send + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), behaviour)
    }

    pub(crate) fn on(
        listener: TcpListener,
        behaviour: impl FnMut(&Asked) -> Answer + Send + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (sender, streams) = mpsc::unbounded_channel();
        let behaviour: Behaviour = Box::new(behaviour);
        let task =
            tokio::spawn(accept(listener, Arc::clone(&asked), sender, Arc::new(Mutex::new(behaviour))));
        Self { address, asked, streams, task }
    }

    /// A server of nothing but event streams.
    pub(crate) async fn streaming() -> Self {
        Self::start(|_| Answer::Stream).await
    }

    /// These answers, one after the other.
    pub(crate) async fn answering(answers: impl IntoIterator<Item = Answer>) -> Self {
        let mut answers: VecDeque<Answer> = answers.into_iter().collect();
        Self::start(move |asked| answers.pop_front().unwrap_or_else(|| panic!("one more: {asked:?}"))).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn client(&self) -> Client {
        self.client_with(NoPassword, BusSettings::default())
    }

    pub(crate) fn client_with(&self, password: impl PasswordSource, settings: BusSettings) -> Client {
        let timeouts = Timeouts { probe: Duration::from_millis(300), ..Timeouts::default() };
        let client = Client::new(&self.url(), password, timeouts, ClientInfo::default()).unwrap();
        client.with_bus_settings(settings)
    }

    /// Everything asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Methods and targets of everything asked so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.asked().iter().map(|asked| format!("{} {}", asked.method, asked.target)).collect()
    }

    /// The next event stream that is asked for.
    pub(crate) async fn stream(&mut self) -> Stream {
        let stream = tokio::time::timeout(SOON, self.streams.recv()).await;
        stream.expect("nobody asked for a stream").unwrap()
    }

    /// Asserts that nobody asks for a stream for a moment.
    pub(crate) async fn no_stream(&mut self) {
        let stream = tokio::time::timeout(QUIET, self.streams.recv()).await;
        assert!(stream.is_err(), "somebody asked for a stream");
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// === impl Stream ===

impl Stream {
    /// Writes bytes.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).await.unwrap();
    }

    /// Writes one event.
    pub(crate) async fn say(&mut self, event: &str) {
        self.write(format!("data: {event}\n\n").as_bytes()).await;
    }

    pub(crate) async fn say_connected(&mut self) {
        self.say(&line("a-plain.sse", "server.connected", 0)).await;
    }

    /// Waits until the client has closed the connection.
    pub(crate) async fn closed_by_client(&mut self) {
        let mut bytes = [0; 64];
        let read = tokio::time::timeout(SOON, self.socket.read(&mut bytes)).await;
        assert!(matches!(read.expect("the client keeps it open"), Ok(0) | Err(_)));
    }
}

async fn accept(
    listener: TcpListener,
    asked: Arc<Mutex<Vec<Asked>>>,
    streams: mpsc::UnboundedSender<Stream>,
    behaviour: Arc<Mutex<Behaviour>>,
) {
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        tokio::spawn(serve(socket, Arc::clone(&asked), streams.clone(), Arc::clone(&behaviour)));
    }
}

async fn serve(
    mut socket: TcpStream,
    seen: Arc<Mutex<Vec<Asked>>>,
    streams: mpsc::UnboundedSender<Stream>,
    behaviour: Arc<Mutex<Behaviour>>,
) {
    while let Some(asked) = request(&mut socket).await {
        let answer = {
            let mut behaviour = behaviour.lock().unwrap();
            seen.lock().unwrap().push(asked.clone());
            behaviour(&asked)
        };
        match answer {
            Answer::Say(status, headers, body) => {
                let length = body.len();
                let head = format!("HTTP/1.1 {status} .\r\n{headers}content-length: {length}\r\n\r\n");
                socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            }
            Answer::Stream => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
                socket.write_all(head.as_bytes()).await.unwrap();
                let _ = streams.send(Stream { asked, socket });
                return;
            }
            Answer::Mute => return std::future::pending().await,
            Answer::HangUp => return,
        }
    }
}

async fn request(socket: &mut TcpStream) -> Option<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let header = |name: &str| {
        let line = head.lines().find(|line| line.to_lowercase().starts_with(&format!("{name}:")))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let length = header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.ok()?;
    let mut words = head.split(' ').map(str::to_owned);
    Some(Asked {
        method: words.next()?,
        target: words.next()?,
        authorization: header("authorization"),
        body: String::from_utf8(body).unwrap(),
    })
}

// === fixtures ===

pub(crate) fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/opencode").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The events of a captured stream.
pub(crate) fn lines(name: &str) -> Vec<String> {
    fixture(name).lines().filter_map(|line| line.strip_prefix("data: ").map(str::to_owned)).collect()
}

/// The event of this type at this place, from 0.
pub(crate) fn line(name: &str, kind: &str, place: usize) -> String {
    let kind = format!("\"type\":\"{kind}\"");
    lines(name).into_iter().filter(|line| line.contains(&kind)).nth(place).unwrap()
}

/// The sessions of a captured stream, in the order of their making.
pub(crate) fn sessions(name: &str) -> Vec<String> {
    let made = lines(name).into_iter().filter(|line| line.contains("\"type\":\"session.created\""));
    let id = |line: String| {
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        event["properties"]["info"]["id"].as_str().unwrap().to_owned()
    };
    made.map(id).collect()
}

pub(crate) fn directory() -> Directory {
    Directory::new("/workspace").unwrap()
}

// === what a subscriber is told ===

pub(crate) async fn next(subscription: &mut Subscription) -> BusItem {
    tokio::time::timeout(SOON, subscription.next()).await.expect("nothing comes")
}

/// What [`told`] says of an event: all of it.
pub(crate) fn shown(line: &str) -> String {
    format!("{:?}", Event::parse(line.as_bytes()).unwrap())
}

/// The next item in words.
pub(crate) async fn told(subscription: &mut Subscription) -> String {
    match next(subscription).await {
        BusItem::Connected { gap } => format!("connected, gap {gap}"),
        BusItem::Event(event) => format!("{event:?}"),
        BusItem::Lost { reason, attempt } => format!("lost, attempt {attempt}: {reason}"),
        BusItem::Lagged { why } => format!("lagged: {why:?}"),
        BusItem::Closed { reason } => format!("closed: {reason}"),
    }
}

/// Asserts that a subscriber is told nothing for a moment.
pub(crate) async fn quiet(subscription: &mut Subscription) {
    if let Ok(item) = tokio::time::timeout(QUIET, subscription.next()).await {
        panic!("{item:?}");
    }
}
