//! Ends: failures in the stream, finishes, missing finishes, residues.

use super::{assert_repaired, assert_tainted, chunks, event_with, of, plain, read};
use crate::corpus::{Stream, dangerous, rich, stream};
use crate::reading::read_stream;
use serde_json::json;
use turnstream_fake_provider::{Asked, Completion, ErrorBody, Fault, Finish, Identity, Part, Step, render};
use turnstream_llm::classify::Answer;
use turnstream_llm::delay::Headers;
use turnstream_llm::{
    AnomalyKind, FinishMeaning, Format, Furthest, Profile, ProfileRule, Repair, StreamEnd, StreamEvent,
};
use turnstream_model::event::ErrorClass;
use turnstream_model::time::Time;

pub(crate) fn failing(format: Format, error: ErrorBody, profile: Profile) -> Stream {
    let asked = Asked { model: "scripted-1".to_owned(), stream: true, ..Asked::default() };
    let identity = Identity { serial: 7, created: 1_794_700_000, asked };
    let step = Step::new(dangerous()).fault(Fault::Error { at_event: 4, error });
    let answer = render(crate::corpus::wire(format), &step, &identity).expect("a plain fault");
    let events = answer.chunks.iter().filter_map(|chunk| chunk.bytes()).map(<[u8]>::to_vec).collect();
    Stream { name: "failing".to_owned(), format, profile, events }
}

/// Rows 16, 17 and 42.
#[test]
fn an_error_in_the_stream_ends_the_attempt_and_the_first_one_counts() {
    for format in Format::ALL {
        let error = ErrorBody::new("overloaded_error", "Overloaded");
        let stream = failing(format, error, Profile::UNKNOWN);
        let read = read(&stream);
        let StreamEnd::Failed(error) = &read.outcome.ended else { panic!("{:?}", read.outcome) };
        assert_eq!((error.kind.as_deref(), error.message.as_str()), (Some("overloaded_error"), "Overloaded"));
        let failures = read.said.iter().filter(|said| matches!(said, StreamEvent::ProviderFailed(_))).count();
        assert_eq!((failures, read.outcome.committed.as_slice()), (1, &[][..]), "{format:?}");
    }
}

/// Row 18: only the profile knows it, and only for error objects.
#[test]
fn throttling_under_a_wrong_type_is_known_by_profile_only() {
    let error = ErrorBody::new("invalid_request_error", "{\"message\":\"Too many requests\"}");
    for (profile, says) in [(Profile::QWEN, Some(ProfileRule::Throttled)), (Profile::UNKNOWN, None)] {
        let read = read(&failing(Format::Chat, error.clone(), profile));
        let StreamEnd::Failed(error) = &read.outcome.ended else { panic!("{:?}", read.outcome) };
        assert_eq!(error.profile, says);
    }
    let mut text = of(Format::Chat, [Part::text("invalid_request_error: Too many requests")]);
    text.profile = Profile::QWEN;
    assert_eq!(read(&text).outcome.ended, StreamEnd::Complete);
}

/// Row 19.
#[test]
fn an_error_as_content_is_never_shown_as_an_answer() {
    let whole = of(Format::Chat, [Part::text("Throttling: TPM(10680324/10000000)")]);
    let said = read_stream(&whole).text();
    let mut damaged = chunks(&whole, |chunk| {
        if chunk["choices"][0]["finish_reason"] == "stop" {
            chunk["choices"][0]["finish_reason"] = json!("error_finish");
            chunk["choices"][0]["delta"] = json!({ "content": said });
        }
    });
    damaged.events.drain(1..damaged.events.len() - 3);
    damaged.profile = Profile::QWEN;
    let failed = read(&damaged);
    let StreamEnd::Failed(error) = &failed.outcome.ended else { panic!("{:?}", failed.outcome) };
    assert_eq!(error.profile, Some(ProfileRule::ErrorAsContent));
    assert_eq!((error.kind.as_deref(), &error.message), (Some("error_finish"), &said));
    assert_eq!((failed.text().as_str(), failed.outcome.delivered.furthest()), ("", Furthest::Nothing));
    // For other providers it is an unknown finish.
    damaged.profile = Profile::UNKNOWN;
    let finish = read(&damaged).outcome.finish.map(|finish| (finish.raw, finish.meaning));
    assert_eq!(finish, Some(("error_finish".to_owned(), FinishMeaning::Unknown)));
}

/// Row 22.
#[test]
fn a_stream_without_its_terminal_marker_is_incomplete_whatever_it_contains() {
    for format in Format::ALL {
        let stream = stream(format, "no finish", &dangerous().finished(Finish::Missing), false);
        let read = read(&stream);
        assert_eq!(
            (read.outcome.ended.clone(), read.anomalies()),
            (StreamEnd::Incomplete, vec![]),
            "{format:?}"
        );
        let whole = usize::from(format == Format::Responses);
        assert_eq!(read.calls().len(), whole, "{format:?}: only a response repeats a call when it is done");
    }
}

/// Row 23.
#[test]
fn what_is_left_of_an_event_is_kept() {
    for format in Format::ALL {
        let mut damaged = plain(format);
        damaged.events.truncate(5);
        let rest = damaged.events[4][..30].to_vec();
        damaged.events[4] = rest.clone();
        let read = read(&damaged);
        assert_eq!(
            (read.outcome.ended.clone(), read.anomalies()),
            (StreamEnd::Incomplete, vec![AnomalyKind::Residue])
        );
        let residue = read.outcome.residue.expect("a residue");
        assert_eq!((residue.range.start, residue.bytes), (damaged.events[..4].concat().len() as u64, rest));
    }
}

#[test]
fn an_end_without_its_last_blank_line_is_an_end() {
    for format in Format::ALL {
        for missing in [1, 2] {
            let mut damaged = plain(format);
            let last = damaged.events.last_mut().expect("an end");
            last.truncate(last.len() - missing);
            assert_repaired(&damaged, &plain(format), &[(Repair::MissingLastLine, 1)]);
        }
    }
}

/// Row 26.
#[test]
fn the_first_finish_counts_and_usage_may_follow_it() {
    let whole = plain(Format::Chat);
    let mut damaged = whole.clone();
    let at = event_with(&damaged, "\"finish_reason\":\"tool_calls\"");
    let again = String::from_utf8(damaged.events[at].clone()).expect("text").replace("tool_calls", "stop");
    damaged.events.insert(at + 1, again.into_bytes());
    assert_repaired(&damaged, &whole, &[(Repair::RepeatedFinish, 1)]);
    let read = read_stream(&damaged);
    assert_eq!(read.outcome.finish.map(|finish| finish.raw).as_deref(), Some("tool_calls"));
    assert!(read.outcome.usage.is_some());
}

/// Row 34.
#[test]
fn a_finish_that_nobody_knows_is_kept_and_runs_nothing() {
    for format in Format::ALL {
        let stream =
            stream(format, "odd", &dangerous().finished(Finish::Other("odd_word".to_owned())), false);
        let read = read(&stream);
        let finish = read.outcome.finish.clone().map(|finish| (finish.raw, finish.meaning));
        assert_eq!(finish, Some(("odd_word".to_owned(), FinishMeaning::Unknown)), "{format:?}");
        assert_eq!((read.told_calls(), read.runnable()), (vec![], vec![]));
        // There was content, and it may be incomplete.
        let answer = Answer { status: 200, headers: &Headers::default(), now: Time(0) };
        let class = answer.outcome(&read.outcome).map(|failure| failure.class);
        assert_eq!(class, Some(ErrorClass::Incomplete), "{format:?}");
    }
    let failed =
        stream(Format::Chat, "error", &dangerous().finished(Finish::Other("error".to_owned())), false);
    assert!(matches!(read(&failed).outcome.ended, StreamEnd::Failed(_)));
}

/// Row 35.
#[test]
fn an_answer_without_content_is_complete_and_delivered_nothing() {
    for format in Format::ALL {
        let read = read(&of(format, []));
        assert_eq!(
            (read.outcome.ended.clone(), read.outcome.delivered.furthest()),
            (StreamEnd::Complete, Furthest::Nothing)
        );
    }
}

#[test]
fn a_finish_that_wants_calls_without_any_call_is_a_loss() {
    for format in [Format::Chat, Format::Messages] {
        let stream =
            stream(format, "lost call", &Completion::text("I call it.").finished(Finish::ToolCalls), false);
        assert_tainted(&stream, AnomalyKind::NoSuchItem);
    }
}

#[test]
fn done_is_needed_where_the_provider_always_sends_it() {
    let mut cut = plain(Format::Chat);
    cut.events.pop();
    assert_eq!(read(&cut).outcome.ended, StreamEnd::Complete);
    cut.profile = Profile::OPENAI;
    let read = read(&cut);
    assert_eq!((read.outcome.ended.clone(), read.calls()), (StreamEnd::Incomplete, vec![]));
}

#[test]
fn a_lost_item_of_a_response_comes_from_its_end_and_one_that_differs_there_runs_nothing() {
    let whole = stream(Format::Responses, "rich", &rich(), false);
    let expected = read_stream(&whole);
    for lost in ["\"type\":\"response.output_item.done\"", "\"type\":\"response.output_item.added\""] {
        let mut damaged = whole.clone();
        damaged.events.retain(|event| !String::from_utf8_lossy(event).contains(lost));
        let read = read(&damaged);
        assert_eq!(
            (read.outcome.ended.clone(), read.calls()),
            (StreamEnd::Complete, expected.calls()),
            "{lost}"
        );
        assert_eq!(read.messages(), expected.messages());
    }
    let mut contradicted = whole.clone();
    let last = contradicted.events.last_mut().expect("an end");
    *last = String::from_utf8(last.clone()).expect("text").replace("/srv/a", "/srv/z").into_bytes();
    let read = read(&contradicted);
    assert_eq!((read.outcome.ended.clone(), read.runnable()), (StreamEnd::Corrupt, vec![]));
    assert_eq!(read.anomalies(), [AnomalyKind::Contradiction]);
}

#[test]
fn a_failure_in_plain_words_is_a_failure() {
    for format in Format::ALL {
        let mut failing = plain(format);
        failing.events.truncate(4);
        failing.events.push(b"event: error\ndata: Internal Server Error\n\n".to_vec());
        let read = read(&failing);
        let StreamEnd::Failed(error) = &read.outcome.ended else { panic!("{:?}", read.outcome) };
        assert_eq!((error.kind.as_deref(), error.message.as_str()), (None, "Internal Server Error"));
    }
}
