//! Each fault of a provider, in each format: what the client gets, how often the provider is asked, and that
//! no wrong call gets through.

use crate::harness::{FORMATS, Gateway, LONG, events, request, route};
use serde_json::{Value, json};
use std::time::Duration;
use turnstream_fake_provider::{
    Arguments, Bytes, Completion, CutBy, ErrorBody, Fault, Finish, Part, Provider, Raw, Refusal, Reply,
    RetryAfter, Script, Step, WireFormat,
};
use turnstream_llm::Format;

/// What a client must get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The second answer, whole.
    Repeated,
    /// The format's error, after content of the first answer.
    Broken,
}

fn with_text() -> Completion {
    Completion::of([
        Part::text("Hello, this is the beginning of an answer."),
        Part::tool_call("write_file", json!({"path": "notes.txt", "content": "one two three four five six"})),
    ])
}

fn call_only() -> Completion {
    Completion::of([Part::tool_call("write_file", json!({"path": "notes.txt", "content": "one two three"}))])
}

/// The place in a body after the first event that contains this text, and `more` bytes of the next one.
fn after(format: WireFormat, step: &Step, text: &str, more: usize) -> usize {
    let events = events(format, step);
    let at = events.iter().position(|event| String::from_utf8_lossy(event).contains(text)).unwrap();
    events[..=at].iter().map(Vec::len).sum::<usize>() + more
}

fn cut(format: WireFormat, step: Step, text: &str, more: usize, by: CutBy) -> Step {
    let after = after(format, &step, text, more);
    step.fault(Fault::Cut { after, by })
}

fn splice(format: WireFormat, step: Step, text: &str, more: usize) -> Step {
    let after = after(format, &step, text, more);
    step.fault(Fault::Splice { after, second: with_text() })
}

/// The same within the payload of the event after the one with this text.
fn glue(format: WireFormat, step: Step, text: &str) -> Step {
    let events = events(format, &step);
    let mut rest = events.iter().skip_while(|event| !String::from_utf8_lossy(event).contains(text)).skip(1);
    let next = String::from_utf8_lossy(rest.next().unwrap());
    let half = next.len() / 2;
    assert!(next[..half].contains("data: {"), "{next}");
    splice(format, step, text, half)
}

/// Asks once, against a provider whose first answer is this one and whose others are sound.
async fn play(format: Format, first: Step, expected: Expected, what: &str) {
    let provider = Provider::start(Script::new([first, Step::new(call_only()).always()])).await.unwrap();
    let gateway = Gateway::of(route(format, &provider)).await;
    let got = gateway.ask(format, &request(format, "go")).await;
    let what = format!("{what} in {}", format.name());
    match expected {
        Expected::Repeated => {
            got.assert_complete(format, &["write_file"], &what);
            assert_eq!(provider.calls().len(), 2, "{what}");
            assert_eq!(got.headers["x-turnstream-attempts"], "2", "{what}");
        }
        Expected::Broken => {
            got.assert_broken(format, &what);
            assert!(got.text().contains("Hello"), "{what}: {}", got.text());
            assert_eq!(provider.calls().len(), 1, "{what}");
        }
    }
}

/// How the first call of the completion can be recognised in each format.
fn call_begins(format: WireFormat) -> &'static str {
    match format {
        WireFormat::Chat => "\"tool_calls\"",
        WireFormat::Responses => "response.function_call_arguments.delta",
        WireFormat::Messages => "input_json_delta",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_repeated() {
    for (format, _) in FORMATS {
        let broken = Refusal::new(500, "server_error", "The server had an error");
        play(format, Step::new(broken), Expected::Repeated, "500").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_waited_for() {
    for (format, _) in FORMATS {
        let limited = Refusal::new(429, "rate_limit_error", "slow down").retry_after(RetryAfter::Millis(20));
        play(format, Step::new(limited), Expected::Repeated, "429").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_before_content_is_repeated() {
    for (format, wire) in FORMATS {
        for by in [CutBy::Fin, CutBy::Rst] {
            let first = Step::new(with_text());
            let opening = events(wire, &first)[0].len();
            play(
                format,
                first.fault(Fault::Cut { after: opening, by }),
                Expected::Repeated,
                "cut before content",
            )
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_in_text_ends_in_an_error() {
    for (format, wire) in FORMATS {
        for by in [CutBy::Fin, CutBy::Rst] {
            let first = cut(wire, Step::new(with_text()), "Hello", 9, by);
            play(format, first, Expected::Broken, "cut in text").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_in_arguments_ends_in_an_error_or_is_repeated() {
    for (format, wire) in FORMATS {
        let first = cut(wire, Step::new(with_text()), call_begins(wire), 30, CutBy::Fin);
        play(format, first, Expected::Broken, "cut in arguments after text").await;
        let first = cut(wire, Step::new(call_only()), call_begins(wire), 30, CutBy::Rst);
        play(format, first, Expected::Repeated, "cut in arguments").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_after_a_call_ends_in_an_error_or_is_repeated() {
    for (format, wire) in FORMATS {
        // The last event is the end marker; for responses and messages the one before it is whole too.
        let before_the_end = |step: &Step| {
            let events = events(wire, step);
            events[..events.len() - 1].iter().map(Vec::len).sum()
        };
        let (text, call) = (Step::new(with_text()), Step::new(call_only()));
        let (after_text, after_call) = (before_the_end(&text), before_the_end(&call));
        let text = text.fault(Fault::Cut { after: after_text, by: CutBy::Rst });
        play(format, text, Expected::Broken, "cut after a call, after text").await;
        let call = call.fault(Fault::Cut { after: after_call, by: CutBy::Rst });
        play(format, call, Expected::Repeated, "cut after a call").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_glued_chunk_ends_in_an_error_or_is_repeated() {
    for (format, wire) in FORMATS {
        let first = glue(wire, Step::new(with_text()), "Hello");
        play(format, first, Expected::Broken, "glued after text").await;
        let first = glue(wire, Step::new(call_only()), call_begins(wire));
        play(format, first, Expected::Repeated, "glued in a call").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_splice_between_events_ends_in_an_error_or_is_repeated() {
    for (format, wire) in FORMATS {
        let first = splice(wire, Step::new(with_text()), "Hello", 0);
        play(format, first, Expected::Broken, "spliced after text").await;
        let first = splice(wire, Step::new(call_only()), call_begins(wire), 0);
        play(format, first, Expected::Repeated, "spliced in a call").await;
    }
}

/// A stream with these bytes.
fn raw(body: &[Vec<u8>]) -> Step {
    let body = Bytes::Text(String::from_utf8(body.concat()).unwrap());
    Step::new(Reply::Raw(Raw { status: 200, content_type: "text/event-stream".to_owned(), body }))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_second_completion_leaves_after_a_finish_without_an_end_marker() {
    let first = events(WireFormat::Chat, &Step::text("The first answer."));
    let finish = first.iter().position(|event| String::from_utf8_lossy(event).contains("\"stop\"")).unwrap();
    // The second one has another id, and one chunk has its whole call.
    let call = Completion::of([Part::ToolCall {
        name: "write_file".to_owned(),
        arguments: Arguments::Given(vec!["{\"path\":\"a\"}".to_owned()]),
        id: None,
    }]);
    let chunks = events(WireFormat::Chat, &Step::new(call));
    let of_call = |event: &&Vec<u8>| String::from_utf8_lossy(event).contains("tool_calls\":[");
    let mut second: Value = chunks
        .iter()
        .filter(of_call)
        .map(|event| serde_json::from_slice(event.strip_prefix(b"data: ").unwrap()).unwrap())
        .reduce(|mut first: Value, next: Value| {
            let arguments = &next["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"];
            first["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] = arguments.clone();
            first
        })
        .unwrap();
    second["id"] = json!("chatcmpl-second");
    for blank_line in ["\n\n", "\n", ""] {
        let end = format!("data: {second}{blank_line}").into_bytes();
        let body = [&first[..=finish], &[end]].concat();
        let provider = Provider::start(Script::new([raw(&body)])).await.unwrap();
        let gateway = Gateway::of(route(Format::Chat, &provider)).await;
        let got = gateway.ask(Format::Chat, &request(Format::Chat, "go")).await;
        got.assert_complete(Format::Chat, &[], "the first answer");
        assert!(got.claims_an_end() && !got.text().contains("write_file"), "{}", got.text());
    }
    // The finish and the second one are one event, so there is no end that could leave.
    for end in ["\n\n", ""] {
        let glued = [first[finish].trim_ascii_end(), format!("\ndata: {second}{end}").as_bytes()].concat();
        let body = [&first[..finish], &[glued]].concat();
        let provider = Provider::start(Script::new([raw(&body)])).await.unwrap();
        let gateway = Gateway::of(route(Format::Chat, &provider)).await;
        let got = gateway.ask(Format::Chat, &request(Format::Chat, "go")).await;
        got.assert_broken(Format::Chat, "glued to the finish");
        assert!(!got.text().contains("write_file"), "{}", got.text());
    }
}

/// The events of a response with a text and a call, without those that have one of these words. The last one
/// is its end, and is left out too. Calls are of this kind.
fn response_without(words: &[&str], kind: &str) -> Vec<Vec<u8>> {
    let events = events(WireFormat::Responses, &Step::new(with_text()));
    let texts = events[..events.len() - 1].iter().map(|event| String::from_utf8_lossy(event).into_owned());
    let kept = texts.filter(|event| !words.iter().all(|word| event.contains(word)));
    let kept = kept.filter(|event| !event.contains("function_call_arguments"));
    let renumbered = kept.enumerate().map(|(number, event)| {
        let (name, data) = event.split_once("data: ").unwrap();
        let mut data: Value = serde_json::from_str(data).unwrap();
        data["sequence_number"] = json!(number);
        if data["item"]["type"] == "function_call" {
            data["item"]["type"] = json!(kind);
        }
        format!("{name}data: {data}\n\n").into_bytes()
    });
    renumbered.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_an_unknown_kind_or_without_its_beginning_waits_for_the_end() {
    for (words, kind) in [
        (&["response.completed"][..], "local_shell_call"),
        (&["response.completed"], "mcp_approval_request"),
        (&["output_item.added", "function_call"], "function_call"),
    ] {
        let body = response_without(words, kind);
        assert!(String::from_utf8_lossy(body.last().unwrap()).contains(kind), "the call comes last");
        let provider = Provider::start(Script::new([raw(&body)])).await.unwrap();
        let gateway = Gateway::of(route(Format::Responses, &provider)).await;
        let got = gateway.ask(Format::Responses, &request(Format::Responses, "go")).await;
        got.assert_broken(Format::Responses, kind);
        assert!(got.text().contains("Hello") && !got.text().contains(kind), "{}", got.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_and_an_error_in_a_200_are_repeated() {
    for (format, _) in FORMATS {
        let body = Bytes::Text("<html><title>502 Bad Gateway</title></html>".to_owned());
        let page = Raw { status: 200, content_type: "text/html".to_owned(), body };
        play(format, Step::new(Reply::Raw(page)), Expected::Repeated, "HTML in 200").await;
        let error = ErrorBody::new("server_error", "try again");
        let step = Step::new(with_text()).fault(Fault::Error { at_event: 1, error });
        play(format, step, Expected::Repeated, "error in 200").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_finish_ends_in_an_error() {
    for (format, _) in FORMATS {
        let step = Step::new(with_text().finished(Finish::Missing));
        play(format, step, Expected::Broken, "missing finish").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stall_is_repeated_before_content_and_an_error_after_it() {
    for (format, wire) in FORMATS {
        let step = Step::new(with_text());
        let opening = events(wire, &step)[0].len();
        let stall = |after| Fault::Stall { after, lasts_ms: None, comment_every_ms: None };
        let script = Script::new([step.fault(stall(opening)), Step::new(call_only()).always()]);
        let provider = Provider::start(script).await.unwrap();
        let quick =
            turnstream_provider::Route { first_event: Duration::from_secs(3), ..route(format, &provider) };
        let got = Gateway::of(quick).await.ask(format, &request(format, "go")).await;
        got.assert_complete(format, &["write_file"], "stall before content");
        // A machine under load may need more than one.
        assert!(provider.calls().len() >= 2);

        let step = Step::new(with_text());
        let after_text = after(wire, &step, "Hello", 0);
        let script = Script::new([step.fault(stall(after_text)), Step::new(call_only()).always()]);
        let provider = Provider::start(script).await.unwrap();
        let quick =
            turnstream_provider::Route { silence: Duration::from_secs(2), ..route(format, &provider) };
        let got = Gateway::of(quick).await.ask(format, &request(format, "go")).await;
        got.assert_broken(format, "stall after text");
        assert_eq!(provider.calls().len(), 1);
        provider.wait_for_ends(1, LONG).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_may_take_longer_than_the_first_event() {
    let step = Step::new(call_only());
    let within = after(WireFormat::Chat, &step, call_begins(WireFormat::Chat), 0);
    let stall = Fault::Stall { after: within, lasts_ms: Some(6000), comment_every_ms: None };
    let provider = Provider::start(Script::new([step.fault(stall).always()])).await.unwrap();
    let quick = turnstream_provider::Route {
        first_event: Duration::from_secs(4),
        // A machine under load may need more than one.
        attempts: 20,
        ..route(Format::Chat, &provider)
    };
    let got = Gateway::of(quick).await.ask(Format::Chat, &request(Format::Chat, "go")).await;
    got.assert_complete(Format::Chat, &["write_file"], "a slow call");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_blank_line_is_repaired_without_loss() {
    for (format, wire) in FORMATS {
        let step = Step::new(with_text());
        let plain = events(wire, &step);
        let text = plain.iter().position(|event| String::from_utf8_lossy(event).contains("Hello")).unwrap();
        let step = step.fault(Fault::MissingBlankLine { after_event: text });
        let provider = Provider::start(Script::new([step])).await.unwrap();
        let gateway = Gateway::of(route(format, &provider)).await;
        let got = gateway.ask(format, &request(format, "go")).await;
        got.assert_complete(format, &["write_file"], "missing blank line");
        let data = |body: &str| body.lines().filter(|line| line.starts_with("data:")).count();
        let expected = plain.iter().map(|event| data(&String::from_utf8_lossy(event))).sum::<usize>();
        assert_eq!(data(&got.text()), expected, "{}", got.text());
        assert_eq!(got.text().matches("\n\n").count(), plain.len(), "{}", got.text());
        assert_eq!(provider.calls().len(), 1);
    }
}
