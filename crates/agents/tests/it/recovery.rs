//! A keeper that dies at every moment of a turn, and the one that takes up what it left.

use crate::support::{Keeper, People};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;
use turnstream_agents::{Command, Fate, Observed};
use turnstream_model::check::Tail;
use turnstream_model::event::{ErrorClass, ItemKind, Outcome};
use turnstream_model::fold::ItemStage;
use turnstream_model::signal::{ProbedStatus, Signal};

/// Something of everything that a turn can leave open.
fn script() -> Value {
    let counted = |path: &str| json!({"append": {"path": path, "text": "ran\n"}});
    json!([
        {"do": "reasoning", "text": "Let me think"},
        {"do": "attempt"},
        {"do": "text", "text": "this will be void", "unfinished": true},
        {"do": "retry", "reason": "overloaded", "wait_ms": 1},
        {"do": "text", "text": "I will run some tools"},
        {"do": "attempt_end", "finish": "tool_calls", "usage": {"output": 5}},
        {"do": "tool", "effect": counted("a"), "output": ["run", "ning"], "takes_ms": 2},
        {"do": "tool", "ask": true, "effect": counted("b"), "takes_ms": 1},
        {"do": "at_once", "steps": [
            {"do": "tool", "ask": true, "effect": counted("c")},
            {"do": "question", "questions": [{"id": "0", "text": "Sure?"}]},
            {"do": "tool", "ask": true, "effect": counted("d")},
        ]},
        {"do": "sleep", "ms": 2},
        {"do": "attempt"},
        {"do": "text", "text": "All is done", "chunks": 2},
        {"do": "attempt_end", "finish": "stop"},
        {"do": "usage", "usage": {"input": 100, "output": 50}},
    ])
}

#[derive(Clone, Copy)]
enum Remembers {
    Everything,
    Nothing,
}

/// Plays the script with a keeper that dies after each so many things, `deaths` times. False when it
/// outlived the script.
async fn killed_after(moments: usize, deaths: usize, remembers: Remembers, script: Value) -> (Keeper, bool) {
    let directory = tempfile::tempdir().unwrap();
    let memory = match remembers {
        Remembers::Everything => Some(directory.path().to_owned()),
        Remembers::Nothing => None,
    };
    let mut keeper = Keeper::with(memory, Duration::from_millis(1)).await;
    keeper.fuse = Some(moments);
    let mut died = keeper.play(script).await.is_err();
    for death in 0..deaths {
        if !died {
            died = keeper.until_quiet().await.is_err();
        }
        if !died {
            break;
        }
        keeper.fuse = (death + 1 < deaths).then_some(moments);
        keeper.restart().await;
        died = false;
    }
    if keeper.fuse.is_none() {
        keeper.until_quiet().await.unwrap();
    }
    let outlived = keeper.fuse.is_some();
    (keeper, !outlived)
}

/// No tool ran twice, and none ran that the log does not show as run or perhaps run.
fn assert_ran_once(keeper: &Keeper) {
    for item in keeper.items().iter().filter(|item| item.kind == ItemKind::Tool) {
        let tool = item.tool.as_ref().unwrap();
        let path = tool.locations.as_ref().unwrap()[0]["path"].as_str().unwrap().to_owned();
        let runs = keeper.file(&path).map_or(0, |text| text.lines().count());
        match item.state {
            ItemStage::Completed => assert_eq!(runs, 1, "{path}\n{}", keeper.show()),
            ItemStage::Unknown => assert!(runs <= 1, "{path} ran {runs} times\n{}", keeper.show()),
            ItemStage::Abandoned | ItemStage::Failed => assert_eq!(runs, 0, "{path}\n{}", keeper.show()),
            ItemStage::Streaming => panic!("{path} is open\n{}", keeper.show()),
        }
    }
}

/// The turn is as if nobody had died, but for tools that were under way.
fn assert_whole(keeper: &Keeper) {
    let turn = keeper.turn();
    assert_eq!(turn.outcome, Some(Outcome::Completed), "{}", keeper.show());
    assert_eq!(turn.usage.as_ref().unwrap().input, Some(100));
    assert_eq!(keeper.count("prompt.taken"), 1);
    let texts: Vec<_> = keeper.items().iter().filter(|item| item.kind != ItemKind::Tool).collect();
    let said: Vec<_> = texts.iter().map(|item| item.text.as_deref().unwrap()).collect();
    assert_eq!(said, ["Let me think", "I will run some tools", "All is done"], "{}", keeper.show());
    assert!(texts.iter().all(|item| item.state == ItemStage::Completed), "{}", keeper.show());
    let tools = keeper.items().iter().filter(|item| item.kind == ItemKind::Tool);
    assert_eq!(tools.count(), 4, "{}", keeper.show());
    assert_ran_once(keeper);
    let keys: HashSet<_> = keeper.items().iter().map(|item| item.native_id.clone()).collect();
    assert_eq!(keys.len(), keeper.items().len());
}

#[tokio::test]
async fn with_memory_a_turn_goes_on_from_wherever_its_keeper_died() {
    for moments in 0.. {
        let (keeper, died) = killed_after(moments, 1, Remembers::Everything, script()).await;
        assert_whole(&keeper);
        if !died {
            assert!(moments > 40, "the script was over after {moments} things");
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_memory_a_turn_goes_on_through_many_deaths() {
    for moments in 3..20 {
        let (keeper, _) = killed_after(moments, 12, Remembers::Everything, script()).await;
        assert_whole(&keeper);
    }
}

#[tokio::test]
async fn without_memory_a_turn_is_lost_exactly_once() {
    for moments in 0.. {
        let (keeper, died) = killed_after(moments, 1, Remembers::Nothing, script()).await;
        let turn = keeper.turn();
        assert_ran_once(&keeper);
        if !died {
            break;
        }
        if turn.outcome == Some(Outcome::Lost) {
            assert_eq!(turn.error.as_ref().unwrap().class, ErrorClass::AgentExited);
        } else {
            assert_eq!(turn.outcome, Some(Outcome::Completed), "{}", keeper.show());
        }
    }
}

#[tokio::test]
async fn every_ending_is_told_again_to_a_keeper_that_missed_it() {
    let why = |r#do: &str| json!({"do": r#do, "class": "overloaded", "message": "m"});
    let text = json!({"do": "text", "text": "x"});
    let endings = [
        (json!([text, why("fail")]), Outcome::Failed),
        (json!([text, {"do": "idle"}]), Outcome::Completed),
        (json!([why("refuse")]), Outcome::Failed),
        (json!([text, {"do": "end", "stop_reason": "max_tokens"}]), Outcome::Completed),
        (json!([{"do": "wrong"}]), Outcome::Failed),
        (
            json!([text, {"do": "gap", "text": "missed"}, {"do": "duplicate", "count": 9}, {"do": "garbage"}]),
            Outcome::Completed,
        ),
    ];
    for (script, outcome) in endings {
        for moments in 0.. {
            let (keeper, died) = killed_after(moments, 1, Remembers::Everything, script.clone()).await;
            assert_eq!(keeper.turn().outcome, Some(outcome), "{}", keeper.show());
            if !died {
                break;
            }
        }
    }
}

#[tokio::test]
async fn an_open_ask_is_repeated_under_the_same_key_and_still_counts() {
    let directory = tempfile::tempdir().unwrap();
    let mut keeper = Keeper::with(Some(directory.path().to_owned()), Duration::ZERO).await;
    keeper.people = People::Away;
    keeper
        .play(json!([{"do": "tool", "ask": true, "effect": {"append": {"path": "n", "text": "ran\n"}}}]))
        .await
        .unwrap();
    keeper.until_signal(|signal| matches!(signal, Signal::Ask { .. })).await;
    let before = keeper.observed.len();
    keeper.restart().await;
    keeper.until(|observed| *observed == Observed::CaughtUp).await;
    let told: Vec<_> = keeper.observed[before..].iter().map(kind).collect();
    assert_eq!(told, ["began", "tool", "ask", "busy", "caught up"]);
    let ask = keeper.fold.state().approvals[0].native_id.clone().unwrap();
    assert_eq!(keeper.count("approval.requested"), 1);
    keeper.answer(&ask.as_str().into(), People::Allow).await.unwrap();
    keeper.until_quiet().await.unwrap();
    assert_eq!(keeper.turn().outcome, Some(Outcome::Completed));
    assert_eq!(keeper.file("n").unwrap(), "ran\n");
}

fn kind(observed: &Observed) -> &'static str {
    match observed {
        Observed::Signal(Signal::TurnBegan { .. }) => "began",
        Observed::Signal(Signal::ToolSeen { .. }) => "tool",
        Observed::Signal(Signal::Ask { .. }) => "ask",
        Observed::Signal(Signal::TurnDone { .. }) => "done",
        Observed::Signal(Signal::StatusProbed { status: ProbedStatus::Busy, .. }) => "busy",
        Observed::Signal(Signal::StatusProbed { status: ProbedStatus::Idle, .. }) => "idle",
        Observed::Signal(_) => "other",
        Observed::Fate { fate: Fate::Taken, .. } => "taken",
        Observed::Fate { fate: Fate::NeverSeen, .. } => "never seen",
        Observed::Fate { fate: Fate::Unknown, .. } => "unknown",
        Observed::CaughtUp => "caught up",
        Observed::Away(_) => "away",
        Observed::Back => "back",
    }
}

#[tokio::test]
async fn a_tool_that_was_begun_is_not_run_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut keeper = Keeper::with(Some(directory.path().to_owned()), Duration::ZERO).await;
    let slow = json!({"do": "tool", "effect": {"append": {"path": "n", "text": "ran\n"}}, "output": ["x"], "takes_ms": 60_000});
    keeper.play(json!([slow, {"do": "text", "text": "after"}])).await.unwrap();
    keeper.until_signal(|signal| matches!(signal, Signal::TextDelta { .. })).await;
    keeper.restart().await;
    keeper.until_quiet().await.unwrap();
    assert_eq!(keeper.turn().outcome, Some(Outcome::Completed));
    assert_eq!(keeper.items()[0].state, ItemStage::Unknown);
    assert_eq!(keeper.items()[1].text.as_deref(), Some("after"));
    assert_eq!(keeper.file("n").unwrap(), "ran\n");
}

#[tokio::test]
async fn a_prompt_that_is_sent_again_does_not_run_again() {
    for memory in [None, Some(tempfile::tempdir().unwrap())] {
        let directory = memory.as_ref().map(|directory| directory.path().to_owned());
        let mut keeper = Keeper::with(directory, Duration::ZERO).await;
        let script =
            json!({"script": [{"do": "tool", "effect": {"append": {"path": "n", "text": "ran\n"}}}]})
                .to_string();
        keeper.prompt(&script).await.unwrap();
        keeper.until_quiet().await.unwrap();
        if memory.is_some() {
            keeper.restart().await;
            keeper.until(|observed| *observed == Observed::CaughtUp).await;
        }
        let content = vec![json!({"type": "text", "text": script})];
        keeper.tell(Command::Prompt { native_id: "ses_1.p1".to_owned(), content }).await.unwrap();
        assert!(keeper.quiet_for(Duration::from_millis(40)).await.is_none());
        assert_eq!(keeper.file("n").unwrap(), "ran\n");
    }
}

#[tokio::test]
async fn a_vanished_agent_with_memory_goes_on_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut keeper = Keeper::with(Some(directory.path().to_owned()), Duration::ZERO).await;
    assert!(keeper.agent().outlives_gateway());
    keeper
        .play_out(
            json!([{"do": "text", "text": "before"}, {"do": "vanish"}, {"do": "text", "text": "after"}]),
        )
        .await;
    keeper.restart().await;
    keeper.until_quiet().await.unwrap();
    assert_eq!(keeper.turn().outcome, Some(Outcome::Completed));
    let texts: Vec<_> = keeper.items().iter().map(|item| item.text.as_deref().unwrap()).collect();
    assert_eq!(texts, ["before", "after"]);
}

#[tokio::test]
async fn a_crashed_turn_stays_lost() {
    for moments in 1.. {
        let script = json!([{"do": "text", "text": "x"}, {"do": "crash"}]);
        let (keeper, died) = killed_after(moments, 1, Remembers::Everything, script).await;
        assert_eq!(keeper.turn().outcome, Some(Outcome::Lost), "{}", keeper.show());
        if !died {
            break;
        }
    }
}

#[tokio::test]
async fn a_turn_by_itself_goes_on_too() {
    let directory = tempfile::tempdir().unwrap();
    let mut keeper = Keeper::with(Some(directory.path().to_owned()), Duration::ZERO).await;
    let wake = json!({"do": "wake", "steps": [{"do": "text", "text": "awake"}, {"do": "sleep", "ms": 30}, {"do": "text", "text": "done"}]});
    keeper.play_out(json!([{"do": "text", "text": "x"}, wake])).await;
    keeper.until_signal(|signal| matches!(signal, Signal::ItemSeen(_))).await;
    keeper.restart().await;
    keeper.until_quiet().await.unwrap();
    keeper.assert_lawful(Tail::Settled);
    let texts: Vec<_> = keeper.items().iter().map(|item| item.text.as_deref().unwrap()).collect();
    assert_eq!(texts, ["x", "awake", "done"]);
    assert_eq!(keeper.turns().len(), 2);
}

#[tokio::test]
async fn what_the_keeper_settled_without_the_agent_is_not_played_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut keeper = Keeper::with(Some(directory.path().to_owned()), Duration::ZERO).await;
    keeper.play(json!([{"do": "sleep", "ms": 20}, {"do": "tool", "effect": {"append": {"path": "n", "text": "ran\n"}}}])).await.unwrap();
    keeper.until_signal(|signal| matches!(signal, Signal::TurnBegan { .. })).await;
    let turn = keeper.machine.open_turn().cloned().unwrap();
    let error = turnstream_model::event::TurnError::new(ErrorClass::Stalled, "too long");
    let ending = turnstream_model::signal::Ending::lost(error);
    keeper.step(|machine, step| machine.end_open_turn(&turn, ending, step)).unwrap();
    keeper.restart().await;
    keeper.play_out(json!([{"do": "text", "text": "next"}])).await;
    keeper.assert_lawful(Tail::Settled);
    assert_eq!(keeper.turns().len(), 2);
    assert!(keeper.file("n").is_none());
}
