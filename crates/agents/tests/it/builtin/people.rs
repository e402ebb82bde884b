//! Permissions: what is asked, and what the answers do.

use super::{Bench, bash, call};
use crate::support::People;
use serde_json::json;
use turnstream_agents::{Command, Observed};
use turnstream_fake_provider::Step;
use turnstream_model::event::{ApprovalOutcome, By, Outcome, Permissions, Resolution};
use turnstream_model::fold::{Approval, ItemStage};
use turnstream_model::signal::Signal;

/// Waits for a permission, and answers it.
async fn answer(bench: &mut Bench, outcome: ApprovalOutcome, message: Option<&str>) -> Approval {
    let is_ask = |observed: &Observed| matches!(observed, Observed::Signal(Signal::Ask { .. }));
    let Observed::Signal(Signal::Ask { key, .. }) = bench.keeper.until(is_ask).await else { unreachable!() };
    let approvals = &bench.keeper.fold.state().approvals;
    let ask = approvals.iter().find(|ask| ask.native_id.as_deref() == Some(key.as_str())).unwrap().clone();
    let message = message.map(str::to_owned);
    let resolution = Resolution { message: message.clone(), ..Resolution::new(outcome, By::Client) };
    bench.keeper.step(|machine, step| machine.resolve(&ask.approval, resolution, step)).unwrap();
    bench.keeper.tell(Command::Approve { key, outcome, option: None, message }).await.unwrap();
    ask
}

#[tokio::test]
async fn a_command_and_a_change_are_asked_about_with_all_they_do_and_reading_is_not() {
    let change = json!({"path": "a.txt", "content": "new"});
    let steps =
        [call("list", json!({})), bash("echo a\necho b"), call("write", change.clone()), Step::text("Done.")];
    let mut bench = Bench::new(steps).await;
    bench.keeper.people = People::Away;
    bench.keeper.prompt("Go on.").await.unwrap();
    let ask = answer(&mut bench, ApprovalOutcome::AllowOnce, None).await;
    let tool = ask.tool.unwrap();
    assert_eq!(tool.input, Some(json!({"command": "echo a\necho b"})));
    let names: Vec<_> = ask.options.iter().map(|option| (option.id.as_str(), option.name.as_str())).collect();
    let always = "Always allow exactly this command in this session: echo a\necho b";
    assert_eq!(names, [("once", "Allow once"), ("always", always), ("reject", "Reject")]);
    let ask = answer(&mut bench, ApprovalOutcome::AllowOnce, None).await;
    assert_eq!(ask.tool.unwrap().input, Some(change));
    assert!(ask.options[1].name.contains("all changes of files below the working directory"));
    bench.keeper.until_quiet().await.unwrap();
    assert_eq!(bench.keeper.turn().outcome, Some(Outcome::Completed), "{}", bench.keeper.show());
    assert_eq!(bench.keeper.file("a.txt").unwrap(), "new");
    assert_eq!(bench.keeper.count("approval.requested"), 2);
}

#[tokio::test]
async fn always_holds_for_the_session_also_after_a_restart_and_for_nothing_else() {
    let steps = [
        bash("echo a >> ran"),
        bash("echo a >> ran"),
        bash("echo b >> ran"),
        Step::text("Done."),
        bash("echo a >> ran"),
        Step::text("Again."),
    ];
    let mut bench = Bench::new(steps).await;
    bench.keeper.people = People::Away;
    bench.keeper.prompt("Go on.").await.unwrap();
    answer(&mut bench, ApprovalOutcome::AllowAlways, None).await;
    let ask = answer(&mut bench, ApprovalOutcome::AllowOnce, None).await;
    assert_eq!(ask.tool.unwrap().input, Some(json!({"command": "echo b >> ran"})));
    bench.keeper.until_quiet().await.unwrap();
    bench.keeper.restart().await;
    bench.run("Again.").await;
    assert_eq!(bench.keeper.file("ran").unwrap(), "a\na\nb\na\n");
    assert_eq!(bench.keeper.count("approval.requested"), 2, "{}", bench.keeper.show());
}

/// The keeper refuses calls in such a session, so it must hear of each.
#[tokio::test]
async fn always_does_not_hold_in_a_session_that_denies() {
    let steps = [bash("echo a >> ran"), Step::text("Done."), bash("echo a >> ran"), Step::text("I see.")];
    let mut bench = Bench::new(steps).await;
    bench.keeper.people = People::Away;
    bench.keeper.prompt("Go on.").await.unwrap();
    answer(&mut bench, ApprovalOutcome::AllowAlways, None).await;
    bench.keeper.until_quiet().await.unwrap();
    let permissions = Some(Permissions::Deny);
    bench.keeper.tell(Command::Change { model: None, mode: None, permissions }).await.unwrap();
    bench.keeper.prompt("Again.").await.unwrap();
    answer(&mut bench, ApprovalOutcome::Reject, None).await;
    bench.keeper.until_quiet().await.unwrap();
    assert_eq!(bench.keeper.file("ran").unwrap(), "a\n");
}

#[tokio::test]
async fn a_rejection_and_its_message_are_told_to_the_model() {
    let steps = [bash("echo no > ran"), bash("echo no > ran"), Step::text("I see.")];
    let mut bench = Bench::new(steps).await;
    bench.keeper.people = People::Away;
    bench.keeper.prompt("Go on.").await.unwrap();
    answer(&mut bench, ApprovalOutcome::Reject, Some("use the other file")).await;
    answer(&mut bench, ApprovalOutcome::Expired, None).await;
    bench.keeper.until_quiet().await.unwrap();
    assert_eq!(bench.keeper.turn().outcome, Some(Outcome::Completed), "{}", bench.keeper.show());
    let rejected = "The user rejected this call. It was not run. The user says: use the other file";
    assert_eq!(bench.result(0), rejected);
    assert_eq!(bench.result(1), "Nobody answered in time, so this was not run.");
    assert!(bench.tools().iter().all(|item| item.state == ItemStage::Failed));
    assert!(bench.bodies()[1].to_string().contains(rejected));
    assert_eq!(bench.keeper.file("ran"), None);
}

#[tokio::test]
async fn an_open_permission_is_asked_again_after_a_restart_and_its_answer_is_used() {
    let mut bench = Bench::new([bash("echo yes > ran"), Step::text("Done.")]).await;
    bench.keeper.people = People::Away;
    bench.keeper.prompt("Go on.").await.unwrap();
    bench.keeper.until_signal(|signal| matches!(signal, Signal::Ask { .. })).await;
    bench.keeper.restart().await;
    answer(&mut bench, ApprovalOutcome::AllowOnce, None).await;
    bench.keeper.until_quiet().await.unwrap();
    assert_eq!(bench.keeper.turn().outcome, Some(Outcome::Completed), "{}", bench.keeper.show());
    assert_eq!(bench.keeper.file("ran").unwrap(), "yes\n");
    assert_eq!(bench.keeper.count("approval.requested"), 1);
    assert_eq!(bench.provider.calls().len(), 2);
}
