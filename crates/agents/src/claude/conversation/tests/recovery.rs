//! A gateway is killed, and the next one reads how the work ended from the transcript of the real agent.

use super::playback::{Capture, Desk};
use crate::claude::transcript::{ProcessEnd, Transcript};
use crate::playback::{End, Fault};
use serde_json::{Value, json};
use std::path::Path;
use turnstream_adapter::Fate;
use turnstream_model::event::ErrorClass::InvalidRequest;
use turnstream_model::event::StopReason::EndTurn;
use turnstream_model::fold::Item;
use turnstream_testkit::lawful::Tail;

const DONE: End = End::Completed(EndTurn);
/// The prompts of the transcripts, by the names that they were sent under.
const PIPES_LOST: &str = "d9478856-8b9e-4919-b79d-69c4ce7db56e";
const KILLED_MID_TOOL: &str = "8775889c-4a17-4c2f-b6ab-b2d105f1b9e2";
const INTERRUPTED_TOOL: &str = "ddf29721-7542-49b5-98d2-198fb22d2aa8";
const INTERRUPTED_TEXT: &str = "9a23dd50-9e31-4f59-aabb-471553763cc6";
const PROVIDER_ERROR: &str = "7a22cfb4-1c45-4285-b2b6-2c052c9aa647";

fn stored(name: &str) -> Vec<u8> {
    let path = format!("../../fixtures/claude/transcripts/{name}.jsonl");
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The items as a client sees them, without the ids of the log.
fn items(desk: &Desk) -> Vec<Value> {
    let shown = |item: &Item| {
        let tool = item.tool.as_ref().map(|tool| serde_json::to_value(tool).unwrap());
        json!([item.native_id, format!("{:?}", item.state), item.incomplete, item.text, tool])
    };
    desk.state().items.iter().map(shown).collect()
}

/// A prompt was sent, nothing of it was seen, and the gateway was killed.
fn recovered(prompt: &str, transcript: &[u8], end: ProcessEnd) -> (Desk, Vec<Fate>) {
    let mut desk = Desk::new();
    desk.say(prompt, "Read README.md and add a line");
    let fates = desk.recover(|work| Transcript::parse(transcript).recover(work, end));
    desk.assert_lawful(Tail::Live);
    (desk, fates)
}

#[test]
fn a_turn_that_was_cut_anywhere_is_completed_from_the_transcript_as_if_it_had_been_streamed() {
    let capture = Capture::load("n_two_turns");
    let stored = stored("n_two_turns");
    let transcript = Transcript::parse(&stored);
    let whole = items(&capture.play(Fault::None));
    for place in 0..=capture.outputs() {
        let mut desk = capture.play_open(Fault::Cut(place));
        desk.recover(|work| transcript.recover(work, ProcessEnd::Orderly));
        desk.assert_lawful(Tail::Settled);
        let ends = desk.ends();
        assert!(!ends.is_empty() && ends.iter().all(|end| *end == DONE), "at {place}: {ends:?}");
        let items = items(&desk);
        assert_eq!(items, whole[..items.len()], "at {place}");
        let usage = &desk.state().turns[0].usage;
        assert_eq!(usage.as_ref().and_then(|usage| usage.output), Some(30), "at {place}");
    }
}

#[test]
fn an_agent_that_lost_its_pipes_has_finished_its_turn() {
    let (desk, fates) = recovered(PIPES_LOST, &stored("pipes_lost"), ProcessEnd::Orderly);
    assert_eq!((desk.ends(), fates), (vec![DONE], vec![Fate::Taken]));
    let texts: Vec<Option<String>> = desk.state().items.iter().map(|item| item.text.clone()).collect();
    assert_eq!(texts, [Some("Running.".to_owned()), None, Some("It said one and two.".to_owned())]);
}

#[test]
fn an_agent_that_was_killed_in_a_tool_leaves_a_lost_turn_and_an_unknown_tool() {
    let (desk, fates) = recovered(KILLED_MID_TOOL, &stored("killed_mid_tool"), ProcessEnd::Unknown);
    assert_eq!((desk.ends(), fates), (vec![End::Lost], vec![Fate::Taken]));
    let states: Vec<String> = desk.state().items.iter().map(|item| format!("{:?}", item.state)).collect();
    assert_eq!(states, ["Completed", "Unknown"]);
}

#[test]
fn an_interrupted_turn_is_cancelled_and_its_tool_may_have_run() {
    let (desk, _) = recovered(INTERRUPTED_TOOL, &stored("interrupted_tool"), ProcessEnd::Orderly);
    assert_eq!(desk.ends(), [End::Cancelled]);
    let states: Vec<String> = desk.state().items.iter().map(|item| format!("{:?}", item.state)).collect();
    assert_eq!(states, ["Completed", "Unknown"]);
}

#[test]
fn a_text_that_was_interrupted_stays_cut_off() {
    let (desk, _) = recovered(INTERRUPTED_TEXT, &stored("interrupted_text"), ProcessEnd::Orderly);
    assert_eq!(desk.ends(), [End::Cancelled]);
    let state = desk.state();
    let text = (state.items[0].text.as_deref(), state.items[0].incomplete);
    assert_eq!(text, (Some("part0 part1 part2 part3 part4 part5 "), true));
}

#[test]
fn a_failure_of_the_provider_is_found_with_its_status() {
    let (desk, _) = recovered(PROVIDER_ERROR, &stored("provider_error"), ProcessEnd::Orderly);
    assert_eq!(desk.ends(), [End::Failed(InvalidRequest, Some(400))]);
    assert_eq!(desk.state().items, [], "an error is no answer");
}

#[test]
fn a_prompt_that_is_not_stored_was_never_seen_only_if_the_agent_ended_by_itself() {
    let transcript = stored("pipes_lost");
    let (_, fates) = recovered("00000000-0000-4000-8000-000000000000", &transcript, ProcessEnd::Orderly);
    assert_eq!(fates, [Fate::NeverSeen]);
    let (_, fates) = recovered("00000000-0000-4000-8000-000000000000", &transcript, ProcessEnd::Unknown);
    assert_eq!(fates, [Fate::Unknown]);
}

/// The last lines of a killed process are missing, and the very last one is cut.
#[test]
fn a_transcript_may_end_at_any_byte() {
    let transcript = stored("pipes_lost");
    let step = if std::env::var_os("TURNSTREAM_FULL").is_some() { 1 } else { 37 };
    for length in (0..transcript.len()).step_by(step) {
        let (desk, fates) = recovered(PIPES_LOST, &transcript[..length], ProcessEnd::Unknown);
        let ends = desk.ends();
        match fates.as_slice() {
            [Fate::Taken] => assert!(ends == [DONE] || ends == [End::Lost], "{length}: {ends:?}"),
            [Fate::Unknown] => assert_eq!(ends, [], "{length}"),
            _ => panic!("{length}: {fates:?}"),
        }
    }
}

/// A compaction stores the last answer a second time.
#[test]
fn an_answer_that_is_stored_twice_is_one_item() {
    let prompt = "5398cb38-8f6e-41c1-8320-a167e45f495d";
    let (desk, _) = recovered(prompt, &stored("compacted"), ProcessEnd::Orderly);
    assert_eq!(desk.ends(), [DONE]);
    let texts: Vec<Option<String>> = desk.state().items.iter().map(|item| item.text.clone()).collect();
    assert_eq!(texts, [Some("Two.".to_owned())]);
}
