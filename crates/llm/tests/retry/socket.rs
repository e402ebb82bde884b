//! Raw answers on a socket that no provider should send, and what of them reaches the disk.

use super::support::{QuickClock, all, call, client, ending, is_nowhere};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use turnstream_llm::Format;
use turnstream_llm::client::{CallEvent, CallOutcome, Client, Environment, Settings, Timeouts};
use turnstream_llm::retry::{Consumer, Policy};
use turnstream_log::Attempts;
use turnstream_model::attempts::{Attempt, Ledger};
use turnstream_model::event::ErrorClass;
use turnstream_redact::Rules;

const SECRET: &str = "sk-ant-api03-Zm9vYmFyYmF6cXV4MDEyMzQ1Njc4OUFCQ0RFRkdISUpLTE1OT1A";

/// A policy without retries, so that one answer is one attempt.
fn once() -> Policy {
    let classes = [
        ErrorClass::StreamCorrupt,
        ErrorClass::Incomplete,
        ErrorClass::EmptyOutput,
        ErrorClass::NotAStream,
        ErrorClass::TransportLost,
        ErrorClass::Stalled,
        ErrorClass::ProviderError,
    ];
    Policy { limits: classes.map(|class| (class, None)).to_vec(), ..Policy::default() }
}

struct Server {
    base: String,
    directory: TempDir,
    attempts: Attempts,
}

impl Server {
    /// Passes the connection of every request to `answer`.
    async fn start<F>(answer: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let mut request = vec![0; 4096];
                let _ = connection.read(&mut request).await;
                tokio::spawn(answer(connection));
            }
        });
        let directory = TempDir::new().unwrap();
        let attempts = Attempts::open(directory.path()).unwrap();
        Self { base, directory, attempts }
    }

    /// Answers every request with these bytes, and closes.
    async fn of(answer: Vec<u8>) -> Self {
        let answer = Arc::new(answer);
        Self::start(move |mut connection| {
            let answer = answer.clone();
            async move {
                let _ = connection.write_all(&answer).await;
                let _ = connection.shutdown().await;
            }
        })
        .await
    }

    fn client(&self, settings: Settings) -> Client {
        let environment = Environment {
            ledger: Arc::new(self.attempts.clone()),
            waits: Arc::new(self.attempts.clone()),
            clock: Arc::new(QuickClock::new()),
            redact: Arc::new(Rules::standard()),
        };
        Client::new(settings, environment).unwrap()
    }

    async fn ask(&self, settings: Settings) -> Vec<CallEvent> {
        all(self.client(settings).start(call(&self.base, Format::Chat, Consumer::AttemptAware))).await
    }

    async fn row(&self) -> Attempt {
        let mut rows = self.attempts.attempts("ses_1".into()).await.unwrap();
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows.remove(0)
    }
}

fn head(more: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n{more}\r\n")
}

fn settings() -> Settings {
    Settings { policy: once(), ..Settings::default() }
}

fn class(told: &[CallEvent]) -> ErrorClass {
    match ending(told) {
        CallOutcome::Failed { failure, .. } => failure.class,
        other => panic!("{other:?}"),
    }
}

/// All names that a provider or a model chooses: request, completion, tool, finish.
#[tokio::test]
async fn a_secret_in_a_name_does_not_reach_the_disk() {
    let choices = |delta: serde_json::Value, finish: Option<&str>| {
        let chunk = json!({"id": SECRET, "object": "chat.completion.chunk", "created": 1,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        format!("data: {chunk}\n\n")
    };
    let call = json!({"index": 0, "id": SECRET, "function": {"name": SECRET, "arguments": "{\"a\""}});
    let body = choices(json!({"role": "assistant", "tool_calls": [call]}), None)
        + &choices(json!({}), Some(SECRET))
        + "data: {\"id\":\n\n";
    let server = Server::of((head(&format!("x-request-id: {SECRET}\r\n")) + &body).into_bytes()).await;
    assert_eq!(class(&server.ask(settings()).await), ErrorClass::StreamCorrupt);
    let row = server.row().await;
    server.attempts.close();
    assert!(is_nowhere(server.directory.path(), SECRET), "{row:?}");
    assert_eq!(row.end.unwrap().findings.lost.len(), 1);
}

/// Some providers want the key in the URL.
#[tokio::test]
async fn the_address_of_a_request_that_failed_is_not_kept() {
    let server = Server::of(b"nonsense\r\n\r\n".to_vec()).await;
    let mut call = call(&server.base, Format::Chat, Consumer::AttemptAware);
    call.route.url.push_str("?pass=Kartoffel7");
    assert_eq!(class(&all(server.client(settings()).start(call)).await), ErrorClass::TransportLost);
    let row = server.row().await;
    server.attempts.close();
    assert!(is_nowhere(server.directory.path(), "Kartoffel7"), "{row:?}");
}

/// Gateways repeat an unknown key in their error.
#[tokio::test]
async fn a_key_that_the_answer_repeats_is_not_kept() {
    let (key, page) =
        ("Kartoffel-7-Salat", "<p>https://a.example/v1?user_key=Kartoffel-8-Salat not found</p>");
    let error =
        json!({"error": {"type": "auth_error", "message": format!("no such key: {key}"), "code": key}});
    let cut = "200 OK\r\ncontent-length: 9";
    for (status, body) in
        [("401 Unauthorized", error.to_string()), ("404 Not Found", page.to_owned()), (cut, String::new())]
    {
        let answer = format!("HTTP/1.1 {status}\r\nx-request-id: {key}\r\n\r\n{body}");
        let server = Server::of(answer.into_bytes()).await;
        let mut call = call(&server.base, Format::Chat, Consumer::AttemptAware);
        call.route.headers = vec![("X-Api-Key".to_owned(), format!("Bearer {key}"))];
        call.route.url.push_str("?version=1&user_key=Kartoffel-8-Salat");
        let told = all(server.client(settings()).start(call)).await;
        assert!(!format!("{:?}", ending(&told)).contains("Kartoffel"), "{told:?}");
        let row = server.row().await;
        server.attempts.close();
        assert!(is_nowhere(server.directory.path(), "Kartoffel"), "{row:?}");
    }
}

/// A redirect repeats the URL, and its page repeats it again.
#[tokio::test]
async fn an_address_that_a_redirect_repeats_is_not_kept_either() {
    let to = "https://a.example/v1/chat/completions?pass=Kartoffel7";
    let page = format!("<a href=\"{to}\">Permanent Redirect</a>.\n\n");
    let head = format!("HTTP/1.1 308 Permanent Redirect\r\nlocation: {to}\r\ncontent-type: text/html\r\n");
    let empty = format!("{head}content-length: 0\r\n\r\n");
    for answer in [empty, format!("{head}content-length: {}\r\n\r\n{page}", page.len())] {
        let server = Server::of(answer.into_bytes()).await;
        let mut call = call(&server.base, Format::Chat, Consumer::AttemptAware);
        call.route.url.push_str("?pass=Kartoffel7");
        let told = all(server.client(settings()).start(call)).await;
        let CallOutcome::Failed { failure, .. } = ending(&told) else { panic!("{told:?}") };
        assert_eq!(failure.class, ErrorClass::InvalidRequest);
        assert!(failure.message.contains("https://a.example/v1/chat/completions"), "{}", failure.message);
        assert!(!failure.message.contains("Kartoffel"), "{}", failure.message);
        let row = server.row().await;
        server.attempts.close();
        assert!(is_nowhere(server.directory.path(), "Kartoffel"), "{row:?}");
    }
}

/// Proxies and load balancers refuse without a body.
#[tokio::test]
async fn a_refusal_without_a_body_is_what_its_status_says() {
    let cases = [
        ("429 Too Many Requests\r\nretry-after: 7", ErrorClass::RateLimited, Some(7)),
        ("503 Service Unavailable\r\nretry-after: 30", ErrorClass::Overloaded, Some(30)),
        ("502 Bad Gateway", ErrorClass::ProviderError, None),
        ("401 Unauthorized", ErrorClass::Auth, None),
        ("404 Not Found", ErrorClass::ModelUnavailable, None),
        ("413 Content Too Large", ErrorClass::ContextOverflow, None),
        ("302 Found", ErrorClass::InvalidRequest, None),
    ];
    let never = [ErrorClass::RateLimited, ErrorClass::Overloaded].map(|class| (class, None));
    for (status, class, wait) in cases {
        // With an empty body, and with one that breaks before its first byte.
        for length in [0, 9] {
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n");
            let server = Server::of(answer.into_bytes()).await;
            let mut settings = settings();
            settings.policy.limits.extend(never);
            let told = server.ask(settings).await;
            let CallOutcome::Failed { failure, .. } = ending(&told) else { panic!("{told:?}") };
            let wait = wait.map(Duration::from_secs);
            assert_eq!((failure.class, failure.wait), (class, wait), "{status}, {length} bytes");
        }
    }
}

/// A name of a megabyte is cut.
#[tokio::test]
async fn a_name_without_end_is_cut() {
    let long = "x".repeat(1 << 20);
    let chunk = json!({"id": long, "choices": [{"index": 0, "finish_reason": long,
        "delta": {"tool_calls": [{"index": 0, "id": long, "function": {"name": long, "arguments": "{"}}]}}]});
    let server = Server::of((head("") + &format!("data: {chunk}\n\n")).into_bytes()).await;
    server.ask(settings()).await;
    let row = serde_json::to_string(&server.row().await).unwrap();
    assert!(row.len() < 8 * 1024, "{} bytes", row.len());
}

#[tokio::test]
async fn an_answer_that_was_not_streamed_leaves_none_of_its_text() {
    let message = json!({"role": "assistant", "content": "Kartoffelsalat at noon"});
    let body = json!({"id": "chatcmpl-1", "choices": [{"index": 0, "message": message}]}).to_string();
    let long = body.replace("noon", &"noon".repeat(50_000));
    for body in [body, long] {
        let answer = head("").replace("text/event-stream", "application/json") + &body;
        let server = Server::of(answer.into_bytes()).await;
        assert_eq!(class(&server.ask(settings()).await), ErrorClass::NotAStream);
        let row = server.row().await;
        server.attempts.close();
        for text in ["Kartoffel", "noon"] {
            assert!(is_nowhere(server.directory.path(), text), "{row:?}");
        }
    }
}

#[tokio::test]
async fn a_body_that_is_packed_without_a_mark_of_its_own_is_named_by_its_head() {
    let brotli: &[u8] = b"\x0b\x05\x80Kartoffelsalat\x03";
    let answer = [head("content-encoding: br\r\n").as_bytes(), brotli].concat();
    let server = Server::of(answer).await;
    assert_eq!(class(&server.ask(settings()).await), ErrorClass::NotAStream);
    let row = server.row().await;
    server.attempts.close();
    assert!(is_nowhere(server.directory.path(), "Kartoffel"), "{row:?}");
}

/// A body that arrives faster than it is read uses up no timeout, so the size limit must end it.
#[tokio::test]
async fn comments_without_end_are_not_read_for_ever() {
    let server = Server::start(|mut connection| async move {
        let _ = connection.write_all(head("").as_bytes()).await;
        let comments = b": keepalive\n\n".repeat(1000);
        while connection.write_all(&comments).await.is_ok() {}
    })
    .await;
    let settings = Settings { most_bytes: 1 << 20, ..settings() };
    assert_eq!(class(&server.ask(settings).await), ErrorClass::StreamCorrupt);
    assert!(server.row().await.end.unwrap().findings.bytes < 2 << 20);
}

#[tokio::test]
async fn a_line_without_end_is_not_read_for_ever() {
    let server = Server::start(|mut connection| async move {
        let _ = connection.write_all((head("") + "data: {\"id\":\"").as_bytes()).await;
        let letters = vec![b'x'; 1 << 16];
        while connection.write_all(&letters).await.is_ok() {}
    })
    .await;
    let settings = Settings { most_bytes: 4 << 20, ..settings() };
    assert_eq!(class(&server.ask(settings).await), ErrorClass::StreamCorrupt);
}

#[tokio::test]
async fn a_page_without_end_is_not_read_for_ever() {
    let server = Server::start(|mut connection| async move {
        let _ = connection.write_all((head("") + "<html>").as_bytes()).await;
        let letters = vec![b'x'; 1 << 16];
        while connection.write_all(&letters).await.is_ok() {}
    })
    .await;
    assert_eq!(class(&server.ask(settings()).await), ErrorClass::NotAStream);
}

#[tokio::test]
async fn a_head_that_comes_letter_by_letter_is_a_stall() {
    let server = Server::start(|mut connection| async move {
        for letter in head("").bytes().cycle() {
            if connection.write_all(&[letter]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let clocks = Timeouts { headers: Duration::from_millis(200), ..Timeouts::default() };
    assert_eq!(class(&server.ask(Settings { timeouts: clocks, ..settings() }).await), ErrorClass::Stalled);
}

#[tokio::test]
async fn who_cancels_hangs_up() {
    let (hung_up, hanging_up) = tokio::sync::oneshot::channel();
    let hung_up = Arc::new(std::sync::Mutex::new(Some(hung_up)));
    let server = Server::start(move |mut connection| {
        let hung_up = hung_up.clone();
        async move {
            let _ = connection.write_all((head("") + ": hello\n\n").as_bytes()).await;
            // The client's end shows as the end of its bytes.
            while connection.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {}
            if let Some(hung_up) = hung_up.lock().unwrap().take() {
                let _ = hung_up.send(());
            }
        }
    })
    .await;
    let client = client(server.attempts.clone(), Timeouts::default(), Arc::new(QuickClock::new()));
    let mut running = client.start(call(&server.base, Format::Chat, Consumer::AttemptAware));
    while !matches!(running.next().await, Some(CallEvent::Stream { .. }) | None) {}
    running.cancel();
    assert_eq!(*ending(&all(running).await), CallOutcome::Cancelled);
    tokio::time::timeout(Duration::from_secs(300), hanging_up).await.unwrap().unwrap();
}

/// Other clients repeat a request to a server that accepts it and closes silently. Here every POST is one
/// attempt.
#[tokio::test]
async fn a_request_that_is_swallowed_is_sent_as_often_as_the_ledger_says() {
    let posts = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = posts.clone();
    // Called with the request read.
    let server = Server::start(move |connection| {
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async move { drop(connection) }
    })
    .await;
    assert_eq!(class(&server.ask(Settings::default()).await), ErrorClass::TransportLost);
    let rows = server.attempts.attempts("ses_1".into()).await.unwrap();
    assert_eq!((rows.len(), posts.load(std::sync::atomic::Ordering::SeqCst)), (6, 6));
}
