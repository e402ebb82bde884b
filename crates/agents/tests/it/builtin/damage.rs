//! Damaged answers: each is repeated, what it has shown is void, and no call of it runs.

use super::{Bench, FORMATS, bash};
use serde_json::json;
use turnstream_fake_provider::{
    Bytes, Completion, CutBy, ErrorBody, Fault, Finish, Part, Raw, Refusal, Step,
};
use turnstream_llm::Format;
use turnstream_model::event::{ErrorClass, ItemKind, Outcome};
use turnstream_model::fold::ItemStage;

/// A text and a call that leaves a trace.
fn answer() -> Completion {
    let call = Part::tool_call("bash", json!({"command": "echo wrong >> trace"}));
    Completion::of([Part::text("This one is damaged on its way."), call])
}

/// Everything that can happen to an answer, with a name.
fn damages() -> Vec<(&'static str, Step)> {
    let step = || Step::new(answer());
    let html =
        Raw { status: 200, content_type: "text/html".to_owned(), body: Bytes::from("<html>hi</html>") };
    let error = || ErrorBody::new("server_error", "broken");
    let mut damages = vec![
        ("spliced", step().fault(Fault::Splice { after: 700, second: answer() })),
        ("garbage", step().fault(Fault::Insert { before_event: 3, bytes: Bytes::from("data: {\"x\n\n") })),
        ("error in the stream", step().fault(Fault::Error { at_event: 4, error: error() })),
        ("no finish", Step::new(answer().finished(Finish::Missing))),
        ("html", Step::new(html)),
        ("500", Step::new(Refusal::new(500, "server_error", "no"))),
        ("overloaded", Step::new(Refusal::new(529, "overloaded_error", "no"))),
        ("429", Step::new(Refusal::new(429, "rate_limit_error", "slow down"))),
    ];
    for after in [0, 150, 400, 700, 1_000, 1_300, 1_600] {
        for by in [CutBy::Fin, CutBy::Rst] {
            damages.push(("cut", step().fault(Fault::Cut { after, by })));
        }
    }
    damages
}

#[tokio::test]
async fn a_damaged_answer_is_void_and_asked_for_again_in_every_format() {
    for format in FORMATS {
        for (name, damaged) in damages() {
            let faults = format!("{:?}", damaged.faults);
            let steps = [damaged, bash("echo right >> trace"), Step::text("Done.")];
            let mut bench = Bench::in_format(format, steps).await;
            bench.run("Go on.").await;
            let what = || format!("{format:?} {name} {faults}\n{}", bench.keeper.show());
            let turn = bench.keeper.turn();
            assert_eq!(turn.outcome, Some(Outcome::Completed), "{}", what());
            let calls = bench.provider.calls();
            // Nothing is lost if it is cut after its end. In responses, a call is whole before the end, and
            // events are numbered: garbage between two of them takes nothing away.
            let is_whole = calls.len() == 3 && bench.keeper.count("attempt.superseded") == 0;
            let trace = bench.keeper.file("trace").unwrap();
            if is_whole {
                assert!(name == "cut" || format == Format::Responses, "{}", what());
                assert!(matches!(name, "cut" | "garbage" | "no finish"), "{}", what());
                assert_eq!(trace, "wrong\nright\n", "{}", what());
                continue;
            }
            assert_eq!((calls.len(), trace.as_str()), (3, "right\n"), "{}", what());
            assert_eq!(bench.keeper.count("attempt.superseded"), 1, "{}", what());
            let items = bench.keeper.items();
            assert!(items.iter().all(|item| item.state == ItemStage::Completed), "{}", what());
            let texts: Vec<_> = items.iter().filter(|item| item.kind == ItemKind::Message).collect();
            assert_eq!(texts.len(), 1, "{}", what());
            let sent = calls[2].body.to_string();
            assert!(!sent.contains("damaged on its way") && !sent.contains("wrong"), "{sent}");
        }
    }
}

#[tokio::test]
async fn two_events_that_are_glued_together_are_read_and_the_call_runs_once() {
    for format in FORMATS {
        let glued = Step::new(answer()).fault(Fault::MissingBlankLine { after_event: 3 });
        let mut bench = Bench::in_format(format, [glued, Step::text("Done.")]).await;
        bench.run("Go on.").await;
        assert_eq!(bench.keeper.turn().outcome, Some(Outcome::Completed), "{}", bench.keeper.show());
        assert_eq!(bench.keeper.file("trace").unwrap(), "wrong\n", "{format:?}");
        assert_eq!(bench.provider.calls().len(), 2);
    }
}

#[tokio::test]
async fn an_answer_that_is_damaged_every_time_fails_the_turn_and_runs_nothing() {
    let garbage = Fault::Insert { before_event: 3, bytes: Bytes::from("data: {\"x\n\n") };
    let steps = [Step::new(answer()).fault(garbage).always()];
    let mut bench = Bench::in_format(Format::Chat, steps).await;
    bench.run("Go on.").await;
    let turn = bench.keeper.turn();
    assert_eq!(turn.outcome, Some(Outcome::Failed), "{}", bench.keeper.show());
    assert_eq!(turn.error.as_ref().unwrap().class, ErrorClass::StreamCorrupt);
    assert_eq!(bench.keeper.file("trace"), None);
    assert_eq!(bench.provider.calls().len(), 4, "three retries");
}
