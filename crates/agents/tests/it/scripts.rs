//! Which script a prompt chooses, and what a bad one says.

use crate::support::{Keeper, People};
use serde_json::{Value, json};
use turnstream_agents::Agent;
use turnstream_agents::demo::{DemoAgent, DemoConfig, DemoScript};
use turnstream_model::event::{ErrorClass, ItemKind, Outcome, StopReason};

#[tokio::test]
async fn the_demo_says_what_it_is_asks_and_writes_its_file() {
    let mut keeper = Keeper::new().await;
    keeper.prompt("What can you do?").await.unwrap();
    keeper.until_quiet().await.unwrap();
    let turn = keeper.turn();
    assert_eq!((turn.outcome, turn.stop_reason), (Some(Outcome::Completed), Some(StopReason::EndTurn)));
    assert!(turn.usage.is_some());
    let all: String = keeper.items().iter().filter_map(|item| item.text.clone()).collect();
    assert!(
        all.contains("scripted") && all.contains("What can you do?") && all.contains("Thank you"),
        "{all}"
    );
    assert!(keeper.items().iter().any(|item| item.kind == ItemKind::Reasoning));
    assert!(keeper.file("turnstream-demo.txt").unwrap().contains("What can you do?"));
}

#[tokio::test]
async fn the_demo_is_polite_when_it_is_refused() {
    let mut keeper = Keeper::new().await;
    keeper.people = People::Reject;
    keeper.prompt("hi").await.unwrap();
    keeper.until_quiet().await.unwrap();
    assert_eq!(keeper.turn().stop_reason, Some(StopReason::EndTurn));
    let last = keeper.items().last().unwrap().text.clone().unwrap();
    assert!(last.starts_with("That is fine"), "{last}");
    assert!(keeper.file("turnstream-demo.txt").is_none());
}

#[tokio::test]
async fn a_configured_script_is_played_for_plain_prompts_and_not_for_scripts() {
    let mut keeper =
        Keeper::with_script(r#"{"script": [{"do": "text", "text": "configured"}], "pace_ms": 0}"#).await;
    keeper.prompt("anything { \"not\": \"a script\" }").await.unwrap();
    keeper.until_quiet().await.unwrap();
    keeper.play_out(json!([{"do": "text", "text": "own"}])).await;
    let texts: Vec<_> = keeper.items().iter().map(|item| item.text.clone().unwrap()).collect();
    assert_eq!(texts, ["configured", "own"]);
}

#[test]
fn it_says_that_nothing_behind_it_thinks() {
    let described = DemoAgent::new(DemoConfig::default()).describe();
    assert!(described.scripted && described.about.contains("Nothing behind it thinks"));
    assert_eq!((described.kind, described.problem), ("scripted", None));
}

/// Plays a bad prompt and returns what the failed turn says.
async fn problem(prompt: &str) -> String {
    let mut keeper = Keeper::new().await;
    keeper.prompt(prompt).await.unwrap();
    keeper.until_quiet().await.unwrap();
    let turn = keeper.turn();
    assert_eq!(turn.outcome, Some(Outcome::Failed));
    let error = turn.error.clone().unwrap();
    assert_eq!(error.class, ErrorClass::InvalidRequest);
    assert!(keeper.items().is_empty(), "{}", keeper.show());
    error.message
}

#[tokio::test]
async fn bad_scripts_fail_their_turn_and_name_the_step() {
    let text = json!({"do": "text", "text": "x"});
    let cases: [(Value, &[&str]); 15] = [
        (json!([text, {"do": "wrte"}]), &["step 2 (wrte)", "unknown variant `wrte`", "`text`"]),
        (json!([{"do": "text", "txt": "x"}]), &["step 1 (text)", "unknown field `txt`"]),
        (json!([{"do": "text"}]), &["step 1 (text)", "missing field `text`"]),
        (json!([text, {"do": "stall", "ms": 1}]), &["step 2 (stall)", "unknown field `ms`"]),
        (json!([{"text": "x"}]), &["step 1", "missing field `do`"]),
        (json!(["text"]), &["step 1", "a step is an object"]),
        (json!([{"do": "sleep", "ms": -1}]), &["step 1 (sleep)", "-1"]),
        (
            json!([{"do": "text", "text": "x", "when": "allowed"}]),
            &["step 1 (text)", "needs a step before it that asks"],
        ),
        (json!([{"do": "end"}, text]), &["step 2 (text)", "nothing can follow"]),
        (json!([text, {"do": "silent"}]), &["step 2 (silent)", "instead of a turn"]),
        (json!([{"do": "late", "what": "tool"}]), &["step 1 (late)", "needs a tool call"]),
        (
            json!([{"do": "burst", "count": 1_000_000_000, "bytes": 1_000_000_000}]),
            &["step 1 (burst)", "at most"],
        ),
        (
            json!([{"do": "burst", "count": 1, "bytes": 1, "messages": 1_001}]),
            &["step 1 (burst)", "at most 1000"],
        ),
        (
            json!([{"do": "burst", "count": 1, "bytes": 26, "stamp": true}]),
            &["step 1 (burst)", "at least 27"],
        ),
        (
            json!([{"do": "wake", "steps": [text, {"do": "nap"}]}]),
            &["step 1 (wake)", "step 2 (nap)", "unknown variant"],
        ),
    ];
    for (steps, expected) in cases {
        let problem = problem(&json!({ "script": steps }).to_string()).await;
        assert!(expected.iter().all(|part| problem.contains(part)), "{steps}: {problem}");
    }
    assert!(problem(r#"{"script": [{"do": "text"]}"#).await.contains("not JSON"));
    assert!(problem(r#"{"script": "text"}"#).await.contains("must be an array"));
    assert!(problem(r#"{"script": [], "speed": 1}"#).await.contains("unknown member \"speed\""));
    assert!(problem(r#"{"script": [], "pace_ms": "fast"}"#).await.contains("\"pace_ms\" must be"));
}

#[test]
fn a_configured_script_is_read_when_it_is_loaded() {
    assert!(DemoScript::from_json(r#"[{"do": "text", "text": "x"}]"#).is_ok());
    assert!(DemoScript::from_json("3").unwrap_err().to_string().contains("array of steps"));
    assert!(DemoScript::from_json("{").unwrap_err().to_string().contains("not JSON"));
}

#[test]
fn the_examples_of_the_documentation_are_scripts() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scripted-agent.md");
    let page = std::fs::read_to_string(page).unwrap();
    let examples: Vec<_> =
        page.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        DemoScript::from_json(example).unwrap();
    }
}
