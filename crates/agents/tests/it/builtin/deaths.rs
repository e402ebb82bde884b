//! A gateway that dies at every moment of a turn, and the one that goes on.

use super::{Bench, bash};
use serde_json::json;
use std::time::Duration;
use turnstream_fake_provider::{Completion, Fault, Part, Refusal, RetryAfter, Step};
use turnstream_llm::Format;
use turnstream_model::attempts::Waits;
use turnstream_model::event::{ErrorClass, Outcome};
use turnstream_model::fold::{Item, ItemStage};
use turnstream_model::signal::Signal;

/// Answers with two calls each, then texts. Every call has a command of its own, because a model call that is
/// repeated gets the next answer.
fn steps() -> Vec<Step> {
    let command =
        |number: usize| Part::tool_call("bash", json!({"command": format!("echo {number} >> ran")}));
    let answer = |number: usize| {
        let text = [Part::reasoning("I think."), Part::text("I run two tools.")];
        Step::new(Completion::of(text.into_iter().chain([command(2 * number), command(2 * number + 1)])))
    };
    let calls = (0..2).map(answer);
    calls.chain([Step::text("All is done.").always()]).collect()
}

/// No command ran twice. Those that the log shows as run have run, and no others.
fn assert_ran_once(bench: &Bench, what: &str) {
    let ran = bench.keeper.file("ran").unwrap_or_default();
    for number in 0..4 {
        let times = ran.lines().filter(|line| *line == number.to_string()).count();
        let command = format!("echo {number} >> ran");
        let is_it = |item: &&Item| {
            item.tool
                .as_ref()
                .and_then(|tool| tool.input.as_ref())
                .is_some_and(|input| input["command"] == command)
        };
        let shown = || format!("{what}: {number} ran {times} times\n{}", bench.keeper.show());
        let Some(item) = bench.tools().into_iter().find(is_it) else {
            assert_eq!(times, 0, "{}", shown());
            continue;
        };
        match item.state {
            ItemStage::Completed => assert_eq!(times, 1, "{}", shown()),
            ItemStage::Unknown => assert!(times <= 1, "{}", shown()),
            ItemStage::Failed | ItemStage::Abandoned => assert_eq!(times, 0, "{}", shown()),
            ItemStage::Streaming => panic!("{}", shown()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_goes_on_wherever_its_keeper_died_or_is_lost_with_an_unknown_tool() {
    let (mut completed, mut lost) = (0, 0);
    for moments in 0.. {
        let mut bench = Bench::new(steps()).await;
        bench.keeper.fuse = Some(moments);
        let mut died = bench.keeper.prompt("Go on.").await.is_err();
        if !died {
            died = bench.keeper.until_quiet().await.is_err();
        }
        bench.keeper.fuse = None;
        if !died {
            assert!(moments > 30, "the turn was over after {moments} things");
            break;
        }
        bench.keeper.restart().await;
        bench.keeper.until_quiet().await.unwrap();
        let what = format!("died after {moments}");
        let turn = bench.keeper.turn();
        let unknown = bench.tools().iter().filter(|item| item.state == ItemStage::Unknown).count();
        match turn.outcome {
            Some(Outcome::Completed) => {
                assert_eq!(unknown, 0, "{what}\n{}", bench.keeper.show());
                completed += 1;
            }
            Some(Outcome::Lost) => {
                assert_eq!(unknown, 1, "{what}\n{}", bench.keeper.show());
                assert_eq!(turn.error.as_ref().unwrap().class, ErrorClass::AgentExited);
                lost += 1;
            }
            other => panic!("{what}: {other:?}\n{}", bench.keeper.show()),
        }
        assert_ran_once(&bench, &what);
    }
    assert!(completed > lost, "{completed} completed, {lost} lost");
}

#[tokio::test]
async fn a_link_that_is_stopped_in_order_leaves_a_turn_that_goes_on_with_a_known_result() {
    let steps = [bash("echo begun; sleep 3600"), Step::text("I saw it.")];
    let mut bench = Bench::slow(steps).await;
    bench.keeper.prompt("Go on.").await.unwrap();
    bench
        .keeper
        .until_signal(|signal| matches!(signal, Signal::TextDelta { text, .. } if text == "begun\n"))
        .await;
    bench.keeper.stop().await;
    bench.keeper.restart().await;
    bench.keeper.until_quiet().await.unwrap();
    assert_eq!(bench.keeper.turn().outcome, Some(Outcome::Completed), "{}", bench.keeper.show());
    assert_eq!(bench.result(0), "begun\n[killed: the turn was stopped]");
    assert!(bench.bodies()[1].to_string().contains("killed: the turn was stopped"));
}

#[tokio::test]
async fn what_was_shown_of_an_answer_stays_until_the_call_is_repeated() {
    let text = &"A text that is cut in two by the end of the gateway. ".repeat(30);
    for format in [Format::Chat, Format::Responses, Format::Messages] {
        let stalled =
            Step::text(text).fault(Fault::Stall { after: 4_000, lasts_ms: None, comment_every_ms: None });
        let mut bench = Bench::in_format(format, [stalled, Step::text(text)]).await;
        bench.keeper.prompt("Go on.").await.unwrap();
        bench.keeper.until_signal(|signal| matches!(signal, Signal::TextDelta { .. })).await;
        bench.keeper.restart().await;
        let shown = bench.keeper.items()[0].text.clone().unwrap();
        assert!(!shown.is_empty() && text.starts_with(&shown), "{shown}");
        bench.keeper.until_quiet().await.unwrap();
        let turn = bench.keeper.turn();
        assert_eq!(turn.outcome, Some(Outcome::Completed), "{}", bench.keeper.show());
        assert_eq!(bench.keeper.items().len(), 1, "{}", bench.keeper.show());
        assert_eq!(bench.keeper.items()[0].text.as_deref(), Some(text.as_str()));
        assert_eq!(bench.keeper.count("attempt.superseded"), 1);
        assert_eq!(turn.attempts.len(), 2);
    }
}

#[tokio::test]
async fn a_stored_wait_goes_on_after_a_restart() {
    let limited = Refusal::new(429, "rate_limit_error", "later").retry_after(RetryAfter::Seconds(62));
    let mut bench = Bench::slow([Step::new(limited), Step::text("Now.")]).await;
    bench.keeper.prompt("Go on.").await.unwrap();
    bench.keeper.until_signal(|signal| matches!(signal, Signal::Retrying { .. })).await;
    let before = bench.attempts.parked().await.unwrap();
    bench.keeper.restart().await;
    let again = |signal: &Signal| matches!(signal, Signal::Retrying { until: Some(_), .. });
    bench.keeper.until_signal(again).await;
    let after = bench.attempts.parked().await.unwrap();
    assert_eq!((before.len(), &before), (1, &after), "it is the same wait");
    assert_eq!(bench.provider.calls().len(), 1);
    // Nobody waits for it here.
    tokio::time::timeout(Duration::from_millis(10), bench.keeper.until_quiet()).await.unwrap_err();
}

#[tokio::test]
async fn a_journal_that_is_gone_is_said_to_be() {
    use turnstream_model::id::SessionId;
    let mut bench = Bench::new([Step::text("Hi.")]).await;
    let session = SessionId::from("ses_1");
    let cwd = bench.keeper.cwd.path().to_owned();
    bench.run("Go on.").await;
    let agent = bench.keeper.agent();
    assert!(agent.remembers(&session, "ses_1", &cwd).await);
    bench.keeper.stop().await;
    agent.forget(&session).await.unwrap();
    assert!(!agent.remembers(&session, "ses_1", &cwd).await);
}
