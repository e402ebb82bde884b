//! The table of error classes: every input gives its class, and no prose changes it.

use proptest::prelude::*;
use serde_json::{Value, json};
use std::error::Error;
use std::io;
use turnstream_fake_provider as scripted;
use turnstream_llm::classify::{Answer, Failure, Phase, RootCause, Source, TimeoutKind, transport};
use turnstream_llm::delay::Headers;
use turnstream_llm::{
    Delivered, Extra, Finish, FinishMeaning, Format, Head, Identity, Item, ItemNo, Outcome, Profile,
    ProfileRule, ProviderError, Reader, Repairs, StreamEnd, Transport,
};
use turnstream_model::event::ErrorClass;
use turnstream_model::time::Time;

const NOW: Time = Time(1_794_809_255_000);

/// Answers of providers with their status and class (rows 16 to 21 and 40 to 43 of the list of reports).
const TABLE: &[(u16, &str, Option<&str>, ErrorClass)] = &[
    (429, "requests", Some("rate_limit_exceeded"), ErrorClass::RateLimited),
    (429, "rate_limit_error", None, ErrorClass::RateLimited),
    (429, "something_new", None, ErrorClass::RateLimited),
    (429, "insufficient_quota", Some("insufficient_quota"), ErrorClass::QuotaExhausted),
    (429, "FreeUsageLimitError", None, ErrorClass::QuotaExhausted),
    (429, "usage_limit_reached", None, ErrorClass::QuotaExhausted),
    (402, "something_new", None, ErrorClass::QuotaExhausted),
    (529, "overloaded_error", None, ErrorClass::Overloaded),
    (503, "server_is_overloaded", Some("slow_down"), ErrorClass::Overloaded),
    (529, "something_new", None, ErrorClass::Overloaded),
    (500, "overloaded_error", None, ErrorClass::Overloaded),
    (200, "overloaded_error", None, ErrorClass::Overloaded),
    (500, "api_error", None, ErrorClass::ProviderError),
    (500, "server_error", None, ErrorClass::ProviderError),
    (502, "something_new", None, ErrorClass::ProviderError),
    (504, "timeout_error", None, ErrorClass::ProviderError),
    (520, "something_new", None, ErrorClass::ProviderError),
    (524, "something_new", None, ErrorClass::ProviderError),
    (200, "something_new", Some("524"), ErrorClass::ProviderError),
    (200, "something_new", Some("429"), ErrorClass::RateLimited),
    (200, "something_new", None, ErrorClass::ProviderError),
    (400, "invalid_request_error", Some("context_length_exceeded"), ErrorClass::ContextOverflow),
    (413, "request_too_large", None, ErrorClass::ContextOverflow),
    (413, "something_new", None, ErrorClass::ContextOverflow),
    (400, "invalid_request_error", Some("content_filter"), ErrorClass::Refused),
    (400, "invalid_request_error", Some("cyber_policy"), ErrorClass::Refused),
    (401, "authentication_error", None, ErrorClass::Auth),
    (401, "invalid_request_error", Some("invalid_api_key"), ErrorClass::Auth),
    (403, "permission_error", None, ErrorClass::Auth),
    (403, "something_new", None, ErrorClass::Auth),
    (401, "ModelError", None, ErrorClass::ModelUnavailable),
    (404, "not_found_error", None, ErrorClass::ModelUnavailable),
    (404, "something_new", None, ErrorClass::ModelUnavailable),
    (400, "invalid_request_error", Some("model_not_found"), ErrorClass::ModelUnavailable),
    (400, "invalid_request_error", None, ErrorClass::InvalidRequest),
    (422, "something_new", None, ErrorClass::InvalidRequest),
    // Words on every error leave the decision to the status, unless the status is not specific.
    (401, "authentication_error", Some("invalid_request_error"), ErrorClass::Auth),
    (402, "unknown_error", Some("invalid_request_error"), ErrorClass::QuotaExhausted),
    (429, "invalid_request_error", None, ErrorClass::RateLimited),
    (429, "api_error", None, ErrorClass::RateLimited),
    (500, "upstream_error", Some("429"), ErrorClass::RateLimited),
    (503, "server_error", None, ErrorClass::Overloaded),
    (502, "upstream_error", None, ErrorClass::ProviderError),
    (500, "invalid_request_error", None, ErrorClass::InvalidRequest),
    // Words and statuses of single providers.
    (429, "something_new", Some("1113"), ErrorClass::QuotaExhausted),
    (498, "something_new", None, ErrorClass::Overloaded),
    (424, "something_new", None, ErrorClass::ProviderError),
    (400, "too_many_prompt_tokens", None, ErrorClass::ContextOverflow),
];

fn rendered(
    status: u16,
    kind: &str,
    code: Option<&str>,
    message: &str,
    format: scripted::WireFormat,
) -> Vec<u8> {
    let mut refusal = scripted::Refusal::new(status, kind, message);
    refusal.error.code = code.map(str::to_owned);
    let asked = scripted::Asked { model: "m".to_owned(), stream: true, ..scripted::Asked::default() };
    let identity = scripted::Identity { serial: 1, created: 1, asked };
    let answer = scripted::render(format, &scripted::Step::new(refusal), &identity).unwrap();
    let bytes = answer.chunks.into_iter().flat_map(|chunk| match chunk {
        scripted::Chunk::Write { bytes, .. } => bytes,
        scripted::Chunk::Stall(_) => Vec::new(),
    });
    bytes.collect()
}

fn answer(status: u16, headers: &Headers) -> Answer<'_> {
    Answer { status, headers, now: NOW }
}

fn refusal(status: u16, body: &[u8]) -> Failure {
    answer(status, &Headers::default()).refusal(body)
}

#[test]
fn the_table_of_bodies_and_statuses() {
    for (status, kind, code, expected) in TABLE {
        for format in scripted::WireFormat::ALL {
            // The messages format has no code.
            if format == scripted::WireFormat::Messages && code.is_some() {
                continue;
            }
            let body = rendered(*status, kind, *code, "A sentence.", format);
            let failure = refusal(*status, &body);
            assert_eq!(failure.class, *expected, "{status} {kind} {code:?} in {format:?}");
            assert_eq!(failure.message, "A sentence.");
        }
    }
}

#[test]
fn the_same_words_as_an_event_in_a_200_give_the_same_class() {
    let headers = Headers::default();
    let says_something = |(_, kind, code, _): &&(u16, &str, Option<&str>, ErrorClass)| {
        let vague = ["something_new", "unknown_error", "invalid_request_error", "api_error", "server_error"];
        !vague.contains(kind) || code.is_some_and(|code| !vague.contains(&code))
    };
    for (status, kind, code, expected) in TABLE.iter().filter(says_something) {
        let error = ProviderError {
            kind: Some((*kind).to_owned()),
            code: code.map(str::to_owned),
            message: "A sentence.".to_owned(),
            ..ProviderError::default()
        };
        let failure = answer(200, &headers).provider_error(&error, Source::Event);
        assert_eq!(failure.class, *expected, "{status} {kind} {code:?}");
    }
}

#[test]
fn bodies_that_are_no_error_of_a_known_form_are_named_by_their_status_or_as_no_stream() {
    let page = b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head></html>";
    let failure = refusal(502, page);
    assert_eq!((failure.class, failure.source), (ErrorClass::ProviderError, Source::Status));
    assert_eq!(failure.message, "502 Bad Gateway");
    let failure = refusal(200, page);
    assert_eq!((failure.class, failure.source), (ErrorClass::NotAStream, Source::Stream));
    let headers = Headers::new([("Location", "http://127.0.0.1:9/v2")]);
    let redirect = answer(307, &headers).refusal(b"");
    assert_eq!(redirect.class, ErrorClass::InvalidRequest);
    assert!(redirect.message.contains("http://127.0.0.1:9/v2"), "{}", redirect.message);
    assert_eq!(refusal(429, b"").class, ErrorClass::RateLimited);
    // A completion that was not streamed is not an error.
    assert_eq!(
        refusal(200, br#"{"id":"c","choices":[],"code":"x","message":"m"}"#).class,
        ErrorClass::NotAStream
    );
}

#[test]
fn a_quota_per_day_is_a_quota_and_one_per_minute_a_rate() {
    let body = |quota: &str| {
        json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "m", "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "45.837906927s"}]}})
    };
    let of = |quota| refusal(429, body(quota).to_string().as_bytes());
    let minute = of("GenerateContentInputTokensPerModelPerMinute-FreeTier");
    let day = of("GenerateRequestsPerDayPerProjectPerModel-FreeTier");
    assert_eq!(minute.class, ErrorClass::RateLimited);
    assert_eq!(day.class, ErrorClass::QuotaExhausted);
    assert_eq!(minute.wait, Some(std::time::Duration::from_nanos(45_837_906_927)));
    assert_eq!(day.wait, None, "a day is not over after seconds");
}

#[test]
fn what_only_a_profile_knows_counts_for_that_profile_alone() {
    let headers = Headers::default();
    let error = |profile, message: &str| ProviderError {
        kind: Some("invalid_request_error".to_owned()),
        message: message.to_owned(),
        profile,
        ..ProviderError::default()
    };
    let class = |profile, message| {
        answer(200, &headers).provider_error(&error(profile, message), Source::Event).class
    };
    let throttled = "Throttling: TPM(10680324/10000000)";
    assert_eq!(class(Some(ProfileRule::Throttled), "m"), ErrorClass::RateLimited);
    assert_eq!(class(Some(ProfileRule::ErrorAsContent), throttled), ErrorClass::RateLimited);
    assert_eq!(class(Some(ProfileRule::ErrorAsContent), "It broke."), ErrorClass::ProviderError);
    assert_eq!(class(None, throttled), ErrorClass::InvalidRequest);
}

/// The class of a body that a reader with this profile gets.
fn read_with(profile: &Profile, status: u16, headers: &Headers, body: &Value) -> Failure {
    let head = Head { status, content_type: Some("application/json".to_owned()) };
    let mut reader = Reader::new(Format::Chat, profile, head);
    let mut events = Vec::new();
    reader.push(body.to_string().as_bytes(), &mut events);
    let outcome = reader.end(Transport::Clean, &mut events);
    answer(status, headers).outcome(&outcome).expect("a failure")
}

#[test]
fn an_overflow_that_is_only_prose_counts_for_its_provider_under_a_4xx_and_nowhere_else() {
    let none = Headers::default();
    let phrases = Profile::ALL
        .into_iter()
        .flat_map(|profile| profile.overflows.iter().map(move |text| (profile, text)));
    let mut phrases = phrases.peekable();
    assert!(phrases.peek().is_some());
    for (profile, phrase) in phrases {
        let message = format!("{phrase}123 tokens");
        let body = json!({"error": {"type": "invalid_request_error", "message": message}});
        let class = |profile, status, body: &Value| {
            let failure = read_with(profile, status, &none, body);
            (failure.class, failure.source)
        };
        let overflow = (ErrorClass::ContextOverflow, Source::Profile);
        assert_eq!(class(profile, 400, &body), overflow, "{phrase}");
        assert_eq!(class(&Profile::UNKNOWN, 400, &body).0, ErrorClass::InvalidRequest, "{phrase}");
        assert_ne!(class(profile, 500, &body), overflow, "{phrase}");
        assert_ne!(class(profile, 200, &body), overflow, "{phrase}");
        // Neither in another member, nor in a stream.
        let elsewhere = json!({"error": {"type": "invalid_request_error", "message": "m", "param": message}});
        assert_ne!(class(profile, 400, &elsewhere), overflow, "{phrase}");
    }
}

#[test]
fn machine_words_of_single_providers_are_found_where_they_put_them() {
    let none = Headers::default();
    let google = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "m", "details": [
        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]}});
    assert_eq!(read_with(&Profile::GOOGLE, 400, &none, &google).class, ErrorClass::Auth);
    let moderated = json!({"error": {"code": 403, "message": "m",
        "metadata": {"reasons": ["violence"], "flagged_input": "x", "provider_name": "OpenAI"}}});
    assert_eq!(read_with(&Profile::OPENROUTER, 403, &none, &moderated).class, ErrorClass::Refused);
    let forbidden = json!({"error": {"code": 403, "message": "m"}});
    assert_eq!(read_with(&Profile::OPENROUTER, 403, &none, &forbidden).class, ErrorClass::Auth);
    let cohere = json!({"error_type": "TOO_MANY_TOKENS", "id": "i", "message": "m"});
    assert_eq!(read_with(&Profile::UNKNOWN, 400, &none, &cohere).class, ErrorClass::ContextOverflow);
    // Groq: more tokens than the limit per minute.
    let large = json!({"error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "m"}});
    assert_eq!(read_with(&Profile::GROQ, 413, &none, &large).class, ErrorClass::ContextOverflow);
    assert_eq!(read_with(&Profile::GROQ, 429, &none, &large).class, ErrorClass::RateLimited);
    let message = json!({"message": "m"});
    let bedrock = |status, word: &str| {
        let headers = Headers::new([("x-amzn-ErrorType", word)]);
        read_with(&Profile::BEDROCK, status, &headers, &message).class
    };
    assert_eq!(bedrock(400, "ThrottlingException:http://internal.amazon.com/x/"), ErrorClass::RateLimited);
    assert_eq!(bedrock(424, "ModelErrorException"), ErrorClass::ProviderError);
    assert_eq!(bedrock(400, "ValidationException:http://internal.amazon.com/x/"), ErrorClass::InvalidRequest);
}

#[test]
fn a_document_that_is_no_completion_is_not_asked_for_again() {
    let failure = read_with(&Profile::UNKNOWN, 200, &Headers::default(), &json!({"hello": "world"}));
    assert_eq!((failure.class, failure.is_final), (ErrorClass::NotAStream, true));
    let page = refusal(200, b"<html></html>");
    assert_eq!((page.class, page.is_final), (ErrorClass::NotAStream, false));
}

#[test]
fn a_finish_that_nobody_knows_is_no_success() {
    let headers = Headers::default();
    let finished = |raw: &str, meaning| Outcome {
        finish: Some(Finish { raw: raw.to_owned(), meaning }),
        committed: vec![Item::Message { item: ItemNo(0), text: "Half".to_owned(), extra: Extra::default() }],
        ..outcome(StreamEnd::Complete, Transport::Clean)
    };
    let class = |outcome: &Outcome| answer(200, &headers).outcome(outcome).map(|failure| failure.class);
    assert_eq!(class(&finished("stop", FinishMeaning::Stop)), None);
    assert_eq!(class(&finished("weird", FinishMeaning::Unknown)), Some(ErrorClass::Incomplete));
}

/// An I/O error as HTTP clients wrap it.
#[derive(Debug, thiserror::Error)]
#[error("error decoding response body")]
struct Wrapped(#[source] Box<dyn Error + Send + Sync>);

#[test]
fn the_transport_is_classified_by_the_kinds_in_its_chain() {
    let wrapped = |kind: io::ErrorKind| Wrapped(Box::new(Wrapped(Box::new(io::Error::from(kind)))));
    let class = |kind, phase| transport(&wrapped(kind), phase).class;
    for kind in [io::ErrorKind::ConnectionReset, io::ErrorKind::UnexpectedEof, io::ErrorKind::BrokenPipe] {
        for phase in [Phase::Connect, Phase::Request, Phase::Body] {
            assert_eq!(class(kind, phase), ErrorClass::TransportLost, "{kind} in {phase:?}");
        }
    }
    for kind in [io::ErrorKind::ConnectionRefused, io::ErrorKind::HostUnreachable, io::ErrorKind::TimedOut] {
        assert_eq!(class(kind, Phase::Connect), ErrorClass::Unreachable, "{kind}");
        assert_eq!(class(kind, Phase::Body), ErrorClass::TransportLost, "{kind}");
    }
    let nameless = Wrapped(Box::<dyn Error + Send + Sync>::from("failed to lookup address"));
    assert_eq!(transport(&nameless, Phase::Connect).class, ErrorClass::Unreachable);
    let message = transport(&wrapped(io::ErrorKind::ConnectionReset), Phase::Body).message;
    assert_eq!(message, "error decoding response body: connection reset");
}

#[test]
fn clocks_are_stalls_except_for_the_connection() {
    let class = |clock| Failure::timeout(clock, std::time::Duration::from_secs(1)).class;
    assert_eq!(class(TimeoutKind::Connect), ErrorClass::Unreachable);
    for clock in [TimeoutKind::Headers, TimeoutKind::Silence, TimeoutKind::Progress, TimeoutKind::Lifetime] {
        assert_eq!(class(clock), ErrorClass::Stalled);
    }
}

fn outcome(ended: StreamEnd, transport: Transport) -> Outcome {
    Outcome {
        ended,
        transport,
        finish: None,
        committed: Vec::new(),
        withheld: Vec::new(),
        delivered: Delivered::default(),
        anomalies: Vec::new(),
        anomaly_count: 0,
        repairs: Repairs::default(),
        identity: Identity::default(),
        usage: None,
        residue: None,
        call_in_text: false,
        bytes: 0,
        events: 0,
        ignored_from: None,
    }
}

#[test]
fn the_ends_of_streams() {
    let headers = Headers::default();
    let class = |ended, transport| {
        let failure = answer(200, &headers).outcome(&outcome(ended, transport));
        failure.map(|failure| failure.class)
    };
    assert_eq!(class(StreamEnd::Complete, Transport::Clean), Some(ErrorClass::EmptyOutput));
    assert_eq!(class(StreamEnd::Spliced, Transport::Clean), Some(ErrorClass::StreamSpliced));
    assert_eq!(class(StreamEnd::Corrupt, Transport::Clean), Some(ErrorClass::StreamCorrupt));
    assert_eq!(class(StreamEnd::Corrupt, Transport::Broken), Some(ErrorClass::TransportLost));
    assert_eq!(class(StreamEnd::Incomplete, Transport::Clean), Some(ErrorClass::Incomplete));
    assert_eq!(class(StreamEnd::Incomplete, Transport::Broken), Some(ErrorClass::TransportLost));
}

#[test]
fn the_first_word_of_the_provider_wins_and_the_rest_says_what_caused_it() {
    let provider = |class, source| Failure::new(class, source, format!("{class}"));
    let mut case = RootCause::default();
    case.add(provider(ErrorClass::TransportLost, Source::Transport));
    case.add(provider(ErrorClass::ProviderError, Source::Event));
    case.add(provider(ErrorClass::QuotaExhausted, Source::Body));
    case.add(provider(ErrorClass::Internal, Source::Ours));
    let cause = case.into_cause().unwrap();
    assert_eq!(cause.class, ErrorClass::ProviderError);
    let secondary: Vec<_> = cause.secondary.iter().map(|other| (other.class, other.caused_by)).collect();
    let by = ErrorClass::ProviderError;
    assert_eq!(
        secondary,
        [(ErrorClass::TransportLost, by), (ErrorClass::QuotaExhausted, by), (ErrorClass::Internal, by)]
    );
}

/// Texts that careless programs use to tell classes apart.
fn telling_text() -> impl Strategy<Value = String> {
    let words = TABLE.iter().flat_map(|(status, kind, code, class)| {
        [format!("{status}"), (*kind).to_owned(), code.unwrap_or("").to_owned(), class.as_str().to_owned()]
    });
    let sentences = [
        "Tool execution aborted",
        "You have hit your usage limit. Try again in 3h.",
        "Error: 429 Too Many Requests",
        "quota exceeded",
        "overloaded_error",
        r#"{"error":{"type":"insufficient_quota"}}"#,
        "data: {\"error\":{\"code\":524}}",
        "context_length_exceeded",
        "invalid x-api-key",
    ];
    let all: Vec<String> = words.chain(sentences.map(str::to_owned)).collect();
    prop::collection::vec(prop::sample::select(all), 1..4).prop_map(|texts| texts.join(" "))
}

proptest! {
    #[test]
    fn no_text_in_a_message_for_people_changes_a_verdict(row in 0..TABLE.len(), text in telling_text()) {
        let (status, kind, code, expected) = TABLE[row];
        let format = scripted::WireFormat::Chat;
        let plain = refusal(status, &rendered(status, kind, code, "A sentence.", format));
        let told = refusal(status, &rendered(status, kind, code, &text, format));
        prop_assert_eq!(plain.class, expected);
        prop_assert_eq!((told.class, told.source, told.word, told.status),
                        (plain.class, plain.source, plain.word, plain.status));
    }

    #[test]
    fn no_text_of_a_tool_or_of_standard_error_changes_a_verdict(text in telling_text(), status in 100_u16..600) {
        // Such text is in no member that decides, so the status decides.
        let bare = refusal(status, b"");
        let carried = refusal(status, text.as_bytes());
        let class = |failure: &Failure| (failure.class, failure.source, failure.wait);
        // Text that is an error object of a provider counts as one. Everything else is prose.
        prop_assume!(serde_json::from_str::<Value>(&text).is_err());
        prop_assert_eq!(class(&carried), class(&bare));
        let lost = transport(&Wrapped(text.clone().into()), Phase::Body);
        prop_assert_eq!(lost.class, ErrorClass::TransportLost);
        let mut case = RootCause::default();
        case.add(bare.clone());
        case.add(Failure::new(ErrorClass::Internal, Source::Ours, text));
        prop_assert_eq!(case.cause().map(|cause| cause.class), Some(bare.class));
    }

    #[test]
    fn a_quota_is_only_used_up_when_the_provider_says_so(text in telling_text(), phase in 0..3_usize) {
        let phase = [Phase::Connect, Phase::Request, Phase::Body][phase];
        let lost = transport(&Wrapped(text.clone().into()), phase);
        prop_assert_ne!(lost.class, ErrorClass::QuotaExhausted);
        let headers = Headers::default();
        for ended in [StreamEnd::Complete, StreamEnd::Spliced, StreamEnd::Corrupt, StreamEnd::Incomplete] {
            let failure = answer(200, &headers).outcome(&outcome(ended, Transport::Clean));
            prop_assert_ne!(failure.map(|failure| failure.class), Some(ErrorClass::QuotaExhausted));
        }
    }
}
