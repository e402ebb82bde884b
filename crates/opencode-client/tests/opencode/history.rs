//! What is missed in a gap is read from the status and the stored messages. opencode's own history of
//! durable events (`/sync/history`) holds nothing more.

use crate::capture::Capture;
use crate::playback::Fault;
use crate::slow::summary;
use serde_json::Value;
use turnstream_adapter::Observed;
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;
use turnstream_opencode_client::conversation::{Answer, Budget, Call, Conversation, Pace, SessionSnapshot};
use turnstream_opencode_client::translate::Stored;

fn budget() -> Budget {
    Budget { steps: None, ..Budget::default() }
}

/// The captured answer of `POST /sync/history` for what came after the gap began, as events.
fn history() -> Vec<Value> {
    let calls = Capture::calls("n2-durable-replay");
    let asked = calls.iter().rfind(|call| call["request"]["path"] == "/sync/history").unwrap();
    let event = |entry: &Value| {
        let kind = entry["type"].as_str().unwrap().trim_end_matches(".1");
        serde_json::json!({"id": entry["id"], "type": kind, "properties": entry["data"]})
    };
    asked["response"]["body"].as_array().unwrap().iter().map(event).collect()
}

#[test]
fn a_gap_that_is_closed_from_the_store_gives_the_log_that_the_history_gives() {
    let capture = Capture::load("n2-durable-replay");
    let (history, events) = (history(), capture.events());
    let from = events.iter().position(|event| event["id"] == history[0]["id"]).unwrap();
    let whole = summary(&capture.play_with(&Fault::None, budget()).1);
    let from_store = summary(&capture.play_with(&Fault::Cut(from, events.len()), budget()).1);
    // The history has no idle: that the session rests has to be asked for all the same.
    let idles = events
        .iter()
        .filter(|event| event["type"] == "session.idle" || event["properties"]["status"]["type"] == "idle");
    let replayed = events[..from].iter().chain(&history).chain(idles);
    let from_history =
        summary(&capture.with_stream(replayed.cloned().collect()).play_with(&Fault::None, budget()).1);
    assert_eq!(from_store, from_history);
    assert_eq!(from_store, whole);
}

/// The three streams of n: one that never broke, and one that was cut and taken up again.
#[test]
fn a_stream_that_was_taken_up_again_gives_the_log_of_one_that_never_broke() {
    let capture = Capture::load("n-disconnect.full");
    let whole = summary(&capture.play_with(&Fault::None, budget()).1);
    let (before, after) = (Capture::load("n-disconnect"), Capture::load("n-disconnect.reconnect"));
    let place = |event: &Value| capture.events().iter().position(|known| known["id"] == event["id"]);
    let from = before.events().iter().filter_map(place).max().unwrap() + 1;
    let to = after.events().iter().filter_map(place).min().unwrap();
    assert!(from < to, "something was missed");
    assert_eq!(summary(&capture.play_with(&Fault::Cut(from, to), budget()).1), whole);
}

/// A plan is told of by an event that no store and no history has; the call that wrote it has it too.
#[test]
fn a_plan_that_was_written_in_a_gap_is_shown() {
    let capture = Capture::load("s1-todo");
    let whole = summary(&capture.play_with(&Fault::None, budget()).1);
    let events = capture.events();
    let told: Vec<usize> =
        (0..events.len()).filter(|index| events[*index]["type"] == "todo.updated").collect();
    assert!(told.len() > 1);
    for (from, to) in [(told[0], events.len()), (told[1], told[1] + 4), (told[1], events.len())] {
        assert_eq!(summary(&capture.play_with(&Fault::Cut(from, to), budget()).1), whole, "{from} to {to}");
    }
}

/// A part that another client takes back is a durable event; after a gap it is seen by its absence.
#[test]
fn a_part_that_was_taken_back_in_a_gap_is_gone() {
    let capture = Capture::load("s7-revert-removes");
    let removed = capture.events().iter().position(|event| event["type"] == "message.part.removed").unwrap();
    let capture = capture.with_stream(capture.events()[..=removed].to_vec());
    let heard = capture.play(&Fault::None);
    let missed = capture.play(&Fault::Cut(removed, removed + 1));
    assert_eq!(missed, heard);
    assert_eq!(heard.texts.len(), 1, "{:?}", heard.texts);
}

/// A revert removes messages by their names, and a log knows only their parts. Another owner asks what
/// there is.
#[test]
fn what_is_taken_back_after_a_crash_is_taken_back_in_the_log() {
    let capture = Capture::load("s7-revert-removes");
    let stored = capture.stored_texts();
    let removed: Vec<usize> = (0..capture.events().len())
        .filter(|index| capture.events()[*index]["type"] == "message.removed")
        .collect();
    assert_eq!(removed.len(), 3);
    let mut played = 0;
    for at in removed[0] - 6..removed[1] {
        let run = capture.play(&Fault::Crash(at, at));
        played += usize::from(!run.unplayable);
        assert!(run.unplayable || run.texts == stored, "at {at}: {:?}", run.texts);
    }
    assert!(played > 3);
    let run = capture.play(&Fault::Crash(removed[2] - 3, removed[2] - 3));
    assert_eq!(run.texts, stored);
}

/// Another client may take back what is long over while the stream is cut.
#[test]
fn a_message_of_an_older_turn_that_was_taken_back_in_a_gap_is_gone() {
    let capture = Capture::load("s7-revert-removes");
    let stored = capture.stored();
    let (first, taken_back, last) = (&stored[0], &stored[1], &stored[2..]);
    let parts: Vec<Key> = taken_back.parts.iter().map(|part| Key::from(part.id.as_str())).collect();
    assert!(!parts.is_empty() && !last.is_empty());
    let gone_after_a_gap = |messages: Vec<Stored>| {
        let now = Time(1_794_770_000_000);
        let mut conversation = Conversation::new(&first.info.session, Pace::default(), budget(), now);
        conversation.continue_session();
        conversation.connected(None, now);
        assert_eq!(conversation.next_call(), Some(Call::NewestMessages));
        conversation.answer(Answer::NewestMessages(stored.clone()), now);
        conversation.connected(Some("cut".to_owned()), now);
        assert_eq!(conversation.next_call(), Some(Call::Snapshot { children: Vec::new() }));
        conversation.answer(
            Answer::Snapshot(Ok(Box::new(SessionSnapshot { messages, ..SessionSnapshot::default() }))),
            now,
        );
        let mut gone = Vec::new();
        while let Some(observed) = conversation.next_observed() {
            if let Observed::Signal(Signal::ItemRemoved(key)) = observed {
                gone.push(key);
            }
        }
        gone
    };
    let without = [std::slice::from_ref(first), last].concat();
    assert_eq!(gone_after_a_gap(without), parts);
    assert_eq!(gone_after_a_gap(stored.clone()), []);
    // Not everything that is older was taken back if it is not handed out.
    assert_eq!(gone_after_a_gap(last.to_vec()), []);
}
