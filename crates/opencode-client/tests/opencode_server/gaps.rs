//! Event streams that are cut in the middle of a turn.

use crate::lab::{Lab, Line, events, nth_event, slowly};
use crate::seen::Seen;
use crate::support::{ANSWER, quick};
use serde_json::json;
use std::time::Duration;
use turnstream_fake_provider::{Completion, Finish, Part, Step};
use turnstream_opencode_client::{BusSettings, SessionRef};
use turnstream_testkit::proxy::{Action, Ending, Fault, Point, Rest, Rule, RuleId};

const THOUGHT: &str = "A thought that is not to be shown as text.";

fn script() -> Vec<Step> {
    let call = Part::tool_call("bash", json!({"command": "echo said", "description": "As scripted"}));
    let first = Completion::of([Part::reasoning(THOUGHT), Part::text("Look here now. "), call]);
    let mut steps = Vec::new();
    for nth in 0..=40 {
        let name = format!("Cut {nth}.");
        steps.push(Step::new(first.clone()).delivered(slowly(30)).for_user_text(&name));
        steps.push(Step::text(ANSWER).delivered(slowly(30)).for_user_text(&name));
    }
    let full = Completion::text(ANSWER).finished(Finish::Length);
    steps.push(Step::new(full.clone()).delivered(slowly(150)).for_user_text("Finish unheard"));
    steps.push(Step::new(full).delivered(slowly(150)).for_user_text("Finish unwatched"));
    let endless = Step::text(&"And more. ".repeat(200)).delivered(slowly(200));
    steps.push(endless.for_user_text("Run on"));
    steps.push(Step::text(ANSWER).always());
    steps
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_cut_anywhere_costs_no_text_and_doubles_none() {
    let lab = Lab::start(script()).await;
    let whole = lab.line().await.ask("Cut 0.").ended().await;
    let expected = (
        THOUGHT.to_owned(),
        format!("Look here now. {ANSWER}"),
        vec!["execute | Run echo said | completed".to_owned()],
        "end_turn".to_owned(),
    );
    assert_eq!(whole.whole(), expected);
    // There are some 40 events; the later ones may come after the end.
    for nth in [[1, 4, 7, 9], [11, 13, 15, 17], [19, 21, 23, 25], [28, 30, 32, 34]] {
        let [a, b, c, d] = nth;
        let (a, b, c, d) = tokio::join!(cut(&lab, a), cut(&lab, b), cut(&lab, c), cut(&lab, d));
        for (nth, seen) in nth.into_iter().zip([a, b, c, d]) {
            assert_eq!(seen.whole(), expected, "cut after event {nth}: {:#?}", seen.events);
        }
    }
}

async fn cut(lab: &Lab, nth: u32) -> Seen {
    let line = lab.line().await;
    let session = &line.session;
    let ending = if nth.is_multiple_of(2) { Ending::Rst } else { Ending::Fin };
    let point = Fault::At(Point::AfterEvent(nth_event(session, nth)), Action::Cut(ending));
    let rule = lab.proxy.add(Rule::new(point).on_request(line.is_stream()));
    let text = format!("Cut {nth}.");
    let seen = line.ask(&text).ended().await;
    assert_eq!(lab.proxy.fired(rule), 1, "there is no event {nth}");
    assert_eq!(lab.model_calls(&text), 2, "cut after event {nth}");
    assert_eq!((lab.prompts(session), lab.aborts(session)), (1, 0), "cut after event {nth}");
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_nobody_heard_the_end_of() {
    let lab = Lab::start(script()).await;
    tokio::join!(
        it_ends_by_what_the_server_has_as_soon_as_the_stream_is_back(&lab),
        it_ends_by_what_the_server_has_when_the_stream_never_comes_back(&lab),
        a_turn_that_runs_on_without_a_stream_is_lost_and_the_next_message_is_clean(&lab),
    );
}

/// Cuts the stream after the first text and lets none be opened again.
fn sever(lab: &Lab, line: &Line) -> RuleId {
    let first = Point::AfterEvent(events("message.part.delta", &line.session));
    lab.proxy.add(Rule::new(Fault::At(first, Action::Cut(Ending::Rst))).on_request(line.is_stream()));
    let refuse = Fault::At(Point::Byte(0), Action::Cut(Ending::Rst));
    let after = std::sync::atomic::AtomicBool::new(false);
    let is_stream = line.is_stream();
    let refuse = Rule::new(refuse).always().on_request(move |request| {
        is_stream(request) && after.swap(true, std::sync::atomic::Ordering::SeqCst)
    });
    lab.proxy.add(refuse)
}

async fn it_ends_by_what_the_server_has_as_soon_as_the_stream_is_back(lab: &Lab) {
    let line = lab.line().await.with(patient());
    let refusing = sever(lab, &line);
    let mut watch = line.ask("Finish unheard");
    watch.until_text().await;
    until_rest(lab, &line.session, "Finish unheard").await;
    lab.proxy.remove(refusing);
    finished(lab, &line.session, "Finish unheard", &watch.ended().await);
}

/// Enough patience for a slow machine.
fn patient() -> BusSettings {
    BusSettings { attempts: 1_000, longest_pause: Duration::from_millis(200), ..quick() }
}

/// The model has answered and the server is done with it.
async fn until_rest(lab: &Lab, session: &SessionRef, text: &str) {
    lab.until_answered(text, 1).await;
    while lab.client.status(&session.directory).await.unwrap().contains_key(&session.id) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn it_ends_by_what_the_server_has_when_the_stream_never_comes_back(lab: &Lab) {
    let line = lab.line().await.with(patient());
    let refusing = sever(lab, &line);
    let mut watch = line.ask("Finish unwatched");
    watch.until_text().await;
    until_rest(lab, &line.session, "Finish unwatched").await;
    // Now it is refused in a way that is not tried again.
    let refused = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec();
    let refused = Fault::At(Point::Byte(0), Action::Splice(refused, Rest::Discard));
    let refused = lab.proxy.add(Rule::new(refused).always().on_request(line.is_stream()));
    lab.proxy.remove(refusing);
    let seen = watch.ended().await;
    assert!(lab.proxy.fired(refused) > 0);
    finished(lab, &line.session, "Finish unwatched", &seen);
}

/// It has its real end: it was not stopped, not asked again, and is not taken for failed.
fn finished(lab: &Lab, session: &SessionRef, text: &str, seen: &Seen) {
    assert_eq!((seen.text().as_str(), seen.end().as_str()), (ANSWER, "max_tokens"), "{:#?}", seen.events);
    assert_eq!((lab.model_calls(text), lab.prompts(session), lab.aborts(session)), (1, 1, 0));
}

async fn a_turn_that_runs_on_without_a_stream_is_lost_and_the_next_message_is_clean(lab: &Lab) {
    let line = lab.line().await;
    let refusing = sever(lab, &line);
    let seen = line.ask("Run on").ended().await;
    assert_eq!((seen.fault().code, seen.fault().outcome.as_str()), (-3, "lost"), "{:?}", seen.fault());
    lab.proxy.remove(refusing);
    let next = line.ask("Say hello").ended().await;
    assert_eq!((next.text().as_str(), next.end().as_str()), (ANSWER, "end_turn"), "{:#?}", next.events);
    assert_eq!(lab.aborts(&line.session), 1, "nothing runs on that nobody watches");
}
