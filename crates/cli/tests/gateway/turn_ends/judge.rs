//! Judges how the turns of an exit ended, and words it as a cell of the page.

use super::drive::Play;
use super::subject::Text;
use crate::support::PATIENCE;
use serde_json::Value;
use std::time::{Duration, Instant};
use turnstream_testkit::lawful::{Tail, assert_lawful};

/// The cell of an exit that was played to its end. Panics if the log breaks a law, if a turn has no end or
/// two, or if a completed text is not what the agent has stored. A client of opencode's API must see one end
/// too.
pub(super) fn cell(play: &Play<'_>) -> String {
    let begun = Instant::now();
    let (export, events, snapshot) = loop {
        let (export, snapshot) = (play.export(), play.snapshot());
        let events: Vec<Value> =
            export.lines().skip(1).map(|line| turnstream_json::from_str(line).unwrap()).collect();
        // An agent may name the session after its turn.
        if events.last().unwrap()["seq"] == snapshot["seq"] {
            break (export, events, snapshot);
        }
        assert!(begun.elapsed() < PATIENCE, "the export is not whole: {export}");
    };
    assert_lawful(export.lines(), Tail::Settled);
    let turns: Vec<String> = of_type(&events, "turn.started").map(|start| turn(&events, start)).collect();
    assert_eq!(of_type(&events, "turn.ended").count(), turns.len(), "{export}");
    play.assert_idle_once_for_clients_of_opencode(turns.len());
    format!("{}; {}", turns.join(", then "), texts(play, &snapshot))
}

/// How a turn ended, in words. It has exactly one end.
fn turn(events: &[Value], start: &Value) -> String {
    let ends: Vec<&Value> =
        of_type(events, "turn.ended").filter(|end| end["turn"] == start["turn"]).collect();
    let [end] = &ends[..] else { panic!("{} ends of {start}: {ends:?}", ends.len()) };
    let outcome = end["outcome"].as_str().unwrap();
    let error = &end["error"];
    let details: Vec<String> = [&end["stop_reason"], &error["class"], &error["status"]]
        .into_iter()
        .filter(|detail| !detail.is_null())
        .map(|detail| detail.as_str().map_or_else(|| detail.to_string(), str::to_owned))
        .collect();
    let origin = match start["origin"].as_str().unwrap() {
        "prompt" => String::new(),
        other => format!("{other}: "),
    };
    match details.is_empty() {
        true => format!("{origin}`{outcome}`"),
        false => format!("{origin}`{outcome}` ({})", details.join(", ")),
    }
}

/// Compares what ended `completed` with what the agent has stored, one by one.
fn texts(play: &Play<'_>, snapshot: &Value) -> &'static str {
    let items = snapshot["items"].as_array().unwrap();
    let completed: Vec<Text> =
        items.iter().filter(|item| item["state"] == "completed").filter_map(text).collect();
    if completed.is_empty() {
        return "no text";
    }
    let native_id = snapshot["session"]["native_id"].as_str().unwrap();
    let begun = Instant::now();
    loop {
        let stored = play.stored(native_id);
        let missing = without(&completed, &stored);
        if missing.is_empty() {
            return "equal";
        }
        // An agent may write what it has said a moment later.
        assert!(begun.elapsed() < PATIENCE, "the agent has not stored {missing:#?}; it has {stored:#?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The texts that are not among others, where each of those counts once.
fn without(texts: &[Text], others: &[Text]) -> Vec<Text> {
    let mut others = others.to_vec();
    let is_missing = |text: &&Text| match others.iter().position(|other| other == *text) {
        Some(place) => {
            others.remove(place);
            false
        }
        None => true,
    };
    texts.iter().filter(is_missing).cloned().collect()
}

/// The text of a completed item, if it is the agent's own and has one.
fn text(item: &Value) -> Option<Text> {
    let words = || item["text"].as_str().unwrap().to_owned();
    match (item["kind"].as_str()?, item["role"].as_str()) {
        ("message", Some("assistant")) => Some(Text::Message(words())),
        ("reasoning", _) => Some(Text::Reasoning(words())),
        ("tool", _) => {
            item["tool"]["output"]["output"].as_str().map(|result| Text::Result(result.to_owned()))
        }
        _ => None,
    }
}

fn of_type<'a>(events: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["type"] == kind)
}
