//! A proxy on loopback, a client, and what the client got.

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use turnstream_fake_provider::{Asked, Chunk, Identity, Provider, Step, WireFormat, render};
use turnstream_llm::{Format, Head, Outcome, Profile, Reader, StreamEnd, Transport};
use turnstream_log::Attempts;
use turnstream_provider::{Access, AgentSecret, Route, Routes};
use turnstream_proxy::{Limits, Proxy, StartedAgents};
use turnstream_redact::Rules;

/// Long enough for any load.
pub(crate) const LONG: Duration = Duration::from_secs(300);

pub(crate) const FORMATS: [(Format, WireFormat); 3] = [
    (Format::Chat, WireFormat::Chat),
    (Format::Responses, WireFormat::Responses),
    (Format::Messages, WireFormat::Messages),
];

/// What addresses of started agents are made with.
pub(crate) const AGENTS: AgentSecret = AgentSecret([7; 32]);

/// A proxy that listens.
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    pub(crate) proxy: Proxy,
    pub(crate) ledger: Attempts,
    _data: TempDir,
}

/// What a client got.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Vec<u8>,
    /// Whether the body ended in order.
    pub(crate) is_whole: bool,
}

/// A route to this provider that tests can wait for.
pub(crate) fn route(format: Format, provider: &Provider) -> Route {
    route_to(format, provider.address())
}

/// The same for a provider at this address.
pub(crate) fn route_to(format: Format, provider: SocketAddr) -> Route {
    let url = match format {
        Format::Messages => format!("http://{provider}"),
        Format::Chat | Format::Responses => format!("http://{provider}/v1"),
    };
    Route {
        name: "main".to_owned(),
        url,
        format,
        profile: Profile::UNKNOWN,
        access: Access::Keyless,
        model: None,
        fallback: Vec::new(),
        attempts: 4,
        first_event: LONG,
        silence: LONG,
        longest_wait: LONG,
        reattach: Duration::ZERO,
    }
}

impl Gateway {
    pub(crate) async fn start(routes: impl IntoIterator<Item = Route>, limits: Limits) -> Self {
        let data = tempfile::tempdir().unwrap();
        let ledger = Attempts::open(data.path()).unwrap();
        let routes = Routes::new(routes).unwrap();
        let agents = StartedAgents { secret: Some(AGENTS), calls: None };
        let (log, redact) = (Arc::new(ledger.clone()), Arc::new(Rules::none()));
        let proxy = Proxy::new(routes, log, redact, limits, agents).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = proxy.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let proxy = served.clone();
                let service = service_fn(move |request: hyper::Request<Incoming>| {
                    let proxy = proxy.clone();
                    async move {
                        let path = request.uri().path().strip_prefix("/llm/").unwrap_or_default().to_owned();
                        let request = request.map(axum::body::Body::new);
                        Ok::<_, Infallible>(proxy.answer(&path, request).await)
                    }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(socket), service));
            }
        });
        Self { address, proxy, ledger, _data: data }
    }

    pub(crate) async fn of(route: Route) -> Self {
        Self::start([route], Limits::default()).await
    }

    /// The URL for answers of a route.
    pub(crate) fn url(&self, format: Format) -> String {
        let path = match format {
            Format::Chat => "chat/completions",
            Format::Responses => "responses",
            Format::Messages => "v1/messages",
        };
        format!("http://{}/llm/main/{path}", self.address)
    }

    /// Asks, and reads the answer to its end.
    pub(crate) async fn ask(&self, format: Format, body: &Value) -> Got {
        let response = client().post(self.url(format)).json(body).send().await.unwrap();
        read(response).await
    }

    /// Waits until no request runs.
    pub(crate) async fn quiet(&self) {
        let mut tries = 0;
        while self.proxy.figures()["main"].open > 0 {
            tries += 1;
            assert!(tries < 30_000, "a request runs for ever");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().timeout(LONG).build().unwrap()
}

pub(crate) async fn read(mut response: reqwest::Response) -> Got {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let mut body = Vec::new();
    let is_whole = loop {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    Got { status, headers, body, is_whole }
}

/// A request for a stream.
pub(crate) fn request(format: Format, text: &str) -> Value {
    match format {
        Format::Chat => {
            json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": text}]})
        }
        Format::Responses => {
            json!({"model": "m", "stream": true, "input": [{"role": "user", "content": [{"type": "input_text", "text": text}]}]})
        }
        Format::Messages => {
            json!({"model": "m", "stream": true, "max_tokens": 100, "messages": [{"role": "user", "content": text}]})
        }
    }
}

/// The events of a step, as the provider writes them without faults.
pub(crate) fn events(format: WireFormat, step: &Step) -> Vec<Vec<u8>> {
    let asked =
        Asked::read(format, &request(FORMATS.iter().find(|(_, wire)| *wire == format).unwrap().0, "x"));
    let identity = Identity { serial: 1, created: 1_700_000_000, asked };
    let answer = render(format, step, &identity).unwrap();
    let bytes = |chunk: Chunk| match chunk {
        Chunk::Write { bytes, .. } => bytes,
        Chunk::Stall(_) => Vec::new(),
    };
    answer.chunks.into_iter().map(bytes).collect()
}

impl Got {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// What a careful reader makes of it.
    pub(crate) fn outcome(&self, format: Format) -> Outcome {
        let content_type = self.headers.get("content-type").map(|value| value.to_str().unwrap().to_owned());
        let mut reader = Reader::new(format, &Profile::UNKNOWN, Head { status: self.status, content_type });
        reader.push(&self.body, &mut Vec::new());
        let transport = if self.is_whole { Transport::Clean } else { Transport::Broken };
        reader.end(transport, &mut Vec::new())
    }

    /// Whether anything in it says that the answer is complete.
    pub(crate) fn claims_an_end(&self) -> bool {
        let text = self.text();
        let ends =
            ["[DONE]", "message_stop", "response.completed", "\"finish_reason\":\"", "\"stop_reason\":\""];
        ends.into_iter().any(|end| text.contains(end))
    }

    /// Asserts that the answer is whole, and has these tool calls.
    pub(crate) fn assert_complete(&self, format: Format, calls: &[&str], what: &str) {
        let outcome = self.outcome(format);
        assert_eq!((self.status, &outcome.ended), (200, &StreamEnd::Complete), "{what}: {}", self.text());
        let got: Vec<&str> = outcome.runnable().iter().map(|call| call.name.as_str()).collect();
        assert_eq!(got, calls, "{what}: {}", self.text());
    }

    /// Asserts that a stream ends with the format's own error, and that nothing of a call is in it.
    pub(crate) fn assert_broken(&self, format: Format, what: &str) {
        let text = self.text();
        assert!(self.status == 200 && self.is_whole, "{what}: {self:?}");
        assert!(matches!(self.outcome(format).ended, StreamEnd::Failed(_)), "{what}: {text}");
        assert!(!self.claims_an_end(), "{what}: {text}");
        for word in ["\"tool_calls\"", "tool_use", "function_call", "\"arguments\""] {
            assert!(!text.contains(word), "{what}: {word} in {text}");
        }
    }
}

/// The whole body in one piece.
pub(crate) fn bytes(events: &[Vec<u8>]) -> Bytes {
    events.concat().into()
}
