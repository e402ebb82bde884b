//! Providers that fail: what is repeated leaves nothing behind, and what is not is an error with its code.

use crate::lab::{Lab, slowly};
use crate::seen::Seen;
use crate::support::ANSWER;
use turnstream_dialects::acp::AcpEvent;
use turnstream_fake_provider::{CutBy, Fault, Refusal, RetryAfter, Step};
use turnstream_model::event::Status;

const HALF: &str = "This is only half of an answer that will never be whole.";

fn script() -> Vec<Step> {
    let busy = Refusal::new(429, "rate_limit_error", "Slow down").retry_after(RetryAfter::Seconds(1));
    let broken = Refusal::new(500, "server_error", "It broke");
    let wrong = Refusal::new(400, "invalid_request_error", "That is no question");
    let cut = Fault::Cut { after: 1_500, by: CutBy::Rst };
    vec![
        Step::new(broken).for_user_text("Break once"),
        Step::new(busy).for_user_text("Be busy once"),
        Step::text(HALF).delivered(slowly(400)).fault(cut).for_user_text("Be cut once"),
        Step::new(wrong).for_user_text("Be refused").always(),
        Step::text(HALF)
            .delivered(slowly(20))
            .fault(Fault::MissingBlankLine { after_event: 3 })
            .for_user_text("Be glued")
            // The HTTP client of opencode may send a request again whose connection has died.
            .always(),
        Step::text(ANSWER).always(),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn providers_that_fail() {
    let lab = Lab::start(script()).await;
    tokio::join!(
        an_error_that_is_repeated_is_not_seen_in_the_end(&lab, "Break once"),
        an_error_that_is_repeated_is_not_seen_in_the_end(&lab, "Be busy once"),
        the_text_of_a_call_that_was_repeated_is_void(&lab),
        a_refusal_ends_the_turn_with_its_status(&lab),
        a_glued_chunk_ends_the_turn_with_an_error_and_keeps_what_came(&lab),
    );
}

/// The session said that it waits for another attempt.
fn has_retried(seen: &Seen) -> bool {
    seen.events.iter().any(|event| matches!(event, AcpEvent::Status(Status::Retrying { .. })))
}

async fn an_error_that_is_repeated_is_not_seen_in_the_end(lab: &Lab, text: &str) {
    let session = lab.session().await;
    let seen = lab.ask(&session, text).ended().await;
    assert_eq!((seen.text().as_str(), seen.end().as_str()), (ANSWER, "end_turn"));
    assert!(has_retried(&seen), "{:?}", seen.events);
    assert_eq!((lab.model_calls(text), lab.prompts(&session), lab.aborts(&session)), (2, 1, 0));
}

async fn the_text_of_a_call_that_was_repeated_is_void(lab: &Lab) {
    let session = lab.session().await;
    let seen = lab.ask(&session, "Be cut once").ended().await;
    let streamed: String = seen
        .events
        .iter()
        .filter_map(|event| match event {
            AcpEvent::Chunk(chunk) => Some(chunk.text.as_str()),
            _ => None,
        })
        .collect();
    assert!(streamed.starts_with("This is only"), "the half came: {streamed}");
    assert_eq!((seen.text().as_str(), seen.end().as_str()), (ANSWER, "end_turn"));
    assert!(has_retried(&seen), "{:?}", seen.events);
    assert_eq!(lab.model_calls("Be cut once"), 2);
}

async fn a_refusal_ends_the_turn_with_its_status(lab: &Lab) {
    let session = lab.session().await;
    let seen = lab.ask(&session, "Be refused").ended().await;
    let fault = seen.fault();
    assert_eq!((fault.code, fault.name.as_deref()), (400, Some("APIError")), "{fault:?}");
    assert!(fault.message.contains("That is no question"), "{fault:?}");
    let seen = lab.ask(&session, "And now").ended().await;
    assert_eq!((seen.text().as_str(), seen.end().as_str()), (ANSWER, "end_turn"));
}

async fn a_glued_chunk_ends_the_turn_with_an_error_and_keeps_what_came(lab: &Lab) {
    let session = lab.session().await;
    let seen = lab.ask(&session, "Be glued").ended().await;
    let fault = seen.fault();
    assert_eq!((fault.code, fault.name.as_deref()), (-2, Some("UnknownError")), "{fault:?}");
    assert!(fault.message.chars().count() <= 200, "{fault:?}");
    let text = seen.text();
    assert!(!text.is_empty() && HALF.starts_with(&text), "{text}");
    let seen = lab.ask(&session, "And now").ended().await;
    assert_eq!((seen.text().as_str(), seen.end().as_str()), (ANSWER, "end_turn"));
}
