//! Exports the spans of turns and attempts by OTLP over HTTP: docs/decisions/0021-otlp.md.
//!
//! One task reads the queue, sends batches and forgets what could not be sent. Nothing of the gateway waits
//! for it.

use super::spans::{QueuedSpans, SpanQueue};
use async_trait::async_trait;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{Key, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{ExporterBuildError, Protocol, RetryPolicy, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter as _};
use serde::{Deserialize, Deserializer};
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::Registry;
use turnstream_model::Chain;

/// The target of the spans of turns and attempts. No other span or event is exported.
const TARGET: &str = "turnstream::turn";

/// Where a collector takes spans, below its address.
const PATH: &str = "v1/traces";

/// A batch is sent when it is this large, or this old.
const BATCH: usize = 512;
const BATCH_AGE: Duration = Duration::from_secs(2);

/// How long one request may take.
const REQUEST_DEADLINE: Duration = Duration::from_secs(5);

/// How long the end of the process waits for the last batches.
pub(super) const FLUSH_DEADLINE: Duration = Duration::from_secs(1);

/// The time between two warnings about a collector that takes nothing.
const WARNING_PAUSE: Duration = Duration::from_secs(60);

/// The largest answer that is read. A collector's own are a few bytes.
const LARGEST_ANSWER: usize = 64 * 1024;

/// The value of `otlp`: the address of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collector(reqwest::Url);

/// Why nothing can be exported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CollectorError {
    #[error(
        "turns cannot be exported to {collector}: {source}; correct the OTEL_… variables, or leave otlp out"
    )]
    Exporter { collector: String, source: ExporterBuildError },
    #[error("turns cannot be exported to {collector}: {source}")]
    Client { collector: String, source: reqwest::Error },
}

impl FromStr for Collector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const LIKE: &str = "write it like http://127.0.0.1:4318";
        // The address is not repeated: it may hold a password.
        let url = reqwest::Url::parse(text).map_err(|_| format!("it is not a URL; {LIKE}"))?;
        if url.scheme() == "https" {
            return Err(
                "TLS is not supported here; use http:// to a collector on this machine, which can forward \
                        with TLS"
                    .to_owned(),
            );
        }
        if url.scheme() != "http" || url.cannot_be_a_base() {
            return Err(format!("its scheme must be http; {LIKE}"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "it holds credentials; give them in the variable OTEL_EXPORTER_OTLP_HEADERS".to_owned()
            );
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(format!("it has a query or a fragment; {LIKE}"));
        }
        Ok(Self(url))
    }
}

impl<'de> Deserialize<'de> for Collector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Collector {
    /// Where spans go: the address itself if it names the path already.
    fn endpoint(&self) -> String {
        let base = self.0.as_str().trim_end_matches('/');
        if base.ends_with(PATH) { base.to_owned() } else { format!("{base}/{PATH}") }
    }
}

/// The task that exports. Ended by [`Exporter::end`].
pub(super) struct Exporter {
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Exporter {
    /// Sends what is queued, and gives up after [`FLUSH_DEADLINE`], or at `by` if that is sooner.
    pub(super) async fn end(self, by: Instant) {
        // It fails only when the task has ended already, which its handle tells.
        let _ = self.end.send(());
        match timeout_at(by.min(Instant::now() + FLUSH_DEADLINE), self.task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(error = %Chain(&error), "the export of turns failed"),
            Err(_) => tracing::warn!("the collector did not take the last turns in time"),
        }
    }
}

/// Starts the task, and returns it with the layer that feeds it.
pub(super) fn start(
    collector: &Collector,
) -> Result<(Exporter, Box<dyn Layer<Registry> + Send + Sync>), CollectorError> {
    let endpoint = collector.endpoint();
    let http = reqwest::Client::builder().no_proxy().timeout(REQUEST_DEADLINE).build();
    let http = http.map_err(|source| CollectorError::Client { collector: endpoint.clone(), source })?;
    let last_error = LastError::default();
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(CollectorClient { http, last_error: last_error.clone() })
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(&endpoint)
        .with_timeout(REQUEST_DEADLINE)
        // The next batch is sent soon enough; a retry would hold it back.
        .with_retry_policy(RetryPolicy::disabled())
        .build();
    let mut exporter =
        exporter.map_err(|source| CollectorError::Exporter { collector: endpoint.clone(), source })?;
    let resource = resource();
    exporter.set_resource(&resource);
    let (queue, queued) = SpanQueue::new();
    let provider = SdkTracerProvider::builder().with_span_processor(queue).with_resource(resource).build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("turnstream"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_target(false)
        .with_filter(Targets::new().with_target(TARGET, LevelFilter::INFO))
        .boxed();
    let (end, ended) = oneshot::channel();
    let export = Export { exporter, failures: Failures::new(endpoint, last_error) };
    let task = tokio::spawn(export.run(queued, ended));
    Ok((Exporter { end, task }, layer))
}

/// Who exports: this program, unless `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` says otherwise.
fn resource() -> Resource {
    let (name, version) = (Key::from_static_str("service.name"), Key::from_static_str("service.version"));
    let detected = Resource::builder().build();
    let is_named = detected.get(&name).is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let is_versioned = detected.get(&version).is_some();
    let mut own = Vec::new();
    if !is_named {
        own.push(KeyValue::new(name, "turnstream"));
    }
    if !is_versioned {
        own.push(KeyValue::new(version, env!("CARGO_PKG_VERSION")));
    }
    Resource::builder().with_attributes(own).build()
}

/// The state of the task.
struct Export {
    exporter: opentelemetry_otlp::SpanExporter,
    failures: Failures,
}

impl Export {
    async fn run(mut self, queued: QueuedSpans, mut ended: oneshot::Receiver<()>) {
        let QueuedSpans { mut receiver, dropped } = queued;
        let mut batch = Vec::new();
        let mut tick = tokio::time::interval(BATCH_AGE);
        loop {
            let room = BATCH - batch.len();
            let is_last = tokio::select! {
                biased;
                _ = &mut ended => true,
                count = receiver.recv_many(&mut batch, room) => count == 0,
                _ = tick.tick() => {
                    self.send(std::mem::take(&mut batch)).await;
                    self.failures.report_if_due();
                    false
                }
            };
            if is_last {
                // The last batch may be cut off.
                self.failures.report();
                while let Ok(span) = receiver.try_recv() {
                    batch.push(span);
                }
            }
            if is_last || batch.len() >= BATCH {
                self.send(std::mem::take(&mut batch)).await;
            }
            self.failures.lost(dropped.swap(0, Ordering::Relaxed), "more spans ended than were taken");
            if is_last {
                self.failures.report();
                return;
            }
        }
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        if batch.is_empty() {
            return;
        }
        let count = batch.len() as u64;
        match self.exporter.export(batch).await {
            Ok(()) => tracing::debug!(count, "spans of turns were exported"),
            Err(error) => {
                let error = self.failures.last_error.take().unwrap_or_else(|| error.to_string());
                self.failures.lost(count, &error);
            }
        }
    }
}

/// Spans that were lost. They are counted, and reported at most once per [`WARNING_PAUSE`] and at the end.
struct Failures {
    endpoint: String,
    last_error: LastError,
    /// Lost since the last report, and why.
    lost: u64,
    error: String,
    reported: Option<Instant>,
}

impl Failures {
    fn new(endpoint: String, last_error: LastError) -> Self {
        Self { endpoint, last_error, lost: 0, error: String::new(), reported: None }
    }

    fn lost(&mut self, count: u64, error: &str) {
        if count > 0 {
            self.lost += count;
            error.clone_into(&mut self.error);
            self.report_if_due();
        }
    }

    fn report_if_due(&mut self) {
        if self.reported.is_none_or(|reported| reported.elapsed() >= WARNING_PAUSE) {
            self.report();
        }
    }

    /// Reports what no warning has told of yet.
    fn report(&mut self) {
        let Self { endpoint: collector, lost: count, error, .. } = self;
        if *count > 0 {
            tracing::warn!(%collector, count, %error, "spans of turns could not be exported and are lost");
            *count = 0;
            self.reported = Some(Instant::now());
        }
    }
}

/// Why the last request failed. The exporter reports "network error" only.
#[derive(Clone, Debug, Default)]
struct LastError(Arc<Mutex<Option<String>>>);

impl LastError {
    fn set(&self, error: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The HTTP client of the exporter.
#[derive(Debug)]
struct CollectorClient {
    http: reqwest::Client,
    last_error: LastError,
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.send(request).await;
        if let Err(error) = &answer {
            self.last_error.set(Chain(error).to_string());
        }
        Ok(answer?)
    }
}

impl CollectorClient {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, reqwest::Error> {
        let mut answer = self.http.execute(reqwest::Request::try_from(request)?).await?;
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await? {
            if body.len() + chunk.len() > LARGEST_ANSWER {
                break;
            }
            body.extend_from_slice(&chunk);
        }
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = answer.status();
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::{Collector, FLUSH_DEADLINE, Failures, LastError, TARGET, WARNING_PAUSE, start};
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use prost::Message;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;
    use tokio::time::Instant;
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::registry::Registry;
    use turnstream_testkit::diagnostics::Capture;

    /// Takes one request: its head, and the body by its length.
    fn request(listener: &TcpListener) -> (String, Vec<u8>) {
        let (mut socket, _) = listener.accept().unwrap();
        let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let count = socket.read(&mut piece).unwrap();
            bytes.extend_from_slice(&piece[..count]);
            let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if bytes.len() - end - 4 == length.parse::<usize>().unwrap() {
                socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
                return (head, bytes.split_off(end + 4));
            }
        }
    }

    #[tokio::test]
    async fn only_spans_of_turns_are_exported_and_the_end_flushes_them() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let collector: Collector = address.parse().unwrap();
        let (exporter, layer) = start(&collector).unwrap();
        tracing::subscriber::with_default(Registry::default().with(vec![layer]), || {
            let turn = tracing::info_span!(
                target: TARGET, "turn", "otel.name" = "invoke_agent demo", "gen_ai.usage.input_tokens" = 7_i64
            );
            turn.in_scope(|| tracing::warn!("a line with text that must not leave the machine"));
            drop(tracing::info_span!("request", path = "/v1/health"));
        });
        let collected = tokio::task::spawn_blocking(move || request(&listener));
        exporter.end(Instant::now() + FLUSH_DEADLINE).await;
        let (head, body) = collected.await.unwrap();
        assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
        let request = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
        let resource = format!("{:?}", request.resource_spans[0].resource);
        assert!(resource.contains("\"turnstream\"") && resource.contains("service.version"), "{resource}");
        let spans = &request.resource_spans[0].scope_spans[0].spans;
        let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(names, ["invoke_agent demo"]);
        let keys: Vec<&str> = spans[0].attributes.iter().map(|attribute| attribute.key.as_str()).collect();
        assert_eq!(keys, ["gen_ai.usage.input_tokens"], "nothing is added");
        assert!(spans[0].events.is_empty(), "{:?}", spans[0].events);
    }

    #[tokio::test(start_paused = true)]
    async fn every_lost_span_is_in_a_warning_also_if_no_other_is_lost() {
        let capture = Capture::start();
        let counts = || -> Vec<String> {
            let lines = capture.lines().into_iter().filter(|line| line.message.contains("are lost"));
            lines.filter_map(|line| line.field("count").map(str::to_owned)).collect()
        };
        let mut failures = Failures::new("http://127.0.0.1:9".to_owned(), LastError::default());
        failures.lost(1, "refused");
        failures.lost(2, "refused");
        failures.report_if_due();
        assert_eq!(counts(), ["1"]);
        tokio::time::advance(WARNING_PAUSE).await;
        failures.report_if_due();
        assert_eq!(counts(), ["1", "2"]);
        failures.lost(3, "refused");
        failures.report();
        failures.report();
        assert_eq!(counts(), ["1", "2", "3"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_collector_that_hangs_has_only_what_is_left_of_the_shutdown() {
        // Connections are accepted by the system, and nobody answers.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector: Collector = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let (exporter, layer) = start(&collector).unwrap();
        tracing::subscriber::with_default(Registry::default().with(vec![layer]), || {
            drop(tracing::info_span!(target: TARGET, "turn"));
        });
        let by = Instant::now() + Duration::from_millis(100);
        exporter.end(by).await;
        // The clock moves only when nothing else can.
        assert!(by.elapsed() < Duration::from_millis(10), "{:?} too late", by.elapsed());
    }

    #[test]
    fn an_address_of_a_collector_is_read_with_or_without_the_path() {
        for address in ["http://127.0.0.1:4318", "http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"]
        {
            let collector: Collector = address.parse().expect(address);
            assert_eq!(collector.endpoint(), "http://127.0.0.1:4318/v1/traces");
        }
        let below: Collector = "http://127.0.0.1:4318/otlp".parse().expect("a path");
        assert_eq!(below.endpoint(), "http://127.0.0.1:4318/otlp/v1/traces");
    }

    #[test]
    fn an_address_that_cannot_be_used_says_what_to_write() {
        for (address, told) in [
            ("127.0.0.1:4318", "write it like http://127.0.0.1:4318"),
            ("mailto:a@b", "its scheme must be http"),
            ("https://127.0.0.1:4318", "TLS is not supported"),
            ("http://me:sesame@127.0.0.1", "OTEL_EXPORTER_OTLP_HEADERS"),
            ("http://127.0.0.1/?a=b", "query"),
        ] {
            let problem = address.parse::<Collector>().expect_err(address);
            assert!(problem.contains(told) && !problem.contains("sesame"), "{problem}");
        }
    }
}
