//! What the reader does not understand is kept on its item, not dropped.

use crate::corpus::Stream;
use crate::dialects::events;
use crate::reading::Read;
use crate::rows::{chunks, of, payload, read};
use serde_json::{Value, json};
use turnstream_fake_provider::{Asked, Completion, Identity, Part, Step, render};
use turnstream_llm::{Extra, Format, Head, Item, Profile, StreamEnd, StreamEvent};

fn extra_of(item: &Item) -> &Extra {
    match item {
        Item::Message { extra, .. } | Item::Reasoning { extra, .. } | Item::Other { extra, .. } => extra,
        Item::Call(call) => &call.extra,
    }
}

fn unread(read: &Read) -> Vec<Vec<Value>> {
    let parsed = |raw: &String| serde_json::from_str(raw).expect("JSON");
    read.outcome.committed.iter().map(|item| extra_of(item).unread.iter().map(parsed).collect()).collect()
}

#[test]
fn deltas_of_unknown_types_are_kept_on_their_block() {
    let mut stream = of(Format::Messages, [Part::text("It is so.")]);
    let at = crate::rows::event_with(&stream, "text_delta") + 1;
    let citation = json!({"type": "citations_delta", "citation": {"cited_text": "so it is", "index": 1.50}});
    let event = json!({"type": "content_block_delta", "index": 0, "delta": citation});
    stream.events.insert(at, format!("event: content_block_delta\ndata: {event}\n\n").into_bytes());
    let read = read(&stream);
    assert_eq!((read.outcome.ended.clone(), read.messages()), (StreamEnd::Complete, vec!["It is so."]));
    assert_eq!(unread(&read), [vec![citation]]);
    let told = read.said.iter().filter(|said| matches!(said, StreamEvent::Unread { .. })).count();
    assert_eq!(told, 1);
}

#[test]
fn unknown_members_of_chat_deltas_and_calls_are_kept() {
    let usual = of(Format::Chat, [Part::text("See."), Part::tool_call("read", json!({"path": "/srv/a"}))]);
    let signature = json!({"extra_content": {"google": {"thought_signature": "c2ln"}}});
    let marked = chunks(&usual, |chunk| {
        let Some(delta) = chunk.pointer_mut("/choices/0/delta") else { return };
        if delta["content"] == json!("See.") {
            delta["annotations"] = json!([{"url": "https://example.org"}]);
        }
        if delta["tool_calls"][0]["id"].is_string() {
            delta["tool_calls"][0]["extra_content"] = signature["extra_content"].clone();
        }
    });
    let read = read(&marked);
    assert_eq!(read.outcome.ended, StreamEnd::Complete);
    let annotations = json!({"annotations": [{"url": "https://example.org"}]});
    assert_eq!(unread(&read), [vec![annotations], vec![signature]]);
}

/// A request repeats what is on a call as a part of the call, where members of the message are refused.
#[test]
fn members_of_a_delta_are_never_members_of_a_call() {
    let usual = of(Format::Chat, [Part::tool_call("read", json!({"path": "/srv/a"}))]);
    for metadata in [json!({"vertex": {"region": "x"}}), json!("x")] {
        let marked = chunks(&usual, |chunk| {
            let Some(delta) = chunk.pointer_mut("/choices/0/delta") else { return };
            if delta["tool_calls"][0]["id"].is_string() {
                delta["provider_metadata"] = metadata.clone();
                delta["tool_calls"][0]["extra_content"] = json!({"google": {"thought_signature": "c2ln"}});
            }
        });
        let read = read(&marked);
        let [Item::Other { kind, raw, .. }, Item::Call(call)] = read.outcome.committed.as_slice() else {
            panic!("{read:?}")
        };
        let raw: Value = serde_json::from_str(raw).expect("JSON");
        assert_eq!((kind.as_str(), raw), ("delta", json!([{"provider_metadata": metadata}])));
        assert_eq!(call.extra.unread, [r#"{"extra_content":{"google":{"thought_signature":"c2ln"}}}"#]);
    }
}

/// A chat with one text, which is sent as this part.
fn with_part(part: &str) -> Stream {
    let usual = of(Format::Chat, [Part::text("hi")]);
    let events = usual.events.iter().map(|event| {
        let text = String::from_utf8(event.clone()).expect("UTF-8");
        text.replace(r#""content":"hi""#, &format!(r#""content":[{part}]"#)).into_bytes()
    });
    Stream { events: events.collect(), ..usual.clone() }
}

/// A `type` that is no text, or that comes twice, loses nothing.
#[test]
fn a_part_with_any_type_is_read() {
    for part in [r#"{"type":7,"text":"hi"}"#, r#"{"type":"text","type":"text","text":"hi"}"#] {
        let read = read(&with_part(part));
        assert_eq!((&read.outcome.ended, read.messages()), (&StreamEnd::Complete, vec!["hi"]), "{part}");
    }
    let read = read(&with_part(r#"{"type":7,"text":"hi"}"#));
    assert_eq!(unread(&read), [vec![json!({"content": [{"type": 7, "text": "hi"}]})]]);
}

#[test]
fn unknown_members_of_parts_and_parts_without_a_type_are_kept() {
    for part in [
        r#"{"type":"text","text":"hi","citations":[{"url":"https://example.org"}]}"#,
        r#"{"text":"hi"},{"image_url":{"url":"https://example.org"}}"#,
        r#"{"type":"text","text":"hi"},{"type":"thinking","thinking":[{"type":"reference","ids":[1]}]}"#,
    ] {
        let read = read(&with_part(part));
        assert_eq!((&read.outcome.ended, read.messages()), (&StreamEnd::Complete, vec!["hi"]), "{part}");
        let content: Value = serde_json::from_str(&format!("[{part}]")).expect("JSON");
        assert_eq!(unread(&read), [vec![json!({"content": content})]], "{part}");
    }
    assert_eq!(unread(&read(&with_part(r#"{"text":"hi"}"#))), [Vec::<Value>::new()]);
}

#[test]
fn unknown_members_of_a_function_are_kept_on_its_call() {
    let usual = of(Format::Chat, [Part::tool_call("read", json!({"path": "/srv/a"}))]);
    let marked = chunks(&usual, |chunk| {
        let Some(call) = chunk.pointer_mut("/choices/0/delta/tool_calls/0") else { return };
        if call["id"].is_string() {
            call["function"]["signature"] = json!("c2ln");
        }
    });
    let read = read(&marked);
    assert_eq!(read.outcome.ended, StreamEnd::Complete);
    assert_eq!(unread(&read), [vec![json!({"function": {"signature": "c2ln"}})]]);
}

/// Each first delta of a block, and what is kept of it.
#[test]
fn unknown_members_of_message_deltas_and_deltas_without_a_type_are_kept() {
    let usual = of(Format::Messages, [Part::text("hi")]);
    for (more, kept) in [
        (
            json!({"type": "text_delta", "text": "hi", "citations": [{"a": 1}], "token": 7}),
            json!({"citations": [{"a": 1}]}),
        ),
        (json!({"text": "hi", "citation": {"a": 1}}), json!({"citation": {"a": 1}})),
        (json!({"type": "text_delta", "text": "hi", "thinking": "hm"}), json!({"thinking": "hm"})),
    ] {
        let marked = events(&usual, |event| {
            if event["delta"]["text"] == "hi" {
                event["delta"] = more.clone();
            }
        });
        let read = read(&marked);
        assert_eq!((&read.outcome.ended, read.messages()), (&StreamEnd::Complete, vec!["hi"]), "{more}");
        assert_eq!(unread(&read), [vec![kept]], "{more}");
    }
    assert_eq!(unread(&read(&usual)), [Vec::<Value>::new()]);
}

#[test]
fn ids_and_unknown_members_of_response_items_are_kept() {
    let parts = [Part::reasoning("Hm."), Part::text("See."), Part::tool_call("read", json!({"path": "/a"}))];
    let usual = of(Format::Responses, parts);
    let ids: Vec<String> = usual
        .events
        .iter()
        .map(|event| payload(event))
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| event["item"]["id"].as_str().expect("an id").to_owned())
        .collect();
    let marked = events(&usual, |event| {
        if event["type"] == "response.output_item.done" && event["item"]["type"] == "message" {
            event["item"]["phase"] = json!("commentary");
        }
    });
    let read = read(&marked);
    assert_eq!(read.outcome.ended, StreamEnd::Complete);
    let kept: Vec<_> = read.outcome.committed.iter().filter_map(|item| extra_of(item).id.clone()).collect();
    assert_eq!(kept, ids);
    let phases = unread(&read).into_iter().flatten().filter(|unread| unread["phase"] == "commentary").count();
    assert_eq!(phases, 1);
}

#[test]
fn an_answer_of_unknown_members_only_is_not_an_empty_one() {
    let usual = of(Format::Chat, [Part::text("See.")]);
    let images = chunks(&usual, |chunk| {
        if let Some(delta) = chunk.pointer_mut("/choices/0/delta").and_then(Value::as_object_mut)
            && delta.remove("content").is_some_and(|content| content == "See.")
        {
            delta.insert("images".to_owned(), json!([{"type": "image_url"}]));
        }
    });
    let read = read(&images);
    let [Item::Other { kind, raw, .. }] = read.outcome.committed.as_slice() else { panic!("{read:?}") };
    assert_eq!((kind.as_str(), raw.as_str()), ("delta", r#"[{"images":[{"type":"image_url"}]}]"#));
}

#[test]
fn completions_of_the_api_before_chat_are_read() {
    let usual = of(Format::Chat, [Part::text("It is so.")]);
    let legacy = chunks(&usual, |chunk| {
        let Some(choice) = chunk.pointer_mut("/choices/0").and_then(Value::as_object_mut) else { return };
        let delta = choice.remove("delta").unwrap_or_default();
        choice.insert("text".to_owned(), json!(delta["content"].as_str().unwrap_or_default()));
    });
    let read = read(&legacy);
    assert_eq!((read.outcome.ended.clone(), read.messages()), (StreamEnd::Complete, vec!["It is so."]));
}

#[test]
fn a_completion_that_was_not_streamed_is_an_answer() {
    let parts = [Part::text("I look."), Part::tool_call("read", json!({"path": "/srv/a"}))];
    let completion = Completion::of(parts);
    for format in Format::ALL {
        let asked = Asked { model: "scripted-1".to_owned(), stream: false, ..Asked::default() };
        let identity = Identity { serial: 1, created: 1, asked };
        let step = Step::new(completion.clone());
        let body = render(crate::corpus::wire(format), &step, &identity).expect("an answer").body();
        let head = Head { status: 200, content_type: Some("application/json".to_owned()) };
        let read = crate::reading::read_in_every_split(format, &Profile::UNKNOWN, &head, &body);
        assert_eq!(
            (&read.outcome.ended, read.messages()),
            (&StreamEnd::Complete, vec!["I look."]),
            "{format:?}"
        );
        let calls: Vec<_> = read.runnable().into_iter().map(|(_, name, input)| (name, input)).collect();
        assert_eq!(calls, [("read", r#"{"path":"/srv/a"}"#)], "{format:?}");
        // Half of it is none.
        let half =
            crate::reading::read_in_every_split(format, &Profile::UNKNOWN, &head, &body[..body.len() / 2]);
        assert!(matches!(half.outcome.ended, StreamEnd::NotAStream(_)), "{format:?}");
        assert_eq!(half.outcome.committed, []);
    }
}
