//! Correct streams.

use crate::corpus::{completions, cut_short, pairs, rich, stream};
use crate::reading::{read_in_every_split, read_stream};
use std::path::Path;
use turnstream_llm::{
    FinishMeaning, Format, Furthest, Head, Item, Profile, Reader, ReasoningData, StreamEnd, StreamEvent,
    Transport, Usage, WithheldReason,
};

#[test]
fn whole_streams_commit_all_of_their_items_and_need_no_repair() {
    for pair in pairs() {
        for stream in [&pair.first, &pair.second] {
            let read = read_stream(stream);
            let name = &stream.name;
            assert_eq!(read.outcome.ended, StreamEnd::Complete, "{name}");
            assert_eq!(read.anomalies(), [], "{name}");
            assert_eq!(read.evidence(), [], "{name}");
            assert_eq!(read.outcome.repairs.total(), 0, "{name}: {:?}", read.outcome.repairs);
            assert_eq!(read.messages().concat(), read.text(), "{name}");
            assert_eq!(read.runnable(), read.calls(), "{name}");
            assert!(read.committed_as_said(), "{name}");
        }
    }
}

#[test]
fn the_three_formats_say_the_same_of_the_same_completion() {
    for format in Format::ALL {
        let stream = stream(format, "rich", &rich(), false);
        let read = read_in_every_split(format, &stream.profile, &Head::stream(), &stream.bytes());
        let name = format.name();
        assert_eq!(
            read.text(),
            "I read both:\ndata: {\"id\":\"chatcmpl-x\",\"choices\":[]}\n\n[DONE]\nand then 那 write."
        );
        assert!(read.reasoning().starts_with("Two files. \"data:{\""), "{name}");
        let calls: Vec<_> = read.calls().into_iter().map(|(_, name, arguments)| (name, arguments)).collect();
        assert_eq!(
            calls,
            [
                ("read", "{\"limit\":10,\"path\":\"/srv/那/notes \\\"old\\\".txt\"}"),
                ("write", "{\"path\":\"/srv/a\",\"text\":\"data: {\\\"a\\\":1}\\n\\ndata: [DONE]\\n\\n\"}"),
            ],
            "{name}"
        );
        assert!(read.calls().iter().all(|(id, ..)| id.is_some()), "{name}");
        let usage = read.outcome.usage.expect("usage was asked for");
        assert_eq!((usage.input, usage.cached, usage.output), (Some(120), Some(40), Some(33)), "{name}");
        let finish = read.outcome.finish.as_ref().map(|finish| finish.meaning);
        assert_eq!(finish, Some(FinishMeaning::ToolCalls), "{name}");
        assert_eq!(read.outcome.delivered.furthest(), Furthest::CommittedCall, "{name}");
        assert!(read.outcome.identity.id.is_some(), "{name}");
        assert_eq!(read.outcome.identity.model.as_deref(), Some("scripted-1"), "{name}");
    }
}

#[test]
fn what_a_provider_does_not_say_about_tokens_is_unknown() {
    let stream = stream(Format::Messages, "rich", &rich(), false);
    let usage = read_stream(&stream).outcome.usage;
    let known = Usage {
        input: Some(120),
        cached: Some(40),
        cache_written: Some(0),
        output: Some(33),
        reasoning: None,
    };
    assert_eq!(usage, Some(known));
}

#[test]
fn a_thinking_block_keeps_its_signature() {
    let stream = stream(Format::Messages, "rich", &rich(), false);
    let read = read_stream(&stream);
    let Some(Item::Reasoning { kept, .. }) = read.outcome.committed.first() else { panic!("{read:?}") };
    assert!(
        matches!(kept.as_slice(), [ReasoningData::Signature(signature)] if signature.starts_with("sig")),
        "{kept:?}"
    );
}

#[test]
fn a_step_that_ran_out_of_tokens_runs_none_of_its_calls() {
    for format in Format::ALL {
        let stream = stream(format, "cut short", &cut_short(), false);
        let read = read_stream(&stream);
        let name = format.name();
        assert_eq!(read.outcome.ended, StreamEnd::Complete, "{name}");
        assert_eq!(
            read.outcome.finish.as_ref().map(|finish| finish.meaning),
            Some(FinishMeaning::Length),
            "{name}"
        );
        assert_eq!(read.runnable(), [], "{name}");
        let why: Vec<_> = read.outcome.withheld.iter().map(|call| call.reason).collect();
        assert_eq!(why, [WithheldReason::Finish; 2], "{name}");
        assert_eq!(read.told_calls(), [], "{name}: nobody was told of a call that may run");
    }
}

/// A call is complete at its `output_item.done`, but not committed before the step is over.
#[test]
fn a_call_of_a_response_is_committed_at_the_end_of_its_step_and_not_when_it_is_whole() {
    let stream = stream(Format::Responses, "rich", &rich(), false);
    let (end, before) = stream.events.split_last().expect("events");
    let mut reader = Reader::new(Format::Responses, &stream.profile, Head::stream());
    let mut said = Vec::new();
    reader.push(&before.concat(), &mut said);
    let is_call = |said: &StreamEvent| matches!(said, StreamEvent::Committed(Item::Call(_)));
    assert!(!said.iter().any(is_call), "{said:?}");
    reader.push(end, &mut said);
    assert_eq!(said.iter().filter(|said| is_call(said)).count(), 2);
    // A step that is cut after its calls is truncated to them.
    let mut cut = Reader::new(Format::Responses, &stream.profile, Head::stream());
    let mut said = Vec::new();
    cut.push(&before.concat(), &mut said);
    let outcome = cut.end(Transport::Broken, &mut said);
    assert_eq!((outcome.ended.clone(), outcome.runnable().len()), (StreamEnd::Incomplete, 2));
}

/// Streams recorded from the scripted provider. The fuzz targets start from them too.
#[test]
fn recorded_streams_are_complete() {
    for format in Format::ALL {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/llm").join(format.name());
        for (name, completion, _) in completions().into_iter().filter(|(name, ..)| *name != "mixed") {
            let bytes = std::fs::read(folder.join(format!("{name}.sse"))).expect("a recorded stream");
            let recorded = read_in_every_split(format, &Profile::UNKNOWN, &Head::stream(), &bytes);
            let rendered = read_stream(&stream(format, name, &completion, false));
            assert_eq!(recorded, rendered, "{} {name}", format.name());
        }
    }
}
