//! The lines and spans of the gateway, as a subscriber gets them.

use crate::puppet::{began, done, stage};
use crate::support::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use turnstream_agents::{Command, Observed};
use turnstream_gateway::{Gateway, RequestError};
use turnstream_model::event::Permissions;
use turnstream_model::id::SessionId;
use turnstream_testkit::diagnostics::{Capture, Level, Line};
use turnstream_testkit::lawful::Tail;

/// Plays a script in a new session, and returns the session when its turn has ended.
async fn played(gateway: &Gateway, home: &Home, steps: Value) -> SessionId {
    let id = session_with(gateway, home, "scripted", Permissions::Allow).await;
    prompt(gateway, &id, steps).await;
    settled(gateway, &id, 1).await;
    id
}

fn messages(lines: &[Line]) -> Vec<&str> {
    lines.iter().map(|line| line.message.as_str()).collect()
}

/// The fields of the innermost span of this name around a line.
fn span<'a>(line: &'a Line, name: &str) -> BTreeMap<&'a str, &'a str> {
    let span = line.spans.iter().rev().find(|span| span.name == name).expect("the line is in such a span");
    span.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_turn_tells_its_story_in_under_ten_lines() {
    for (steps, outcome, class) in [
        (
            json!([{"do": "attempt"}, {"do": "fail", "class": "overloaded", "message": "m"}]),
            "failed",
            "overloaded",
        ),
        (json!([{"do": "text", "text": "half"}, {"do": "crash", "message": "m"}]), "lost", "agent_exited"),
    ] {
        let capture = Capture::start();
        let home = Home::new();
        let gateway = home.open().await;
        let id = played(&gateway, &home, steps).await;
        gateway.close().await;
        let lines = capture.at_least(Level::INFO);
        home.judge(Tail::Settled).await;
        assert!(lines.len() < 10, "{}", capture.text());
        let messages = messages(&lines);
        for expected in ["gateway started", "session created", "gateway stopped"] {
            assert!(messages.contains(&expected), "{expected}: {}", capture.text());
        }
        let ended = lines.iter().find(|line| line.message == "turn ended").expect("the turn has ended");
        assert_eq!(ended.level, Level::WARN);
        let field = |name| ended.field(name).unwrap_or_default();
        assert_eq!((field("session"), field("turn"), field("agent")), (id.as_str(), "t1", "scripted"));
        assert_eq!((field("outcome"), field("class")), (outcome, class));
        assert!(field("duration_ms").parse::<u64>().is_ok());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_agent_is_warned_about() {
    let capture = Capture::start();
    let home = Home::new();
    let gateway = home.open().await;
    played(&gateway, &home, json!([{"do": "text", "text": "half"}, {"do": "vanish"}])).await;
    let lost = capture.until(|line| line.message == "the agent was lost in a turn").await;
    assert_eq!((lost.level, lost.field("class")), (Level::WARN, Some("agent_exited")));
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_session_prints_nothing_above_info() {
    let capture = Capture::start();
    let home = Home::new();
    let gateway = home.open().await;
    let id = played(&gateway, &home, json!([{"do": "text", "text": "one"}, {"do": "tool"}])).await;
    prompt(&gateway, &id, json!([{"do": "burst", "count": 200, "bytes": 20}])).await;
    settled(&gateway, &id, 2).await;
    gateway.delete(&id).await.unwrap();
    home.close(gateway).await;
    assert_eq!(messages(&capture.at_least(Level::WARN)), Vec::<&str>::new(), "{}", capture.text());
    let lines = capture.at_least(Level::INFO);
    let wanted = [
        "gateway started",
        "session created",
        "turn ended",
        "turn ended",
        "session deleted",
        "gateway stopped",
    ];
    let of_gateway: Vec<&str> = messages(&lines).into_iter().filter(|line| wanted.contains(line)).collect();
    assert_eq!(of_gateway, wanted, "{}", capture.text());
    let deltas = capture.lines().iter().filter(|line| line.target.starts_with("turnstream_gateway")).count();
    assert!(deltas < 50, "nothing is logged for a delta:\n{}", capture.text());
}

/// A word that stands in everything that users, models and tools say.
const SAID: &str = "okapi";

#[tokio::test(flavor = "multi_thread")]
async fn no_text_of_prompts_models_or_tools_is_in_a_line_at_info_or_above() {
    let capture = Capture::start();
    let home = Home::new();
    let gateway = home.open().await;
    let said = |what: &str| format!("{SAID} {what}");
    let tool = json!({"do": "tool", "name": said("name"), "title": said("title"), "input": {"a": said("input")},
        "output": said("output"), "ask": true});
    played(
        &gateway,
        &home,
        json!([
            {"do": "attempt"},
            {"do": "reasoning", "text": said("thought")},
            {"do": "text", "text": said("answer")},
            tool,
            {"do": "tool", "fail": said("failure")},
            {"do": "error", "class": "overloaded", "message": said("error")},
            {"do": "garbage"},
            {"do": "crash", "message": said("crash")},
        ]),
    )
    .await;
    for steps in [
        json!([{"do": "fail", "class": "auth", "message": said("failed")}]),
        json!([{"do": "refuse", "class": "auth", "message": said("refused")}]),
        json!([{"do": said("unknown")}]),
    ] {
        played(&gateway, &home, steps).await;
    }
    home.close(gateway).await;
    for line in capture.at_least(Level::INFO) {
        assert!(!line.to_string().contains(SAID), "{line}");
    }
    assert!(capture.text().contains(&said("failed")), "the agent's words are in the lines for debugging");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_words_of_an_agent_that_is_away_are_only_in_lines_for_debugging() {
    let capture = Capture::start();
    let mut home = Home::new();
    home.settings.connect = Duration::from_secs(1);
    let gateway = stage(&home, false, |_, mut commands, observer| async move {
        while let Some(command) = commands.recv().await {
            if let Command::Prompt { native_id, .. } = command {
                began(&observer, "n1", &[&native_id]).await;
                let _ = observer.observed(Observed::Away(format!("it says {SAID}"))).await;
                let _ = observer.signal(done("n1")).await;
            }
        }
    })
    .await;
    let id = session(&gateway, &home, "puppet").await;
    for turns in 1..=2 {
        prompt(&gateway, &id, json!([])).await;
        settled(&gateway, &id, turns).await;
    }
    let failed = capture.until(|line| line.message == "the agent cannot be connected").await;
    assert_eq!((failed.level, failed.field("class")), (Level::WARN, Some("unreachable")));
    home.close(gateway).await;
    for line in capture.at_least(Level::INFO) {
        assert!(!line.to_string().contains(SAID), "{line}");
    }
    assert!(capture.text().contains(SAID), "the agent's words are in the lines for debugging");
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_and_attempts_have_spans_with_the_attributes_of_the_conventions() {
    let capture = Capture::start();
    let home = Home::new();
    let gateway = home.open().await;
    let usage = json!({"input": 10, "output": 3, "reasoning": 4, "cache_read": 100, "cache_write": 5});
    let cost = json!({"amount": 0.25, "currency": "USD"});
    let id = played(
        &gateway,
        &home,
        json!([
            {"do": "attempt", "model": "anthropic/claude"},
            {"do": "text", "text": "Hi"},
            {"do": "attempt_end", "finish": "stop", "usage": usage, "cost": cost},
            {"do": "usage", "usage": usage, "cost": cost},
        ]),
    )
    .await;
    let turn = capture.until(|line| line.message == "the turn's span ends").await;
    let attempt = capture.until(|line| line.message == "the attempt's span ends").await;
    home.close(gateway).await;
    let shared = [
        ("otel.status_code", "OK"),
        ("gen_ai.agent.name", "scripted"),
        ("gen_ai.conversation.id", id.as_str()),
        ("gen_ai.provider.name", "anthropic"),
        ("gen_ai.response.model", "claude"),
        ("gen_ai.usage.input_tokens", "115"),
        ("gen_ai.usage.output_tokens", "7"),
        ("gen_ai.usage.cache_read.input_tokens", "100"),
        ("gen_ai.usage.cache_creation.input_tokens", "5"),
        ("gen_ai.usage.reasoning.output_tokens", "4"),
        ("turnstream.cost", "0.25"),
        ("turnstream.currency", "USD"),
        ("turnstream.session", id.as_str()),
        ("turnstream.turn", "t1"),
    ];
    let mut expected = BTreeMap::from(shared);
    expected.extend([
        ("otel.name", "invoke_agent scripted"),
        ("otel.kind", "internal"),
        ("gen_ai.operation.name", "invoke_agent"),
        ("gen_ai.response.finish_reasons", r#"["end_turn"]"#),
        ("turnstream.outcome", "completed"),
    ]);
    assert_eq!(span(&turn, "turn"), expected);
    let mut expected = BTreeMap::from(shared);
    expected.extend([
        ("otel.name", "chat claude"),
        ("otel.kind", "client"),
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.request.model", "claude"),
        ("gen_ai.response.finish_reasons", r#"["stop"]"#),
        ("turnstream.attempt", "a1"),
        ("turnstream.outcome", "ended"),
    ]);
    assert_eq!(span(&attempt, "attempt"), expected);
    let names: Vec<&str> = attempt.spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["turn", "attempt"], "a trace is one turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_goes_on_after_a_restart_gets_a_new_span() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "lasting").await;
    prompt(&gateway, &id, json!([{"do": "tool", "ask": true}])).await;
    let snapshot = until(&gateway, &id, "the ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    let ask = snapshot.state.approvals[0].approval.clone();
    gateway.close().await;

    let capture = Capture::start();
    let gateway = home.open().await;
    let recovering = capture.until(|line| line.message.starts_with("recovering")).await;
    assert_eq!((recovering.level, recovering.field("sessions")), (Level::INFO, Some("1")));
    until(&gateway, &id, "the recovery", |snapshot| snapshot.state.session.status.to_string() == "waiting")
        .await;
    gateway.resolve(&id, &ask, allow()).await.unwrap();
    settled(&gateway, &id, 1).await;
    let turn = capture.until(|line| line.message == "the turn's span ends").await;
    let fields = span(&turn, "turn");
    assert_eq!((fields["turnstream.recovered"], fields["turnstream.outcome"]), ("true", "completed"));
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_cannot_be_read_is_warned_about_once() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = played(&gateway, &home, json!([{"do": "text", "text": "one"}])).await;
    home.close(gateway).await;
    let database = rusqlite::Connection::open(home.path("data").join("log.db")).unwrap();
    database.execute_batch("UPDATE piece SET body = '{'; UPDATE chunk SET data = 'damaged';").unwrap();
    drop(database);

    let capture = Capture::start();
    let gateway = home.open().await;
    for _ in 0..3 {
        let error = gateway.prompt(&id, script(json!([]))).await.unwrap_err();
        assert!(matches!(error, RequestError::Log(_)), "{error}");
    }
    gateway.close().await;
    let told = |level| {
        let lines = capture.lines().into_iter();
        lines.filter(|line| line.level == level && line.message == "the session cannot be opened").count()
    };
    assert_eq!(told(Level::WARN), 1, "{}", capture.text());
    assert!(told(Level::DEBUG) >= 2, "{}", capture.text());
}
