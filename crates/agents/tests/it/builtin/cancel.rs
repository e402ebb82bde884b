//! A cancel in every phase of a turn, and the turn after it.

use super::{Bench, PATIENCE, bash, call};
use crate::support::People;
use serde_json::json;
use turnstream_agents::{Command, Observed};
use turnstream_fake_provider::{Completion, Delivery, Fault, Part, Refusal, RetryAfter, Step};
use turnstream_model::attempts::{Ledger, Verdict, Waits};
use turnstream_model::event::{By, Outcome};
use turnstream_model::fold::ItemStage;
use turnstream_model::id::SessionId;
use turnstream_model::machine::Cancel;
use turnstream_model::signal::Signal;

/// Cancels the open turn as a keeper does.
async fn cancel(bench: &mut Bench) {
    bench.keeper.step(|machine, step| machine.cancel(&Cancel::Any, By::Client, step)).unwrap();
    bench.keeper.tell(Command::Cancel).await.unwrap();
    bench.keeper.until_quiet().await.unwrap();
    assert_eq!(bench.keeper.turn().outcome, Some(Outcome::Cancelled), "{}", bench.keeper.show());
}

/// The next turn is as if nothing had been.
async fn next(bench: &mut Bench) {
    bench.run("And now?").await;
    let turn = &bench.keeper.turns()[1];
    assert_eq!(turn.outcome, Some(Outcome::Completed), "{}", bench.keeper.show());
    bench.keeper.assert_lawful(turnstream_model::check::Tail::Settled);
    let said = bench.keeper.items().last().unwrap().text.clone();
    assert_eq!(said.as_deref(), Some("Still here."));
}

fn stalled(completion: Completion, after: usize) -> Step {
    Step::new(completion).fault(Fault::Stall { after, lasts_ms: None, comment_every_ms: None })
}

#[tokio::test]
async fn before_the_headers_of_an_answer() {
    let late = Delivery { before_headers_ms: 600_000, ..Delivery::default() };
    let mut bench = Bench::slow([Step::text("Late.").delivered(late), Step::text("Still here.")]).await;
    bench.keeper.prompt("Go on.").await.unwrap();
    bench.keeper.until_signal(|signal| matches!(signal, Signal::AttemptBegan { .. })).await;
    bench.provider.wait_for_requests(1, PATIENCE).await.unwrap();
    cancel(&mut bench).await;
    next(&mut bench).await;
    let rows = bench.attempts.attempts(SessionId::from("ses_1")).await.unwrap();
    let verdicts: Vec<_> = rows.iter().map(|row| row.end.as_ref().unwrap().verdict).collect();
    assert_eq!(verdicts, [Verdict::Cancelled, Verdict::Complete]);
}

#[tokio::test]
async fn in_the_middle_of_a_text() {
    let steps = [stalled(Completion::text("This never ends."), 500), Step::text("Still here.")];
    let mut bench = Bench::slow(steps).await;
    bench.keeper.prompt("Go on.").await.unwrap();
    bench.keeper.until_signal(|signal| matches!(signal, Signal::TextDelta { .. })).await;
    cancel(&mut bench).await;
    let item = &bench.keeper.items()[0];
    assert_eq!(item.state, ItemStage::Abandoned, "what was shown stays, and is not whole");
    next(&mut bench).await;
    assert!(!bench.bodies()[1].to_string().contains("This"), "half a text is not sent back");
}

#[tokio::test]
async fn in_the_middle_of_the_arguments_of_a_call() {
    let call = Part::tool_call("bash", json!({"command": "echo wrong > ran; echo a long command"}));
    let steps = [stalled(Completion::of([call]), 900), Step::text("Still here.")];
    let mut bench = Bench::slow(steps).await;
    bench.keeper.prompt("Go on.").await.unwrap();
    bench.keeper.until_signal(|signal| matches!(signal, Signal::ToolSeen { .. })).await;
    cancel(&mut bench).await;
    next(&mut bench).await;
    assert_eq!(bench.keeper.file("ran"), None);
}

#[tokio::test]
async fn in_a_wait_for_another_attempt_which_is_then_not_stored_any_more() {
    let limited = Refusal::new(429, "rate_limit_error", "later").retry_after(RetryAfter::Seconds(3_000));
    let mut bench = Bench::slow([Step::new(limited), Step::text("Still here.")]).await;
    bench.keeper.prompt("Go on.").await.unwrap();
    bench.keeper.until_signal(|signal| matches!(signal, Signal::Retrying { .. })).await;
    assert_eq!(bench.attempts.parked().await.unwrap().len(), 1);
    cancel(&mut bench).await;
    assert_eq!(bench.attempts.parked().await.unwrap(), []);
    next(&mut bench).await;
}

#[tokio::test]
async fn while_a_person_is_asked() {
    let mut bench = Bench::slow([bash("echo wrong > ran"), Step::text("Still here.")]).await;
    bench.keeper.people = People::Away;
    bench.keeper.prompt("Go on.").await.unwrap();
    bench.keeper.until_signal(|signal| matches!(signal, Signal::Ask { .. })).await;
    cancel(&mut bench).await;
    next(&mut bench).await;
    assert_eq!(bench.keeper.file("ran"), None);
    assert!(bench.bodies()[1].to_string().contains("This was not run"), "{:#}", bench.bodies()[1]);
}

#[tokio::test]
async fn while_a_command_runs_which_is_killed_with_its_children() {
    let command =
        "setsid sh -c 'echo $$ > pid; exec sleep 3600' & while ! [ -s pid ]; do :; done; echo begun; wait";
    let mut bench = Bench::slow([bash(command), Step::text("Still here.")]).await;
    bench.keeper.prompt("Go on.").await.unwrap();
    bench
        .keeper
        .until_signal(|signal| matches!(signal, Signal::TextDelta { text, .. } if text == "begun\n"))
        .await;
    cancel(&mut bench).await;
    let pid = bench.keeper.file("pid").unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "it still runs: {stat}");
    assert_eq!(bench.result(0), "begun\n[killed: the turn was stopped]");
    assert_eq!(bench.tools()[0].state, ItemStage::Failed);
    next(&mut bench).await;
    assert!(bench.bodies()[1].to_string().contains("killed: the turn was stopped"));
}

#[tokio::test]
async fn a_prompt_that_waits_is_refused_and_the_turn_before_it_goes_on() {
    let wait = "while ! [ -e go ]; do sleep 0.02; done";
    let mut bench = Bench::slow([bash(wait), Step::text("Done."), call("list", json!({}))]).await;
    bench.keeper.prompt("Go on.").await.unwrap();
    bench.keeper.until_signal(|signal| matches!(signal, Signal::TurnBegan { .. })).await;
    let native_id = "p2".to_owned();
    let content = vec![json!({"type": "text", "text": "later"})];
    bench.keeper.tell(Command::Prompt { native_id: native_id.clone(), content }).await.unwrap();
    bench.keeper.tell(Command::CancelPrompt(native_id)).await.unwrap();
    let refused = |observed: &Observed| matches!(observed, Observed::Signal(Signal::PromptRefused { native_id, .. }) if native_id == "p2");
    bench.keeper.until(refused).await;
    bench.write("go", "");
    bench.keeper.until_quiet().await.unwrap();
    assert_eq!(bench.keeper.turn().outcome, Some(Outcome::Completed), "{}", bench.keeper.show());
    assert_eq!(bench.provider.calls().len(), 2);
}
