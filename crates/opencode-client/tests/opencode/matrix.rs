//! Every capture with faults: any one event dropped, any one repeated, the stream cut anywhere and taken up
//! again, an idle that comes after the next prompt. Each ends as it does without (L1, L2), with the same
//! texts (L6).

use crate::capture::Capture;
use crate::captures::{OTHERS, TURNS};
use crate::playback::{End, Fault};
use serde_json::Value;
use std::collections::BTreeSet;

/// Events of another session, or of none, are no part of a conversation.
fn matters(event: &Value) -> bool {
    let kind = event["type"].as_str().unwrap();
    !matches!(kind, "plugin.added" | "server.heartbeat" | "catalog.updated" | "reference.updated")
}

/// Plays each of the faults and tells which ended otherwise.
fn wrong(name: &str, capture: &Capture, faults: impl Iterator<Item = Fault>) -> Vec<String> {
    let turns = TURNS.iter().chain(OTHERS).find(|(known, _)| *known == name).unwrap().1;
    let texts = capture.stored_texts();
    faults
        .filter_map(|fault| {
            let played = capture.play(&fault);
            let same =
                played.turns == turns && played.texts == texts && played.aborts == 0 || played.unplayable;
            (!same).then(|| format!("{name} {fault:?}: {:?} {:.300?}", played.turns, played.texts))
        })
        .collect()
}

fn captures() -> impl Iterator<Item = (&'static str, Capture)> {
    TURNS.iter().map(|(name, _)| (*name, Capture::load(name)))
}

fn is_full() -> bool {
    std::env::var_os("TURNSTREAM_FULL").is_some()
}

/// The lengths to try from this place: by default two of them, others from place to place.
fn some<const ALL: usize>(lengths: [usize; ALL], place: usize) -> impl Iterator<Item = usize> {
    let count = if is_full() { ALL } else { 2 };
    lengths.into_iter().cycle().skip(place / 2 % ALL).take(count)
}

fn indices(capture: &Capture) -> impl Iterator<Item = usize> {
    let count = capture.events().len();
    // The long ones are sampled, and by default the others too. The runaway ones (j2, j3) are all alike.
    let is_runaway =
        capture.events().iter().filter(|event| event["properties"]["info"]["finish"] == "unknown");
    let step = if is_runaway.count() > 10 {
        count / 8
    } else if count > 200 {
        count / 60
    } else if is_full() {
        1
    } else {
        2
    };
    (0..count).step_by(step).filter(|index| matters(&capture.events()[*index]))
}

#[test]
fn any_one_event_may_be_missing() {
    let mut all = Vec::new();
    for (name, capture) in captures() {
        let faults = indices(&capture).map(|index| Fault::Drop(BTreeSet::from([index])));
        all.extend(wrong(name, &capture, faults));
    }
    assert!(all.is_empty(), "{} went wrong:\n{}", all.len(), all.join("\n"));
}

#[test]
fn any_one_event_may_come_twice() {
    let mut all = Vec::new();
    for (name, capture) in captures() {
        let faults = indices(&capture).map(Fault::Repeat);
        all.extend(wrong(name, &capture, faults));
    }
    assert!(all.is_empty(), "{} went wrong:\n{}", all.len(), all.join("\n"));
}

#[test]
fn the_stream_may_be_cut_anywhere_and_taken_up_anywhere() {
    let mut all = Vec::new();
    for (name, capture) in captures() {
        let count = capture.events().len();
        let cuts: Vec<Fault> = indices(&capture)
            .flat_map(|from| {
                some([1, 3, 7, 20, count], from)
                    .map(move |length| Fault::Cut(from, (from + length).min(count)))
            })
            .collect();
        all.extend(wrong(name, &capture, cuts.into_iter()));
    }
    assert!(all.is_empty(), "{} went wrong:\n{}", all.len(), all.join("\n"));
}

/// The second idle of an aborted turn, or any late one, must not end the turn after it.
#[test]
fn an_idle_that_comes_after_the_next_prompt_ends_nothing() {
    let mut all = Vec::new();
    for name in ["a-plain", "f1-abort-stream", "s3-auto-compaction"] {
        let capture = Capture::load(name);
        let is_idle = |event: &Value| {
            event["type"] == "session.idle" || event["properties"]["status"]["type"] == "idle"
        };
        let idles: Vec<usize> =
            (0..capture.events().len()).filter(|index| is_idle(&capture.events()[*index])).collect();
        // The last pair belongs to the last turn, which no prompt follows.
        let before_last = &idles[..idles.len() - 2];
        let pairs = before_last.chunks(2).map(|pair| Fault::Delay(pair.iter().copied().collect()));
        let all_of_them = Fault::Delay(before_last.iter().copied().collect());
        all.extend(wrong(name, &capture, pairs.chain([all_of_them])));
    }
    assert!(all.is_empty(), "{} went wrong:\n{}", all.len(), all.join("\n"));
}

/// The owner of the session dies anywhere, and another one takes up from the log alone.
#[test]
fn the_owner_may_die_anywhere_and_another_takes_up() {
    let mut all = Vec::new();
    for (name, capture) in captures() {
        let count = capture.events().len();
        let crashes: Vec<Fault> = indices(&capture)
            .flat_map(|at| {
                some([0, 2, 9, count], at).map(move |length| Fault::Crash(at, (at + length).min(count)))
            })
            .collect();
        all.extend(wrong(name, &capture, crashes.into_iter()));
    }
    assert!(all.is_empty(), "{} went wrong:\n{}", all.len(), all.join("\n"));
}

/// What is still said of a message of the turn before, in the middle of the next one, is no error, no
/// finish and no retry of that one.
#[test]
fn news_of_a_message_that_come_in_the_next_turn_are_not_of_that_turn() {
    let mut all = Vec::new();
    for name in ["a-plain", "f1-abort-stream", "s3-auto-compaction"] {
        let capture = Capture::load(name);
        let is_of_answer = |event: &Value| {
            let info = &event["properties"]["info"];
            event["type"] == "message.part.updated"
                || (event["type"] == "message.updated" && info["role"] == "assistant")
        };
        let events = capture.events();
        let next = events.iter().position(|event| event["properties"]["info"]["id"] == capture.last_prompt());
        let next = next.unwrap();
        let late = (0..next).filter(|index| is_of_answer(&events[*index]));
        let faults: Vec<Fault> =
            late.flat_map(|late| (next..events.len()).map(move |after| Fault::Late(late, after))).collect();
        assert!(faults.len() > 20, "{name}");
        all.extend(wrong(name, &capture, faults.into_iter()));
    }
    assert!(all.is_empty(), "{} went wrong:\n{}", all.len(), all.join("\n"));
}

// === other clients ===

/// What may be missing of other clients' captures, and what that costs: nobody says it a second time.
const UNHEARD: &[(&str, &str)] = &[
    // The first word of a turn that then fails without having said anything.
    ("s5-sync-prompt", "message.updated"),
    // That something was taken back.
    ("s7-revert-removes", "message.removed"),
    ("s7-revert-removes", "message.part.removed"),
];

#[test]
fn any_one_event_of_what_others_do_may_be_missing_or_come_twice() {
    let mut all = Vec::new();
    for (name, _) in OTHERS {
        let capture = Capture::load(name);
        let may_be_missing = |index: &usize| {
            let kind = capture.events()[*index]["type"].as_str().unwrap();
            !UNHEARD.contains(&(*name, kind))
        };
        let drops =
            indices(&capture).filter(may_be_missing).map(|index| Fault::Drop(BTreeSet::from([index])));
        all.extend(wrong(name, &capture, drops));
        all.extend(wrong(name, &capture, indices(&capture).map(Fault::Repeat)));
    }
    assert!(all.is_empty(), "{} went wrong:\n{}", all.len(), all.join("\n"));
}

/// A turn of another client whose start was missed may become part of the one before, or not be seen at
/// all. An error that is only an event may be missed. But nothing stays open, nothing is stopped, and no
/// turn is made up. Every stored answer to a prompt of ours is there.
#[test]
fn a_gap_or_a_crash_while_others_work_leaves_nothing_open_and_loses_no_answer_of_ours() {
    let mut all = Vec::new();
    for (name, turns) in OTHERS {
        let capture = Capture::load(name);
        let (count, ours) = (capture.events().len(), capture.stored_answers());
        let faults = indices(&capture).flat_map(|at| {
            let until = move |length: usize| (at + length).min(count);
            let cuts = [1, 3, 7, 20, count].map(|length| Fault::Cut(at, until(length)));
            cuts.into_iter().chain([0, 2, 9, count].map(|length| Fault::Crash(at, until(length))))
        });
        for fault in faults {
            let played = capture.play(&fault);
            let lost = ours.iter().find(|text| !played.texts.contains(text));
            let sound = !played.turns.contains(&End::Open) && played.aborts == 0 && lost.is_none();
            if !(sound && played.turns.len() <= turns.len() || played.unplayable) {
                all.push(format!("{name} {fault:?}: {:?} {:.300?}", played.turns, played.texts));
            }
        }
    }
    assert!(all.is_empty(), "{} went wrong:\n{}", all.len(), all.join("\n"));
}
