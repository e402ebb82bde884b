//! `GET /metrics`: a strict parser reads the whole page, and its numbers are compared with what was done.

use crate::support::{Lasting, Rig, answer, options};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use turnstream_agents::{Agent, Connecting, Description, ProcessUsage, Start};
use turnstream_server::{Auth, Options, Token};

/// The samples of a page, by name and labels as they are written.
type Samples = BTreeMap<String, f64>;

/// A name of a metric or label.
fn is_name(name: &str) -> bool {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.chars().all(letter)
}

/// The labels between the braces, and what follows them.
fn labels(mut rest: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    loop {
        let (name, value) = rest.split_once("=\"").unwrap();
        assert!(is_name(name), "{name}");
        let mut text = String::new();
        let mut letters = value.char_indices();
        let end = loop {
            match letters.next().unwrap() {
                (_, '\\') => match letters.next().unwrap().1 {
                    'n' => text.push('\n'),
                    letter @ ('\\' | '"') => text.push(letter),
                    other => panic!("\\{other} is no escape"),
                },
                (place, '"') => break place,
                (_, letter) => text.push(letter),
            }
        };
        assert_eq!(labels.insert(name.to_owned(), text), None, "a label twice: {rest}");
        match value[end + 1..].split_at(1) {
            (",", more) => rest = more,
            ("}", more) => return (labels, more),
            (other, _) => panic!("{other} after a label"),
        }
    }
}

/// Reads a page: each family has its help and its type first and all its samples together, each sample once.
fn parse(page: &str) -> (Samples, BTreeSet<String>) {
    assert!(page.ends_with('\n') && !page.contains("\n\n") && !page.contains('\r'));
    let (mut samples, mut families) = (Samples::new(), BTreeSet::new());
    let (mut family, mut kind) = (String::new(), String::new());
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(is_name(name) && !help.trim().is_empty(), "{line}");
            let typed = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).unwrap().to_owned();
            assert!(["counter", "gauge", "histogram"].contains(&typed.as_str()), "{typed}");
            assert_eq!(name.ends_with("_total"), typed == "counter", "{name} is a {typed}");
            assert!(families.insert(name.to_owned()), "{name} twice");
            (family, kind) = (name.to_owned(), typed);
            continue;
        }
        assert!(!line.starts_with('#'), "{line}");
        let place = line.find(['{', ' ']).unwrap();
        let (name, rest) = line.split_at(place);
        let suffix = name.strip_prefix(family.as_str()).unwrap_or_else(|| panic!("{name} in {family}"));
        let suffixes: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        assert!(suffixes.contains(&suffix), "{line}");
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => labels(rest),
            None => (BTreeMap::new(), rest),
        };
        let value: f64 = rest.strip_prefix(' ').unwrap().parse().unwrap();
        assert!(value.is_finite() && value >= 0.0, "{line}");
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let key = format!("{name} {}", labels.join(" ")).trim().to_owned();
        assert_eq!(samples.insert(key, value), None, "twice: {line}");
    }
    (samples, families)
}

async fn metrics(rig: &Rig) -> Samples {
    let response = rig.http.get(rig.url("/metrics")).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    parse(&response.text().await.unwrap()).0
}

/// The samples that are of the scripted agent and not zero, without those that depend on when they are read.
fn of_scripted(samples: &Samples) -> Vec<(String, u64)> {
    let shown = |(key, value): (&String, &f64)| {
        let short = key.replace("turnstream_", "").replace(" agent=scripted", "");
        (key.contains("agent=scripted") && *value > 0.0).then_some((short, *value as u64))
    };
    samples.iter().filter_map(shown).collect()
}

fn counted(pairs: &[(&str, u64)]) -> Vec<(String, u64)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completed_a_failed_a_cancelled_turn_and_what_was_asked_are_counted() {
    let rig = Rig::start().await;
    assert_eq!(of_scripted(&metrics(&rig).await), []);
    let id = rig.session().await;
    rig.played(&id, json!([{"do": "text", "text": "Hello"}])).await;
    rig.played(&id, json!([{"do": "fail", "class": "overloaded", "message": "no"}])).await;
    rig.play(&id, json!([{"do": "text", "text": "x"}, {"do": "stall"}])).await;
    rig.until(&id, |snapshot| snapshot["turns"][2]["turn"] == "t3").await;
    rig.play(&id, json!([{"do": "text", "text": "never"}])).await;
    assert_eq!(rig.ask("DELETE", &format!("/v1/sessions/{id}/prompts/p4"), None).await.status, 204);
    rig.until(&id, |snapshot| snapshot["session"]["status"] == "busy").await;
    assert_eq!(metrics(&rig).await["turnstream_turns_open agent=scripted"], 1.0);
    rig.post(&format!("/v1/sessions/{id}/cancel"), json!({})).await;
    rig.until(&id, |snapshot| snapshot["session"]["status"] == "idle").await;
    rig.play(&id, json!([{"do": "tool", "title": "Write", "ask": true}])).await;
    rig.until(&id, |snapshot| snapshot["session"]["status"] == "waiting").await;
    let waiting = metrics(&rig).await;
    assert_eq!(waiting["turnstream_approvals_waiting agent=scripted"], 1.0);
    assert_eq!(waiting["turnstream_sessions agent=scripted status=waiting"], 1.0);
    rig.post(&format!("/v1/sessions/{id}/approvals/q1"), json!({"outcome": "allow_once"})).await;
    rig.until(&id, |snapshot| snapshot["session"]["status"] == "idle").await;
    rig.ask("PATCH", &format!("/v1/sessions/{id}"), Some(json!({"permissions": "allow"}))).await;
    rig.played(&id, json!([{"do": "tool", "title": "Write", "ask": true}, {"do": "gap", "text": "Half."}]))
        .await;
    let found = metrics(&rig).await;
    let expected = counted(&[
        ("approvals_resolved_total by=client outcome=allow_once", 1),
        ("approvals_resolved_total by=policy outcome=allow_once", 1),
        ("notices_total code=gap", 1),
        ("notices_total code=unexpected_permission", 1),
        ("prompts_accepted_total", 6),
        ("prompts_withdrawn_total", 1),
        ("sessions status=idle", 1),
        ("turns_ended_total error= outcome=completed", 3),
        ("turns_ended_total error= outcome=cancelled", 1),
        ("turns_ended_total error=overloaded outcome=failed", 1),
        ("turns_started_total", 5),
        ("unexpected_permissions_total", 1),
    ]);
    let sorted = |mut pairs: Vec<(String, u64)>| {
        pairs.sort();
        pairs
    };
    assert_eq!(sorted(of_scripted(&found)), sorted(expected));
    assert_eq!(found["turnstream_log_events_total"], rig.head(&id).await as f64, "there is one session");
    assert_eq!(found["turnstream_log_health state=sound"], 1.0);
    let commits = found["turnstream_log_commit_seconds_count"];
    assert_eq!(found["turnstream_log_commit_seconds_bucket le=+Inf"], commits);
    assert!(commits > 5.0 && found["turnstream_log_commit_seconds_sum"] > 0.0);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_count_while_they_are_open() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    let mut one = rig.stream(&format!("/v1/sessions/{id}/events")).await;
    one.next().await;
    let mut all = rig.stream("/v1/events").await;
    all.next().await;
    let found = metrics(&rig).await;
    let open = |found: &Samples| {
        ["sse", "websocket", "board"].map(|kind| found[&format!("turnstream_streams_open kind={kind}")])
    };
    assert_eq!(open(&found), [1.0, 0.0, 1.0]);
    drop((one, all));
    for _ in 0..30_000 {
        if open(&metrics(&rig).await) == [0.0; 3] {
            rig.stop().await;
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("streams that were left are still open");
}

/// What waited when the gateway stopped waits when it is back, and is not counted as asked again.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_that_waits_over_a_restart_is_still_waiting() {
    let rig = Rig::start().await;
    let made = rig.post("/v1/sessions", json!({"agent": "lasting", "cwd": rig.work()})).await;
    let id = made.body["id"].as_str().unwrap().to_owned();
    rig.play(&id, json!([{"do": "tool", "title": "Write", "ask": true}])).await;
    rig.until(&id, |snapshot| snapshot["session"]["status"] == "waiting").await;
    let home = rig.home();
    rig.stop().await;
    let rig = Rig::open(home, options(), Lasting::There).await;
    rig.until(&id, |snapshot| snapshot["session"]["status"] == "waiting").await;
    assert_eq!(metrics(&rig).await["turnstream_approvals_waiting agent=lasting"], 1.0);
    rig.post(&format!("/v1/sessions/{id}/approvals/q1"), json!({"outcome": "allow_once"})).await;
    rig.until(&id, |snapshot| snapshot["session"]["status"] == "idle").await;
    let found = metrics(&rig).await;
    assert_eq!(found["turnstream_approvals_waiting agent=lasting"], 0.0);
    assert_eq!(found["turnstream_turns_ended_total agent=lasting error= outcome=completed"], 1.0);
    assert_eq!(found["turnstream_turns_started_total agent=lasting"], 0.0, "it began before the restart");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_imported_sessions_are_counted_together() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.played(&id, json!([{"do": "text", "text": "Hello"}])).await;
    let exported = rig.http.get(rig.url(&format!("/v1/sessions/{id}/export"))).send().await.unwrap();
    let file = exported.text().await.unwrap();
    let mut copies = Vec::new();
    for name in ["elsewhere-1", "elsewhere-2"] {
        let copy = file.replace("\"agent\":\"scripted\"", &format!("\"agent\":\"{name}\""));
        let import = rig.http.post(rig.url("/v1/import?new_id=true")).body(copy);
        let made = answer(import.header("content-type", "application/x-ndjson")).await;
        assert_eq!(made.status, 201, "{made:?}");
        copies.push(made.body["id"].as_str().unwrap().to_owned());
    }
    // Its agent is not configured, so the turn fails. That is counted too.
    rig.played(&copies[0], json!([])).await;
    let check = async |rig: &Rig| {
        let found = metrics(rig).await;
        let foreign: Vec<&String> = found.keys().filter(|key| key.contains("elsewhere")).collect();
        assert!(foreign.is_empty(), "{foreign:?}");
        assert_eq!(found["turnstream_sessions agent=other status=idle"], 2.0);
        found
    };
    let found = check(&rig).await;
    assert_eq!(found["turnstream_prompts_accepted_total agent=other"], 1.0);
    assert_eq!(found["turnstream_sessions agent=scripted status=idle"], 1.0);
    let home = rig.home();
    rig.stop().await;
    let rig = Rig::open(home, options(), Lasting::There).await;
    check(&rig).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_served_like_every_other_route() {
    let token = Token::new("s3cret").unwrap();
    let rig = Rig::start_with(Options::new(Auth::Token(token))).await;
    assert_eq!(rig.get("/metrics").await.status, 401);
    let shown = rig.http.get(rig.url("/metrics")).bearer_auth("s3cret").send().await.unwrap();
    assert_eq!(shown.status(), 200);
    let head = rig.http.head(rig.url("/metrics")).bearer_auth("s3cret").send().await.unwrap();
    assert_eq!(head.status(), 200);
    assert_eq!(head.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert_eq!(head.bytes().await.unwrap().len(), 0);
    let wrong = answer(rig.http.get(rig.url("/metrics?name=x")).bearer_auth("s3cret")).await;
    assert_eq!((wrong.status, &wrong.body["type"]), (400, &json!("urn:turnstream:problem:bad-query")));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_in_one_order_and_every_metric_is_in_the_documentation() {
    let rig = Rig::start().await;
    let read = async || rig.http.get(rig.url("/metrics")).send().await.unwrap().text().await.unwrap();
    let (first, second) = (read().await, read().await);
    let names =
        |page: &str| page.lines().map(|line| line.split(' ').take(3).collect()).collect::<Vec<String>>();
    let names =
        |page: &str| names(page).into_iter().filter(|name| name.starts_with("#HELP")).collect::<Vec<_>>();
    assert_eq!(names(&first), names(&second));
    let page = include_str!("../../../../docs/metrics.md");
    let missing: Vec<String> =
        parse(&first).1.into_iter().filter(|name| !page.contains(&format!("| `{name}"))).collect();
    assert_eq!(missing, [""; 0], "docs/metrics.md lacks these");
    rig.stop().await;
}

/// An agent with one process.
struct Running(std::process::Child);

impl Agent for Running {
    fn describe(&self) -> Description {
        Description::new("running", "Has a process.")
    }

    fn connect(&self, _: Start) -> Connecting<'_> {
        Box::pin(std::future::pending())
    }

    fn process_usage(&self) -> Option<ProcessUsage> {
        Some(ProcessUsage::of([self.0.id()]))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn the_memory_and_the_processor_time_of_an_agent_are_shown_while_its_processes_run() {
    let child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let rig = Rig::start_with_agent("running", std::sync::Arc::new(Running(child))).await;
    let found = metrics(&rig).await;
    assert_eq!(found["turnstream_agent_processes agent=running"], 1.0);
    assert!(found["turnstream_agent_memory_bytes agent=running"] > 10_000.0, "{found:?}");
    assert!(found.contains_key("turnstream_agent_cpu_seconds agent=running"));
    assert!(!found.contains_key("turnstream_agent_processes agent=scripted"), "it has none");
    rig.stop().await;
}
