//! A server on a free port, and clients of it.

use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use turnstream_agents::demo::{DemoAgent, DemoConfig};
use turnstream_agents::{Agent, Connecting, Description, Start};
use turnstream_gateway::{Gateway, Settings};
use turnstream_server::{Auth, Options, Server};
use turnstream_sse::{Decoder, Frame};
use turnstream_testkit::lawful::{Tail, assert_lawful};

/// How long anything may take here before the test fails; nothing should come near it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// What an end may take here: less than five seconds, and more on a machine that has other work to do. A
/// request of which only a piece came is waited for three times as long, and a client that does not read
/// for ever.
pub(crate) const ENDED: Duration = Duration::from_secs(60);

/// A server, and the directories it works in.
pub(crate) struct Rig {
    pub(crate) address: SocketAddr,
    /// The address for metrics only.
    pub(crate) metrics: Option<SocketAddr>,
    /// The address for opencode's API only.
    pub(crate) opencode: Option<SocketAddr>,
    pub(crate) http: reqwest::Client,
    home: Arc<tempfile::TempDir>,
    end: oneshot::Sender<()>,
    run: JoinHandle<Vec<String>>,
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

/// Whether the agent that outlives the gateway can be reached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lasting {
    There,
    Away,
}

/// An agent that cannot be used, or that never comes to be linked.
pub(crate) struct Odd {
    pub(crate) problem: Option<String>,
}

impl Agent for Odd {
    fn describe(&self) -> Description {
        Description { problem: self.problem.clone(), ..Description::new("odd", "Does not work.") }
    }

    fn connect(&self, _: Start) -> Connecting<'_> {
        Box::pin(std::future::pending())
    }
}

/// The usual options, without a token.
pub(crate) fn options() -> Options {
    Options::new(Auth::None)
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::start_with(options()).await
    }

    pub(crate) async fn start_with(options: Options) -> Self {
        let home = Arc::new(tempfile::tempdir().unwrap());
        std::fs::create_dir(home.path().join("work")).unwrap();
        Self::open(home, options, Lasting::There).await
    }

    /// One that removes what is not to be kept.
    pub(crate) async fn start_retaining(options: Options, settings: Settings) -> Self {
        let home = Arc::new(tempfile::tempdir().unwrap());
        std::fs::create_dir(home.path().join("work")).unwrap();
        Self::open_with(home, options, Lasting::There, settings).await
    }

    /// One with another agent beside the usual ones.
    pub(crate) async fn start_with_agent(name: &'static str, agent: Arc<dyn Agent>) -> Self {
        let home = Arc::new(tempfile::tempdir().unwrap());
        std::fs::create_dir(home.path().join("work")).unwrap();
        Self::open_all(home, options(), Lasting::There, Settings::default(), vec![(name, agent)]).await
    }

    /// The same directories again.
    pub(crate) async fn open(home: Arc<tempfile::TempDir>, options: Options, lasting: Lasting) -> Self {
        Self::open_with(home, options, lasting, Settings::default()).await
    }

    async fn open_with(
        home: Arc<tempfile::TempDir>,
        options: Options,
        lasting: Lasting,
        settings: Settings,
    ) -> Self {
        Self::open_all(home, options, lasting, settings, Vec::new()).await
    }

    async fn open_all(
        home: Arc<tempfile::TempDir>,
        options: Options,
        lasting: Lasting,
        settings: Settings,
        more: Vec<(&'static str, Arc<dyn Agent>)>,
    ) -> Self {
        let plays = DemoConfig { pace: Duration::ZERO, ..DemoConfig::default() };
        let remembers = DemoConfig { memory: Some(home.path().join("memory")), ..plays.clone() };
        let lasting: Arc<dyn Agent> = match lasting {
            Lasting::There => Arc::new(DemoAgent::new(remembers)),
            Lasting::Away => Arc::new(Odd { problem: None }),
        };
        let agents: [(&str, Arc<dyn Agent>); 3] = [
            ("broken", Arc::new(Odd { problem: Some("it is not installed".to_owned()) })),
            ("lasting", lasting),
            ("scripted", Arc::new(DemoAgent::new(plays))),
        ];
        let agents: BTreeMap<_, _> =
            agents.into_iter().chain(more).map(|(name, agent)| (name.to_owned(), agent)).collect();
        let settings = Settings { roots: vec![home.path().join("work")], erasure: PATIENCE, ..settings };
        let gateway = Gateway::open(&home.path().join("data"), settings, agents).await.unwrap();
        let server = Server::bind("127.0.0.1:0".parse().unwrap(), gateway, options).await.unwrap();
        let (address, metrics, opencode) =
            (server.address(), server.metrics_address(), server.opencode_address());
        let (end, ended) = oneshot::channel::<()>();
        let run = tokio::spawn(server.run(async {
            let _ = ended.await;
        }));
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { address, metrics, opencode, http, home, end, run }
    }

    pub(crate) fn home(&self) -> Arc<tempfile::TempDir> {
        self.home.clone()
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.home.path().join("work")
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.http.request(method, self.url(path));
        if let Some(body) = body {
            request = request.json(&body);
        }
        answer(request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask("POST", path, Some(body)).await
    }

    /// An import of this file.
    pub(crate) fn import(&self, query: &str, file: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
        let request = self.http.post(self.url(&format!("/v1/import{query}")));
        request.header("content-type", "application/x-ndjson").body(file)
    }

    /// A new session's id.
    pub(crate) async fn session(&self) -> String {
        let answer = self.post("/v1/sessions", json!({"agent": "scripted", "cwd": self.work()})).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.body["id"].as_str().unwrap().to_owned()
    }

    /// Puts a script into the queue of a session.
    pub(crate) async fn play(&self, session: &str, script: Value) -> Answer {
        let text = json!({"script": script}).to_string();
        let body = json!({"content": [{"type": "text", "text": text}]});
        self.post(&format!("/v1/sessions/{session}/prompts"), body).await
    }

    /// Plays a script to its end.
    pub(crate) async fn played(&self, session: &str, script: Value) {
        let turns = self.ended_turns(session).await;
        let answer = self.play(session, script).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        self.until(session, |snapshot| ended(snapshot) > turns && snapshot["session"]["status"] == "idle")
            .await;
    }

    /// Waits until a snapshot is like that, and returns it.
    pub(crate) async fn until(&self, session: &str, is: impl Fn(&Value) -> bool) -> Value {
        let listed = format!("/v1/sessions/{session}");
        let path = format!("{listed}/snapshot");
        let wait = async {
            loop {
                let snapshot = self.get(&path).await.body;
                // The list of sessions and the counters learn of an event a moment after the log.
                if is(&snapshot) && self.get(&listed).await.body["status"] == snapshot["session"]["status"] {
                    return snapshot;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, wait).await.expect("the session comes to be like that")
    }

    async fn ended_turns(&self, session: &str) -> usize {
        ended(&self.get(&format!("/v1/sessions/{session}/snapshot")).await.body)
    }

    pub(crate) async fn head(&self, session: &str) -> u64 {
        self.get(&format!("/v1/sessions/{session}")).await.body["head"].as_u64().unwrap()
    }

    /// A stream of a session's events.
    pub(crate) async fn stream(&self, path: &str) -> Stream {
        Stream::of(self.http.get(self.url(path))).await
    }

    /// Judges a session's log as a client gets it.
    pub(crate) async fn judge(&self, session: &str, tail: Tail) {
        let lines = self.log(session).await;
        assert_lawful(lines.iter().map(String::as_str), tail);
    }

    /// All lines of a session's log.
    pub(crate) async fn log(&self, session: &str) -> Vec<String> {
        let head = self.head(session).await as usize;
        let mut stream = self.stream(&format!("/v1/sessions/{session}/events")).await;
        stream.next().await;
        let mut lines = Vec::new();
        while lines.len() < head {
            lines.push(stream.next().await.data);
        }
        lines
    }

    /// Ends the server, and fails if that takes more than five seconds.
    pub(crate) async fn stop(self) -> Duration {
        let begun = std::time::Instant::now();
        self.end.send(()).unwrap();
        timeout(PATIENCE, self.run).await.expect("it ends").unwrap();
        begun.elapsed()
    }
}

fn ended(snapshot: &Value) -> usize {
    let turns = snapshot["turns"].as_array().cloned().unwrap_or_default();
    turns.iter().filter(|turn| !turn["outcome"].is_null()).count()
}

pub(crate) async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let bytes = response.bytes().await.unwrap();
    let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() };
    Answer { status, headers, body }
}

/// One SSE event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) id: Option<String>,
    pub(crate) event: String,
    pub(crate) data: String,
}

impl Seen {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

/// An SSE stream that is being read.
pub(crate) struct Stream {
    response: reqwest::Response,
    decoder: Decoder,
    seen: VecDeque<Seen>,
    pub(crate) comments: usize,
}

impl Stream {
    pub(crate) async fn of(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Self { response, decoder: Decoder::new(), seen: VecDeque::new(), comments: 0 }
    }

    /// The next event; fails when the stream ends.
    pub(crate) async fn next(&mut self) -> Seen {
        self.more().await.expect("the stream goes on")
    }

    /// The next event, or nothing when the stream has ended.
    pub(crate) async fn more(&mut self) -> Option<Seen> {
        while self.seen.is_empty() {
            let chunk = timeout(PATIENCE, self.response.chunk()).await.expect("something comes").ok()??;
            let mut frames = self.decoder.feed(&chunk);
            while let Some(frame) = frames.next_frame() {
                match frame {
                    Frame::Event(event) => self.seen.push_back(Seen {
                        id: event.id.map(str::to_owned),
                        event: event.event.to_owned(),
                        data: event.data.to_string(),
                    }),
                    Frame::Comment(_) => self.comments += 1,
                    other => panic!("{other:?} has no place in a stream"),
                }
            }
        }
        self.seen.pop_front()
    }

    /// Reads on to the end. True if the connection was cut: a whole body ends without an error.
    pub(crate) async fn is_cut(&mut self) -> bool {
        self.rest().await.1
    }

    /// What still comes, and whether the connection was cut then.
    pub(crate) async fn rest(&mut self) -> (String, bool) {
        let mut rest = Vec::new();
        loop {
            match timeout(PATIENCE, self.response.chunk()).await.expect("something comes") {
                Ok(Some(bytes)) => rest.extend_from_slice(&bytes),
                Ok(None) => return (String::from_utf8_lossy(&rest).into_owned(), false),
                Err(_) => return (String::from_utf8_lossy(&rest).into_owned(), true),
            }
        }
    }

    /// Events up to one of that type.
    pub(crate) async fn until(&mut self, r#type: &str) -> Vec<Seen> {
        let mut all = Vec::new();
        loop {
            all.push(self.next().await);
            if all.last().is_some_and(|seen| seen.event == r#type) {
                return all;
            }
        }
    }
}

/// Sends bytes as they are, and returns all that comes until the other side closes.
pub(crate) async fn raw(address: SocketAddr, request: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, socket.read_to_end(&mut answer)).await.unwrap().unwrap();
    String::from_utf8(answer).unwrap()
}
