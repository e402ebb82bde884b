//! Turns at an OpenTelemetry collector.

use crate::support::{ENDED, Home, PATIENCE, prompt, read};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use rustix::process::Signal;
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

/// One request to the collector: its head in lower case, and the decoded body.
type Exported = (String, ExportTraceServiceRequest);

/// A collector that takes everything.
struct Collector {
    address: String,
    requests: mpsc::Receiver<Exported>,
}

impl Collector {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requests) = mpsc::channel();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let sender = sender.clone();
                std::thread::spawn(move || serve(socket.unwrap(), &sender));
            }
        });
        Self { address, requests }
    }

    /// Everything that came; the gateway has ended.
    fn requests(&self) -> Vec<Exported> {
        let first = self.requests.recv_timeout(PATIENCE).expect("no request came");
        std::iter::once(first).chain(self.requests.try_iter()).collect()
    }
}

/// Answers the requests of one connection.
fn serve(socket: TcpStream, sender: &mpsc::Sender<Exported>) {
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let mut socket = socket;
    loop {
        let (mut head, mut line) = (String::new(), String::new());
        while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
            head += &std::mem::take(&mut line).to_lowercase();
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let Some(length) = length.and_then(|length| length.parse().ok()) else { return };
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let decoded = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
        if sender.send((head, decoded)).is_err() {
            return;
        }
        socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    }
}

/// The attribute of a span, as text.
fn attribute(span: &Span, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == name)?;
    match found.value.as_ref()?.value.as_ref()? {
        AnyValue::StringValue(text) => Some(text.clone()),
        AnyValue::IntValue(number) => Some(number.to_string()),
        AnyValue::DoubleValue(number) => Some(number.to_string()),
        AnyValue::BoolValue(is_true) => Some(is_true.to_string()),
        other => panic!("{name}: {other:?}"),
    }
}

const SECRET_TEXT: &str = "the words of the prompt and the answer";

/// A turn with one model call that tells its tokens and its cost.
fn priced_turn() -> String {
    prompt(&json!([
        {"do": "attempt", "model": "acme/m-1"},
        {"do": "text", "text": SECRET_TEXT},
        {"do": "attempt_end", "finish": "stop", "usage": {"input": 120, "output": 40},
         "cost": {"amount": 0.5, "currency": "USD"}},
        {"do": "usage", "usage": {"input": 120, "output": 40}, "cost": {"amount": 0.5, "currency": "USD"}},
    ]))
}

#[test]
fn a_turn_reaches_the_collector_with_its_model_tokens_and_cost_and_without_its_text() {
    let (home, collector) = (Home::new(), Collector::new());
    let serving = home.serve_armed(&[], |command| {
        command.env("TURNSTREAM_OTLP", &collector.address);
        command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=swordfish-4f1d");
        command.env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test");
        command.env("RUST_LOG", "trace");
    });
    let turn = home.run(&["run", &priced_turn()]);
    assert_eq!(turn.status.code(), Some(0), "{turn:?}");
    let (status, took) = serving.end(Signal::TERM);
    assert!(status.success() && took < ENDED, "{status} after {took:?}");

    let requests = collector.requests();
    let mut spans = Vec::new();
    for (head, request) in &requests {
        assert!(head.starts_with("post /v1/traces "), "{head}");
        assert!(head.contains("x-api-key: swordfish-4f1d"), "{head}");
        for resource_spans in &request.resource_spans {
            let resource = format!("{:?}", resource_spans.resource);
            for words in ["service.name", "\"turnstream\"", "service.version", "deployment.environment.name"]
            {
                assert!(resource.contains(words), "{words}: {resource}");
            }
            spans.extend(resource_spans.scope_spans.iter().flat_map(|scope| scope.spans.clone()));
        }
    }
    let named =
        |name: &str| spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{spans:?}"));
    let (turn, call) = (named("invoke_agent scripted"), named("chat m-1"));
    assert_eq!((&call.trace_id, &call.parent_span_id), (&turn.trace_id, &turn.span_id));
    for span in [turn, call] {
        for (name, value) in [
            ("gen_ai.provider.name", "acme"),
            ("gen_ai.response.model", "m-1"),
            ("gen_ai.usage.input_tokens", "120"),
            ("gen_ai.usage.output_tokens", "40"),
            ("turnstream.cost", "0.5"),
        ] {
            assert_eq!(attribute(span, name).as_deref(), Some(value), "{name} of {span:?}");
        }
    }
    assert!(!format!("{spans:?}").contains(SECRET_TEXT), "{spans:?}");
    let log = read(&home.path("serve.err"));
    assert!(!log.contains("swordfish"), "the header is never printed: {log}");
}

#[test]
fn a_collector_that_is_away_costs_three_warnings_at_most_and_no_time() {
    // A port that nobody listens at any more.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let home = Home::new();
    let serving = home.serve_armed(&[], |command| {
        command.env("TURNSTREAM_OTLP", format!("http://{address}"));
    });
    for _ in 0..3 {
        let turn = home.run(&["run", &priced_turn()]);
        assert_eq!(turn.status.code(), Some(0), "{turn:?}");
    }
    let (status, took) = serving.end(Signal::TERM);
    assert!(status.success() && took < ENDED, "{status} after {took:?}");
    let log = read(&home.path("serve.err"));
    // The first loss; at the end what was lost since, and the last batch. Each turn has a span, and so has
    // its model call.
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("could not be exported")).collect();
    let counts = warnings
        .iter()
        .filter_map(|line| line.split("count=").nth(1)?.split(' ').next()?.parse::<u64>().ok());
    assert_eq!(counts.sum::<u64>(), 6, "{log}");
    assert!(warnings.len() <= 3, "{log}");
    assert!(log.contains("Connection refused"), "the cause is in it: {log}");
}
