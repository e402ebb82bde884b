//! What the client logs: the story of a failed call, and never text of a model or a secret.

use super::*;
use turnstream_testkit::diagnostics::{Capture, Level, Line};

/// The lines of this crate at `level` or above. Under `cargo test` other tests log at the same time.
fn lines(capture: &Capture, level: Level, route: &str) -> Vec<Line> {
    let is_ours = |line: &Line| {
        line.target.starts_with("turnstream_llm") && line.field("provider").is_none_or(|name| name == route)
    };
    capture.at_least(level).into_iter().filter(is_ours).collect()
}

/// Runs one call over a route of its own, and returns what was logged.
async fn logged(route: &str, bench: &Bench, url: &str) -> (Vec<CallEvent>, Capture) {
    let capture = Capture::start();
    let mut call = call(url, Format::Chat, AttemptAware);
    call.route.name = route.to_owned();
    let told = all(bench.client.start(call)).await;
    (told, capture)
}

fn story(lines: &[Line]) -> Vec<(&str, Option<&str>, Option<&str>)> {
    lines.iter().map(|line| (line.message.as_str(), line.field("class"), line.field("attempt"))).collect()
}

#[tokio::test]
async fn a_good_answer_logs_nothing_above_debug_and_its_span_has_status_and_tokens() {
    let bench = bench([good()]).await;
    let (told, capture) = logged("quiet", &bench, &bench.provider.base_url()).await;
    is_whole(&told);
    assert_eq!(lines(&capture, Level::INFO, "quiet"), []);
    let debug = lines(&capture, Level::DEBUG, "quiet");
    let done =
        debug.iter().find(|line| line.message == "attempt completed").expect("it says that it is done");
    let span: Vec<_> = ["session", "turn", "attempt", "provider", "model", "status", "output_tokens"]
        .map(|name| done.field(name))
        .to_vec();
    assert_eq!(
        span,
        [Some("ses_1"), Some("t1"), Some("1"), Some("quiet"), Some("m"), Some("200"), Some("10")]
    );
}

#[tokio::test]
async fn a_call_with_failures_tells_its_story_in_a_few_lines_without_text() {
    let secret = "sk-ant-api03-Zm9vYmFyYmF6cXV4MDEyMzQ1Njc4OUFCQ0RFRkdISUpLTE1OT1A";
    let refusal = Refusal::new(529, "overloaded_error", &format!("overloaded, your key {secret}"));
    let cut = good().fault(Fault::Cut { after: 900, by: CutBy::Fin });
    let second = Completion::text("Another one.");
    let spliced = good().fault(Fault::Splice { after: 900, second });
    let bench = bench([Step::new(refusal), cut, spliced, good()]).await;
    let (told, capture) = logged("noisy", &bench, &bench.provider.base_url()).await;
    is_whole(&told);

    let shown = lines(&capture, Level::INFO, "noisy");
    let failed: Vec<_> =
        story(&shown).into_iter().filter(|(message, ..)| message.starts_with("attempt failed")).collect();
    assert_eq!(
        failed,
        [
            ("attempt failed; another follows", Some("overloaded"), Some("1")),
            ("attempt failed; another follows", Some("transport_lost"), Some("2")),
            ("attempt failed; another follows", Some("stream_spliced"), Some("3")),
        ],
        "{}",
        capture.text()
    );
    assert!(shown.iter().any(|line| line.message == "a second completion is in the stream"));
    assert!(shown.iter().all(|line| line.level == Level::WARN), "{}", capture.text());
    assert!(shown.len() < 10, "{}", capture.text());
    assert!(shown.iter().filter(|line| line.message.starts_with("attempt failed")).all(|line| {
        line.field("after").is_some() && line.field("source").is_some() && line.field("status").is_some()
    }));
    let text: String = shown.iter().map(|line| format!("{line}\n")).collect();
    for hidden in ["overloaded, your", "whole answer", "Another", "Bearer"] {
        assert!(!text.contains(hidden), "{hidden:?} is in {text}");
    }
    let everything: String =
        lines(&capture, Level::DEBUG, "noisy").iter().map(|line| format!("{line}\n")).collect();
    assert!(everything.contains("overloaded, your key") && !everything.contains(secret), "{everything}");
}

#[tokio::test]
async fn a_host_without_tls_is_named_in_the_line_of_its_attempt() {
    let bench = bench([good()]).await;
    let url = bench.provider.base_url().replace("http://", "https://");
    let (told, capture) = logged("tls", &bench, &url).await;
    assert_eq!(failed(&told), ErrorClass::Unreachable);
    let shown = lines(&capture, Level::INFO, "tls");
    assert_eq!(story(&shown), [("attempt failed; none follows", Some("unreachable"), Some("1"))]);
    assert!(
        shown[0].field("error").is_some_and(|error| error.contains("does not speak TLS")),
        "{}",
        shown[0]
    );
}

#[tokio::test]
async fn a_ledger_that_cannot_be_written_is_an_error_for_the_operator() {
    let bench = bench([good()]).await;
    let capture = Capture::start();
    let environment = turnstream_llm::client::Environment {
        ledger: Arc::new(FullDisk),
        waits: Arc::new(bench.attempts.clone()),
        clock: Arc::new(QuickClock::new()),
        redact: Arc::new(turnstream_redact::Rules::standard()),
    };
    let client = turnstream_llm::client::Client::new(Default::default(), environment).unwrap();
    let mut call = call(&bench.provider.base_url(), Format::Chat, AttemptAware);
    call.session = "ses_full".into();
    let told = all(client.start(call)).await;
    assert!(matches!(ending(&told), CallOutcome::NotRecorded(_)));
    let errors = capture.at_least(Level::ERROR);
    let of_this = errors.iter().find(|line| line.field("session") == Some("ses_full"));
    let line = of_this.expect("the operator is told");
    assert_eq!(line.message, "no request was sent: it cannot be recorded");
    assert!(line.field("error").is_some_and(|error| error.contains("the disk is full")), "{line}");
}
