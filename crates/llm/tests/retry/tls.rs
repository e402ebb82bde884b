//! HTTPS: real handshakes on loopback, with certificates made in the test.
//!
//! An untrusted certificate fails at once, and a broken connection never passes for the end of an answer.

use crate::support::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use turnstream_fake_provider::{
    Asked, Chunk, Completion, Identity, Provider, Script, Step, WireFormat, render,
};
use turnstream_llm::classify::{Source, TimeoutKind};
use turnstream_llm::client::{CallEvent, CallOutcome, Client, ClientError, Environment, Settings, Timeouts};
use turnstream_llm::retry::Consumer::{AttemptAware, PlainWire};
use turnstream_llm::{DoneMarker, Format, Profile};
use turnstream_log::Attempts;
use turnstream_model::attempts::{Attempt, Ledger, Verdict};
use turnstream_model::event::ErrorClass;
use turnstream_redact::Rules;
use turnstream_testkit::crash::{KillPoint, Program, role};

const ANSWER: &str = "The whole answer, through a tunnel that nobody else can look into.";

/// A certificate authority, with its file.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
    _directory: TempDir,
}

impl Authority {
    /// Each authority has its own name.
    fn new() -> Self {
        Self::named(&format!("authority {}", fastrand::u64(..)))
    }

    fn named(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("authority.pem");
        std::fs::write(&file, certificate.pem()).unwrap();
        Self { issuer: Issuer::new(params, key), file, _directory: directory }
    }

    /// A certificate for this name, valid until the end of a year.
    fn certify(&self, name: &str, until: i32) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(until, 12, 31);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    fn good(&self) -> TlsAcceptor {
        self.certify("localhost", 2999)
    }
}

/// A TLS server. `serve` gets every connection.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Server {
    async fn start<F>(
        tls: TlsAcceptor,
        serve: impl Fn(TlsStream<TcpStream>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (count, serve) = (connections.clone(), Arc::new(serve));
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (tls, serve) = (tls.clone(), serve.clone());
                tokio::spawn(async move {
                    if let Ok(connection) = tls.accept(tcp).await {
                        serve(connection).await;
                    }
                });
            }
        });
        Self { address, connections }
    }

    /// In front of a provider that speaks plain HTTP.
    async fn before(provider: &Provider, tls: TlsAcceptor) -> Self {
        let to = provider.address();
        Self::start(tls, move |mut connection| async move {
            let mut behind = TcpStream::connect(to).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut connection, &mut behind).await;
        })
        .await
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }
}

struct Place {
    attempts: Attempts,
    client: Client,
    _directory: TempDir,
}

impl Place {
    fn new(authorities: Option<&Path>) -> Self {
        let directory = TempDir::new().unwrap();
        let attempts = Attempts::open(directory.path()).unwrap();
        let settings = Settings { authorities: authorities.map(Path::to_owned), ..Settings::default() };
        let client = client_with(settings, attempts.clone(), Arc::new(QuickClock::new()));
        Self { attempts, client, _directory: directory }
    }

    async fn ask(&self, url: &str, format: Format) -> Vec<CallEvent> {
        all(self.client.start(call(url, format, AttemptAware))).await
    }

    async fn rows(&self) -> Vec<Attempt> {
        self.attempts.attempts("ses_1".into()).await.unwrap()
    }

    async fn verdicts(&self) -> Vec<(Verdict, Option<ErrorClass>)> {
        let verdict = |row: &Attempt| (row.verdict().unwrap(), row.end.as_ref().and_then(|end| end.class));
        self.rows().await.iter().map(verdict).collect()
    }
}

async fn provider(steps: impl IntoIterator<Item = Step>) -> Provider {
    Provider::start(Script::new(steps)).await.unwrap()
}

#[tokio::test]
async fn an_answer_comes_through_tls_whole_and_in_pieces_on_a_connection_of_its_own() {
    let authority = Authority::new();
    for format in Format::ALL {
        let provider = provider([Step::text(ANSWER), Step::text(ANSWER)]).await;
        let server = Server::before(&provider, authority.good()).await;
        let place = Place::new(Some(&authority.file));
        let told = place.ask(&server.url(), format).await;
        assert!(matches!(ending(&told), CallOutcome::Complete(_)), "{format:?}: {:?}", ending(&told));
        assert_eq!(text_of(&told), ANSWER);
        let pieces = told.iter().filter(|told| matches!(told, CallEvent::Stream { .. })).count();
        assert!(pieces > 3, "it was streamed: {pieces}");
        let mut next = call(&server.url(), format, AttemptAware);
        (next.step, next.attempts_before) = (2, 1);
        assert_eq!(text_of(&all(place.client.start(next)).await), ANSWER);
        assert_eq!(place.verdicts().await, [(Verdict::Complete, None); 2]);
        assert_eq!((provider.calls().len(), server.connections.load(Ordering::SeqCst)), (2, 2));
    }
}

/// The failure of a call, after a single attempt.
async fn refused(url: &str, authorities: Option<&Path>) -> String {
    let place = Place::new(authorities);
    let told = place.ask(url, Format::Chat).await;
    match ending(&told) {
        CallOutcome::Failed { failure, retry_at: None } => assert_eq!(failure.class, ErrorClass::Unreachable),
        other => panic!("{other:?}"),
    }
    let mut rows = place.rows().await;
    assert_eq!(rows.len(), 1, "to ask again is of no use: {rows:?}");
    rows.remove(0).end.unwrap().problem.unwrap()
}

#[tokio::test]
async fn a_certificate_that_cannot_be_believed_is_named_and_not_tried_again() {
    let (authority, other) = (Authority::named("one"), Authority::new());
    let renewed = Authority::named("one");
    let unknown = ["signed by an unknown authority", "`authorities` or SSL_CERT_FILE"];
    let cases = [
        (authority.good(), &renewed, unknown),
        (authority.good(), &other, unknown),
        (authority.certify("localhost", 2021), &authority, ["has expired", "renew it"]),
        (
            authority.certify("api.example.com", 2999),
            &authority,
            ["api.example.com", "correct the route's address"],
        ),
    ];
    for (tls, believed, words) in cases {
        let provider = provider([Step::text(ANSWER)]).await;
        let server = Server::before(&provider, tls).await;
        let problem = refused(&server.url(), Some(&believed.file)).await;
        for word in ["localhost"].into_iter().chain(words) {
            assert!(problem.contains(word), "{word:?} in {problem:?}");
        }
        assert_eq!((provider.calls().len(), server.connections.load(Ordering::SeqCst)), (0, 1));
    }
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_named_as_that() {
    let provider = provider([Step::text(ANSWER)]).await;
    let url = format!("https://localhost:{}", provider.address().port());
    let problem = refused(&url, None).await;
    assert!(problem.contains("does not speak TLS") && problem.contains("http://"), "{problem}");
}

#[tokio::test]
async fn a_handshake_that_breaks_off_is_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            let _ = tcp.read(&mut [0; 16]).await;
        }
    });
    let place = Place::new(None);
    let told = place.ask(&url, Format::Chat).await;
    assert!(matches!(ending(&told), CallOutcome::Failed { .. }), "{:?}", ending(&told));
    assert_eq!(place.verdicts().await, [(Verdict::Failed, Some(ErrorClass::TransportLost)); 6]);
}

#[tokio::test]
async fn a_handshake_without_end_is_ended_by_the_clock_of_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let held = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((tcp, _)) = listener.accept().await {
            held.push(tcp);
        }
    });
    let directory = TempDir::new().unwrap();
    let attempts = Attempts::open(directory.path()).unwrap();
    let clocks = Timeouts { connect: Duration::from_millis(200), ..Timeouts::default() };
    let client = client(attempts.clone(), clocks, Arc::new(QuickClock::new()));
    let told = all(client.start(call(&url, Format::Chat, AttemptAware))).await;
    let CallOutcome::Failed { failure, .. } = ending(&told) else { panic!("{:?}", ending(&told)) };
    assert_eq!(
        (failure.class, failure.source),
        (ErrorClass::Unreachable, Source::Timeout(TimeoutKind::Connect))
    );
    assert_eq!(failure.message, "localhost: no connection within 200ms");
    assert_eq!(attempts.attempts("ses_1".into()).await.unwrap().len(), 6);
    held.abort();
}

/// The events of an answer in the chat format.
fn events() -> Vec<Vec<u8>> {
    let asked = Asked { model: "m".to_owned(), stream: true, include_usage: true, ..Asked::default() };
    let identity = Identity { serial: 0, created: START.0 / 1000, asked };
    let answer = render(WireFormat::Chat, &Step::new(Completion::text(ANSWER)), &identity).unwrap();
    let bytes = answer.chunks.into_iter().filter_map(|chunk| match chunk {
        Chunk::Write { bytes, .. } => Some(bytes),
        Chunk::Stall(_) => None,
    });
    bytes.collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Close {
    /// With `close_notify`.
    Notified,
    /// Without `close_notify`, as anybody on the path can cause.
    Cut,
}

/// Answers with a body that ends with the connection.
async fn closing(authority: &Authority, body: Vec<u8>, close: Close) -> Server {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let answer = Arc::new([head.as_bytes(), &body].concat());
    Server::start(authority.good(), move |mut connection| {
        let answer = answer.clone();
        async move {
            let _ = connection.read(&mut [0; 4096]).await;
            let _ = connection.write_all(&answer).await;
            let _ = connection.flush().await;
            match close {
                Close::Notified => drop(connection.shutdown().await),
                Close::Cut => drop(connection.get_mut().0.shutdown().await),
            }
        }
    })
    .await
}

/// Anybody on the path can end a connection, but only the peer can end the TLS stream. Otherwise anybody
/// could shorten an answer that ends with its connection.
#[tokio::test]
async fn a_connection_that_ends_without_a_word_is_a_loss_and_never_an_end() {
    let authority = Authority::new();
    let events = events();
    let told_by = async |body: Vec<u8>, close, profile: Profile| {
        let server = closing(&authority, body, close).await;
        let place = Place::new(Some(&authority.file));
        let mut asked = call(&server.url(), Format::Chat, PlainWire);
        asked.route.profile = profile;
        let told = all(place.client.start(asked)).await;
        (place.verdicts().await[0], matches!(ending(&told), CallOutcome::Complete(_)))
    };
    let failed = |class| ((Verdict::Failed, Some(class)), false);
    let complete = ((Verdict::Complete, None), true);
    for cut in 2..events.len() - 2 {
        let body = events[..cut].concat();
        let told = told_by(body.clone(), Close::Cut, Profile::UNKNOWN).await;
        assert_eq!(told, failed(ErrorClass::TransportLost), "cut behind event {cut}");
        let told = told_by(body, Close::Notified, Profile::UNKNOWN).await;
        assert_eq!(told, failed(ErrorClass::Incomplete), "ended behind event {cut}");
    }
    let whole = events.concat();
    assert_eq!(told_by(whole.clone(), Close::Notified, Profile::UNKNOWN).await, complete);
    assert_eq!(told_by(whole, Close::Cut, Profile::UNKNOWN).await, complete, "it has its own end");

    // A provider without `[DONE]`: only the end of the transport counts.
    let profile = Profile { done: DoneMarker::Perhaps, ..Profile::UNKNOWN };
    let body: Vec<u8> = events[..events.len() - 1].concat();
    assert_eq!(told_by(body.clone(), Close::Notified, profile.clone()).await, complete);
    assert_eq!(told_by(body, Close::Cut, profile).await, failed(ErrorClass::TransportLost));
}

#[tokio::test]
async fn a_file_without_authorities_is_refused_at_the_start() {
    let directory = TempDir::new().unwrap();
    let (missing, empty) = (directory.path().join("missing.pem"), directory.path().join("empty.pem"));
    std::fs::write(&empty, "nothing").unwrap();
    let attempts = Attempts::open(directory.path()).unwrap();
    for path in [missing, empty] {
        let environment = Environment {
            ledger: Arc::new(attempts.clone()),
            waits: Arc::new(attempts.clone()),
            clock: Arc::new(QuickClock::new()),
            redact: Arc::new(Rules::standard()),
        };
        let settings = Settings { authorities: Some(path.clone()), ..Settings::default() };
        let ClientError::Authorities { path: named, .. } = Client::new(settings, environment).err().unwrap();
        assert_eq!(named, path);
    }
}

// === environment variables, which need another process ===

const CHILD: &str = "tls::a_child_that_asks";
const URL: &str = "TURNSTREAM_TEST_URL";

#[tokio::test]
async fn a_child_that_asks() {
    if role().is_none() {
        return;
    }
    let told = Place::new(None).ask(&std::env::var(URL).unwrap(), Format::Chat).await;
    match ending(&told) {
        CallOutcome::Complete(_) => println!("frame said {}", text_of(&told)),
        CallOutcome::Failed { failure, .. } => println!("frame failed {} {}", failure.class, failure.message),
        other => println!("frame ended {other:?}"),
    }
}

fn child(url: &str) -> Program {
    Program::this_test(CHILD, "ask").unwrap().env(URL, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authorities_of_the_environment_are_believed_and_a_wrong_file_is_named() {
    let authority = Authority::new();
    let provider = provider([Step::text(ANSWER)]).await;
    let server = Server::before(&provider, authority.good()).await;
    let seen = child(&server.url()).env("SSL_CERT_FILE", &authority.file).run(&KillPoint::Exit).unwrap();
    assert_eq!(seen.lines("frame said "), [ANSWER]);
    let seen = child(&server.url()).env("SSL_CERT_FILE", "/nowhere/ca.pem").run(&KillPoint::Exit).unwrap();
    let failed = seen.lines("frame failed ").remove(0);
    assert!(failed.starts_with("invalid_request ") && failed.contains("SSL_CERT_FILE"), "{failed}");
    assert!(failed.contains("/nowhere/ca.pem"), "{failed}");
    assert_eq!(provider.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_of_the_environment_is_gone_through_and_sees_nothing() {
    let authority = Authority::new();
    let provider = provider([Step::text(ANSWER)]).await;
    let server = Server::before(&provider, authority.good()).await;
    let (to, proxy) = (server.address, TcpListener::bind("127.0.0.1:0").await.unwrap());
    let proxy_url = format!("http://{}", proxy.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let (mut client, _) = proxy.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let mut behind = TcpStream::connect(to).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut client, &mut behind).await;
        String::from_utf8(head).unwrap()
    });
    let seen = child(&server.url())
        .env("HTTPS_PROXY", &proxy_url)
        .env("SSL_CERT_FILE", &authority.file)
        .run(&KillPoint::Exit)
        .unwrap();
    assert_eq!(seen.lines("frame said "), [ANSWER]);
    let head = asked.await.unwrap();
    assert!(head.starts_with(&format!("CONNECT localhost:{} HTTP/1.1\r\n", to.port())), "{head}");

    let seen = child(&server.url()).env("HTTPS_PROXY", "socks5://127.0.0.1:1").run(&KillPoint::Exit).unwrap();
    let failed = seen.lines("frame failed ").remove(0);
    assert!(failed.starts_with("invalid_request ") && failed.contains("HTTPS_PROXY"), "{failed}");
}

/// Answers every connection with the same bytes, and counts them.
async fn proxy_that_answers(answer: &'static str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (url, asked) = (format!("http://{}", listener.local_addr().unwrap()), Arc::new(AtomicUsize::new(0)));
    let count = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = client.read(&mut [0; 4096]).await;
            let _ = client.write_all(answer.as_bytes()).await;
        }
    });
    (url, asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_refuses_is_named_and_asked_again_only_if_that_may_help() {
    let cases = [
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "unreachable", "name and a password", 1),
        ("HTTP/1.1 403 Forbidden\r\n\r\n", "unreachable", "status 403", 1),
        ("HTTP/1.1 502 Bad Gateway\r\n\r\n", "unreachable", "status 502", 6),
        ("220 smtp.example\r\n\r\n", "unreachable", "HTTPS_PROXY", 6),
        ("HTTP/1.1 200 ", "transport_lost", "", 6),
    ];
    for (answer, class, says, times) in cases {
        let (proxy, asked) = proxy_that_answers(answer).await;
        let url = "https://provider.example/v1";
        let seen = child(url).env("HTTPS_PROXY", &proxy).run(&KillPoint::Exit).unwrap();
        let failed = seen.lines("frame failed ").remove(0);
        let begins = format!("{class} provider.example through the proxy 127.0.0.1: ");
        assert!(failed.starts_with(&begins) && failed.contains(says), "{answer:?}: {failed}");
        assert_eq!(asked.load(Ordering::SeqCst), times, "{answer:?}: {failed}");
    }
}
