//! Answers of the server that are older or newer than the stream, a reader that is too slow, and whole
//! logs instead of texts compared after a crash.

use crate::capture::Capture;
use crate::captures::TURNS;
use crate::playback::{End, Fault};
use serde_json::Value;
use std::collections::BTreeMap;
use turnstream_model::event::{Body, ErrorClass, Event, NoticeCode, StopReason};
use turnstream_model::fold::Fold;

fn names() -> impl Iterator<Item = &'static str> {
    let long = ["j2", "j3", "o-", "o2", "o3"];
    TURNS.iter().map(|(name, _)| *name).filter(move |name| !long.iter().any(|long| name.starts_with(long)))
}

fn is_late_text(event: &Event) -> bool {
    let is_late = matches!(&event.draft.body, Body::Notice { code: NoticeCode::Late, .. });
    is_late && event.draft.item.is_some()
}

fn check(rest: u64, ahead: usize, faults: impl Fn(usize) -> Vec<Fault>) {
    check_of(names(), rest, ahead, faults);
}

fn check_of(
    names: impl Iterator<Item = &'static str>,
    rest: u64,
    ahead: usize,
    faults: impl Fn(usize) -> Vec<Fault>,
) {
    let (mut wrong, mut played_all) = (Vec::new(), 0);
    for name in names {
        let capture = Capture::load(name);
        let turns = TURNS.iter().find(|(known, _)| *known == name).unwrap().1;
        for fault in faults(capture.events().len()) {
            played_all += 1;
            let capture = &capture;
            let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                capture.play_slow(&fault, rest, ahead)
            }));
            match run {
                Err(_) => wrong.push(format!("{name} {fault:?}: panicked or unlawful")),
                Ok((played, log)) => {
                    // Pieces of a text that the server had whole already are no text that came too late.
                    let same = played.turns == turns
                        && played.texts == capture.stored_texts()
                        && played.aborts == 0
                        && !log.iter().any(is_late_text);
                    if !same && !played.unplayable {
                        wrong.push(format!("{name} {fault:?}: {:?} {:.200?}", played.turns, played.texts));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {played_all} went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn cuts(count: usize) -> Vec<Fault> {
    (0..count)
        .step_by(5)
        .flat_map(|from| [2, 9].map(|length| Fault::Cut(from, (from + length).min(count))))
        .collect()
}

#[test]
fn cuts_with_answers_that_take_thirty_milliseconds() {
    check(30, 0, cuts);
}

#[test]
fn cuts_with_answers_that_take_a_second() {
    check(1_000, 0, cuts);
}

#[test]
fn cuts_with_a_server_that_is_ahead_of_its_stream() {
    check(0, 4, cuts);
    check(20, 12, cuts);
}

#[test]
fn crashes_with_answers_that_take_a_while_from_a_server_ahead_of_its_stream() {
    let crashes = |count: usize| {
        (0..count)
            .step_by(5)
            .flat_map(|at| [0, 4].map(|length| Fault::Crash(at, (at + length).min(count))))
            .collect()
    };
    // A prompt that is repeated after its turn, with nothing open, is another client's for a new owner.
    let names = names().filter(|name| !name.starts_with("y1") && !name.starts_with("y2"));
    check_of(names, 100, 3, crashes);
}

#[test]
fn a_reader_that_was_too_slow_gets_everything() {
    let lags = |count: usize| {
        (0..count)
            .step_by(5)
            .flat_map(|at| [3, 15, count].map(|length| Fault::Lag(at, (at + length).min(count))))
            .collect()
    };
    check(0, 0, lags);
}

#[test]
fn a_reader_that_was_too_slow_gets_everything_also_when_answers_take_a_while() {
    let lags = |count: usize| {
        (0..count)
            .step_by(5)
            .flat_map(|at| [3, 15, count].map(|length| Fault::Lag(at, (at + length).min(count))))
            .collect()
    };
    check(50, 0, lags);
}

/// What a log says in the end: each kind of item with its text and state, and what the turns took.
pub(crate) fn summary(log: &[Event]) -> BTreeMap<String, usize> {
    let fold = Fold::of(log);
    let state = fold.state();
    let mut found = BTreeMap::new();
    for item in &state.items {
        let key =
            format!("{:?} {:?} {:?} parent {}", item.kind, item.text, item.state, item.parent.is_some());
        *found.entry(key).or_default() += 1;
    }
    for turn in &state.turns {
        let used =
            turn.usage.as_ref().map(|usage| (usage.input, usage.output, usage.extra.get("total").cloned()));
        let cost = turn.cost.as_ref().map(|cost| format!("{:.6}", cost.amount));
        *found.entry(format!("turn {:?} {used:?} {cost:?}", turn.outcome)).or_default() += 1;
    }
    found
}

#[test]
fn after_a_crash_the_log_has_the_same_items_and_the_same_usage() {
    let (mut wrong, mut played_all) = (Vec::new(), 0);
    // Two prompts at once: which of them is the other client's is not known any more after a crash.
    for name in names().filter(|name| !name.starts_with("k2")) {
        let capture = Capture::load(name);
        let count = capture.events().len();
        let whole = summary(&capture.play_slow(&Fault::None, 0, 0).1);
        for at in (0..count).step_by(3) {
            let (played, log) = capture.play_slow(&Fault::Crash(at, at), 0, 0);
            if played.unplayable {
                continue;
            }
            played_all += 1;
            let found = summary(&log);
            if found != whole {
                let more: Vec<&String> =
                    found.keys().filter(|key| found.get(*key) != whole.get(*key)).collect();
                let less: Vec<&String> =
                    whole.keys().filter(|key| found.get(*key) != whole.get(*key)).collect();
                wrong.push(format!("{name} at {at}: {more:.250?} instead of {less:.250?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {played_all}:\n{}", wrong.len(), wrong.join("\n"));
}

/// The answer to what was missed shows which subagents there are, and only the next answer has their
/// messages. An idle that comes in between must not end the turn without them.
#[test]
fn a_turn_that_ends_while_its_next_owner_asks_for_its_subagents_has_all_they_took() {
    let ends = |log: &[Event]| -> Vec<String> {
        summary(log).into_keys().filter(|key| key.starts_with("turn ")).collect()
    };
    let (mut wrong, mut played_all) = (Vec::new(), 0);
    for name in names().filter(|name| name.starts_with("m-") || name.starts_with("m2")) {
        let capture = Capture::load(name);
        let count = capture.events().len();
        let whole = ends(&capture.play_slow(&Fault::None, 0, 0).1);
        for (at, rest) in (0..count).flat_map(|at| [5, 20, 60, 200, 1_000].map(|rest| (at, rest))) {
            let (played, log) = capture.play_slow(&Fault::Crash(at, at), rest, 0);
            if played.unplayable {
                continue;
            }
            played_all += 1;
            let found = ends(&log);
            if found != whole {
                wrong.push(format!("{name} at {at} with {rest} ms: {found:?} instead of {whole:?}"));
            }
        }
    }
    assert!(played_all > 100, "{played_all}");
    assert!(wrong.is_empty(), "{} of {played_all}:\n{}", wrong.len(), wrong.join("\n"));
}

// === servers that are killed ===

#[test]
fn a_turn_whose_server_was_killed_is_not_called_a_success() {
    for name in ["u-server-killed", "u2-server-term"] {
        let capture = Capture::load(name);
        let count = capture.events().len();
        let (played, _) = capture.play_server_death();
        assert!(count > 5);
        assert!(
            !matches!(played.turns.first(), Some(End::Completed(_))),
            "{name}: {:?} {:?}",
            played.turns,
            played.texts
        );
    }
}

/// Wherever it is killed in a turn: between two model calls it looks as if a person had refused the first
/// one's tools.
#[test]
fn a_turn_whose_server_was_killed_anywhere_has_failed_unless_its_answer_was_over() {
    for name in ["b-reasoning", "c-multistep", "c2-parallel-tools", "d1-permission-once", "m-subagent"] {
        let capture = Capture::load(name);
        let of_session = |event: &Value| event["properties"]["sessionID"] == capture.session;
        let events = capture.events();
        let begins = events
            .iter()
            .position(|event| of_session(event) && event["properties"]["info"]["role"] == "assistant");
        let is_last = |event: &Value| {
            let info = &event["properties"]["info"];
            of_session(event) && info["finish"] == "stop" && info["time"]["completed"].is_number()
        };
        let ends = events.iter().position(is_last).unwrap();
        for after in begins.unwrap() + 1..=ends {
            let turns = capture.play_server_death_after(after).0.turns;
            assert_eq!(turns, [End::Failed(ErrorClass::AgentExited)], "{name} after {after}");
        }
        let turns = capture.play_server_death_after(ends + 1).0.turns;
        assert_eq!(turns, [End::Completed(StopReason::EndTurn)], "{name} after its answer");
    }
    // A person refused: there it stops by itself, and nobody has to have been killed.
    for name in ["d2-permission-reject", "e2-question-reject"] {
        let turns = Capture::load(name).play_server_death().0.turns;
        assert_eq!(turns, [End::Completed(StopReason::Rejected)], "{name}");
    }
}

// === any input ===

/// Changes one member somewhere in the value.
fn mutate(value: &mut Value, seed: &mut u64) {
    let mut next = || {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) as usize
    };
    let junk = [
        Value::Null,
        Value::from(-1),
        Value::from(1e300),
        Value::from(""),
        Value::from("x#4294967295"),
        Value::from(true),
        serde_json::json!([]),
        serde_json::json!({}),
    ];
    match value {
        Value::Object(members) if !members.is_empty() => {
            let place = next() % members.len();
            let (choice, which) = (next() % 4, next() % junk.len());
            let name = members.keys().nth(place).unwrap().clone();
            match choice {
                0 => members[&name] = junk[which].clone(),
                1 => drop(members.remove(&name)),
                _ => mutate(&mut members[&name], seed),
            }
        }
        Value::Array(values) if !values.is_empty() => {
            let place = next() % values.len();
            mutate(&mut values[place], seed);
        }
        other => *other = junk[next() % junk.len()].clone(),
    }
}

#[test]
fn events_with_any_member_changed_break_no_law_and_do_not_panic() {
    let mut wrong = BTreeMap::<String, usize>::new();
    let mut played_all = 0;
    let seeds = if std::env::var_os("TURNSTREAM_FULL").is_some() { 250 } else { 80_u64 };
    std::panic::set_hook(Box::new(|_| {}));
    for name in [
        "c-multistep",
        "m2-subagent-permission",
        "j1-cut-midstream",
        "s1-todo",
        "e1-question-reply",
        "f1-abort-stream",
    ] {
        let capture = Capture::load(name);
        for seed in 0..seeds {
            let mut random = seed * 7_919 + 1;
            let changed = capture.with_events(|event| {
                let mut value = event.clone();
                if (random >> 5) % 3 == 0 {
                    mutate(&mut value["properties"], &mut random);
                } else {
                    random = random.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(3_037_000_493);
                }
                value
            });
            played_all += 1;
            let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                changed.play_slow(&Fault::None, 0, 0)
            }));
            if let Err(cause) = run {
                let text = cause
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                *wrong.entry(format!("{:.160}", text.unwrap_or_default())).or_default() += 1;
            }
        }
    }
    let _ = std::panic::take_hook();
    assert!(wrong.is_empty(), "of {played_all}: {wrong:#?}");
}
