//! The checker finds what it is for: a good log is damaged in one place, and the law that breaks is named.

use crate::support::*;
use serde_json::{Map, Value, json};
use turnstream_model::check::{Checker, Law, Report, Tail};
use turnstream_model::event::{ApprovalOutcome, By, ErrorClass, Resolution, StopReason, ToolStatus};
use turnstream_model::id::{ApprovalId, Key};
use turnstream_model::signal::{Ending, Signal};

type Line = Map<String, Value>;

/// A turn with everything in it: a retried call, a tool that was asked for, a child, a question, a late
/// revision.
fn good() -> Vec<Line> {
    let mut session = Session::new();
    session.prompt("go");
    session.observe_all([
        busy(),
        attempt("m1"),
        message("void"),
        delta("void", "x"),
        Signal::Retrying {
            attempt: Some(1),
            reason: Some(ErrorClass::Overloaded),
            until: None,
            message: None,
        },
        attempt("m2"),
        message("a"),
        delta("a", "Hello"),
        done("a"),
        tool("c", ToolStatus::InProgress),
        Signal::Ask { key: Key::from("per"), item: Some(Key::from("c")), tool: None, options: vec![] },
    ]);
    let approval = ApprovalId::from("q1");
    session
        .step(|machine, step| {
            machine.resolve(&approval, Resolution::new(ApprovalOutcome::AllowOnce, By::Client), step)
        })
        .unwrap();
    session.observe_all([
        tool("c", ToolStatus::Completed),
        attempt_done("m2", "stop"),
        tool("d", ToolStatus::InProgress),
        Signal::TurnDone { native_id: None, ending: Ending::completed(StopReason::EndTurn) },
        tool("d", ToolStatus::Completed),
    ]);
    session.log.iter().map(|event| serde_json::from_str(&event.to_json()).unwrap()).collect()
}

fn judge(lines: &[Line]) -> Report {
    let mut checker = Checker::new();
    for line in lines {
        checker.line(&serde_json::to_string(line).unwrap());
    }
    checker.finish(Tail::Settled)
}

/// Numbers the lines anew, so that only the damage itself shows.
fn renumber(lines: &mut [Line]) {
    for (index, line) in lines.iter_mut().enumerate() {
        line.insert("seq".into(), json!(index + 1));
    }
}

fn find(lines: &[Line], r#type: &str) -> usize {
    lines.iter().position(|line| line["type"] == r#type).unwrap_or_else(|| panic!("no {type}"))
}

/// The laws that break when the log is damaged so.
fn laws(damage: impl FnOnce(&mut Vec<Line>)) -> Vec<Law> {
    let mut lines = good();
    damage(&mut lines);
    renumber(&mut lines);
    judge(&lines).violations.into_iter().map(|violation| violation.law).collect()
}

fn without(r#type: &str) -> Vec<Law> {
    laws(|lines| drop(lines.remove(find(lines, r#type))))
}

fn twice(r#type: &str) -> Vec<Law> {
    laws(|lines| {
        let index = find(lines, r#type);
        lines.insert(index, lines[index].clone());
    })
}

/// That the turn is cancelled is said so often, just before the first event of that type.
fn cancelling_at(r#type: &str, times: usize) -> Vec<Law> {
    laws(|lines| {
        let turn = lines[find(lines, "turn.started")]["turn"].clone();
        let line = json!({"time": 1, "type": "turn.cancelling", "turn": turn, "by": "client"});
        let line = line.as_object().cloned().unwrap();
        let index = find(lines, r#type);
        lines.splice(index..index, std::iter::repeat_n(line, times));
    })
}

fn with(r#type: &str, member: &str, value: Value) -> Vec<Law> {
    laws(|lines| {
        let index = find(lines, r#type);
        lines[index].insert(member.into(), value);
    })
}

#[test]
fn a_good_log_breaks_no_law() {
    let report = judge(&good());
    assert_eq!(report.violations, []);
    assert_eq!(report.turns, 1);
}

#[test]
fn what_is_missing_is_found() {
    assert!(without("turn.ended").contains(&Law::OneEnd));
    assert!(without("turn.started").contains(&Law::EvidenceBeforeIdle));
    assert!(without("item.started").contains(&Law::Item));
    assert!(without("item.ended").contains(&Law::OneEnd));
    assert!(without("attempt.started").contains(&Law::Superseding));
    assert!(without("attempt.ended").contains(&Law::OneEnd));
    assert!(without("attempt.superseded").contains(&Law::Attempt));
    assert!(without("approval.requested").contains(&Law::Wait));
    assert!(without("approval.resolved").contains(&Law::OneEnd));
    assert!(without("prompt.accepted").contains(&Law::Prompt));
    assert!(without("prompt.sent").contains(&Law::Prompt));
    assert!(without("prompt.taken").contains(&Law::OneEnd));
    assert!(without("session.created").contains(&Law::Session));
}

#[test]
fn what_is_there_twice_is_found() {
    assert!(twice("turn.ended").contains(&Law::OneEnd));
    assert!(twice("turn.started").contains(&Law::OneEnd));
    assert!(twice("item.started").contains(&Law::Item));
    assert!(twice("item.ended").contains(&Law::Item));
    assert!(twice("attempt.started").contains(&Law::Attempt));
    assert!(twice("attempt.ended").contains(&Law::Attempt));
    assert!(twice("attempt.superseded").contains(&Law::Superseding));
    assert!(twice("approval.requested").contains(&Law::Wait));
    assert!(twice("approval.resolved").contains(&Law::Wait));
    assert!(twice("prompt.accepted").contains(&Law::Prompt));
    assert!(twice("prompt.taken").contains(&Law::Prompt));
    assert!(twice("session.created").contains(&Law::Session));
    assert!(cancelling_at("turn.ended", 2).contains(&Law::OneEnd));
}

#[test]
fn what_comes_after_the_end_is_found() {
    let after_turn = |r#type: &str| {
        laws(|lines| {
            let line = lines.remove(find(lines, r#type));
            let end = find(lines, "turn.ended");
            lines.insert(end + 1, line);
        })
    };
    assert_eq!(cancelling_at("turn.ended", 1), []);
    assert!(cancelling_at("turn.started", 1).contains(&Law::EvidenceBeforeIdle));
    assert!(cancelling_at("item.revised", 1).contains(&Law::OneEnd));
    assert!(after_turn("item.delta").contains(&Law::OneEnd));
    assert!(after_turn("item.ended").contains(&Law::OneEnd));
    assert!(after_turn("attempt.ended").contains(&Law::OneEnd));
    assert!(after_turn("approval.resolved").contains(&Law::OneEnd));
    assert!(with("item.revised", "late", json!(false)).contains(&Law::OneEnd));
    let after_session = laws(|lines| {
        let ended =
            json!({"time": 1, "type": "session.ended", "reason": "deleted"}).as_object().cloned().unwrap();
        let last = lines.len() - 1;
        lines.insert(last, ended);
    });
    assert!(after_session.contains(&Law::Session));
}

#[test]
fn a_void_item_stays_void() {
    let damaged = laws(|lines| {
        let delta = lines[find(lines, "item.delta")].clone();
        let superseded = find(lines, "attempt.superseded");
        lines.insert(superseded + 1, delta);
    });
    assert_eq!(damaged, [Law::Item]);
    assert!(with("attempt.superseded", "items", json!(["i2"])).contains(&Law::Superseding));
    assert!(with("attempt.superseded", "by", json!("a1")).contains(&Law::Superseding));
}

#[test]
fn a_wrong_shape_is_found() {
    assert_eq!(with("item.delta", "text", json!(7)), [Law::Shape]);
    assert_eq!(with("item.delta", "field", json!("thought")), [Law::Shape, Law::Item]);
    assert_eq!(with("turn.ended", "outcome", json!("won")), [Law::Shape, Law::Shape]);
    assert_eq!(
        with("turn.ended", "error", json!({"class": "bad luck", "message": "m"})),
        [Law::Shape, Law::Shape]
    );
    assert_eq!(with("turn.ended", "outcome", json!("failed")), [Law::Shape, Law::Shape]);
    assert_eq!(with("turn.ended", "stop_reason", Value::Null), [Law::Shape]);
    assert_eq!(with("turn.ended", "cost", json!({"amount": "1", "currency": "USD"})), [Law::Shape]);
    assert_eq!(with("item.delta", "attempt", json!(1)), [Law::Shape]);
    assert_eq!(with("session.status", "reason", json!("just because")), [Law::Shape]);
    assert_eq!(with("approval.requested", "options", json!([{"id": "o"}])), [Law::Shape, Law::Shape]);
    assert_eq!(with("item.updated", "tool", json!({"status": "done"})), [Law::Shape]);
    assert_eq!(with("item.delta", "time", json!("now")), [Law::Shape]);
    assert_eq!(with("prompt.accepted", "content", json!("Hi")), [Law::Shape]);
    assert_eq!(with("item.ended", "incomplete", json!(true)), [Law::Taint]);
    assert_eq!(with("item.delta", "mood", json!("good")), [], "unknown members are no violation");
}

#[test]
fn holes_repeats_and_rubbish_are_found_with_their_line() {
    let mut checker = Checker::new();
    for line in [
        r#"{"turnstream":"log","version":1}"#,
        r#"{"seq":1,"time":1,"type":"session.created","session":"s","agent":"a","cwd":"/"}"#,
        r#"{"seq":3,"time":1,"type":"weather.changed"}"#,
        r#"{"seq":3,"time":1,"type":"weather.changed"}"#,
        "rubbish",
        "[1]",
        r#"{"seq":4,"time":1}"#,
    ] {
        checker.line(line);
    }
    let report = checker.finish(Tail::Settled);
    let found: Vec<(usize, Law)> =
        report.violations.iter().map(|violation| (violation.line, violation.law)).collect();
    assert_eq!(found, [(3, Law::Seq), (4, Law::Seq), (5, Law::Shape), (6, Law::Shape), (7, Law::Shape)]);
    assert_eq!(report.violations[0].to_string(), "line 3, seq 3: seq: 3 follows 1");
}

#[test]
fn a_trimmed_log_is_not_blamed_for_what_it_no_longer_has() {
    let lines = good();
    for start in 1..lines.len() {
        let report = judge(&lines[start..]);
        assert_eq!(report.violations, [], "from line {start}");
    }
}

#[test]
fn an_open_turn_is_no_violation_of_a_live_log() {
    let lines = good();
    let end = find(&lines, "turn.ended");
    let mut checker = Checker::new();
    for line in &lines[..end] {
        checker.line(&serde_json::to_string(line).unwrap());
    }
    assert_eq!(checker.finish(Tail::Live).violations, []);
}

#[test]
fn what_does_not_fit_together_is_found() {
    assert_eq!(with("turn.started", "origin", json!("agent")), [Law::Prompt]);
    assert_eq!(with("session.status", "status", json!("waiting")), [Law::Session]);
    assert_eq!(with("item.started", "tool", json!({})), [Law::Item]);
    assert_eq!(with("item.revised", "turn", json!("t9")), [Law::EvidenceBeforeIdle, Law::Item]);
    assert_eq!(with("approval.requested", "item", json!("i99")), [Law::Wait]);
    let revises_nothing = laws(|lines| {
        let index = find(lines, "item.revised");
        lines[index].retain(|member, _| !["state", "tool", "text"].contains(&member.as_str()));
    });
    assert_eq!(revises_nothing, [Law::Item]);
    let below_itself = laws(|lines| {
        let index = find(lines, "item.updated");
        let item = lines[index]["item"].clone();
        lines[index].insert("parent".into(), item);
    });
    assert_eq!(below_itself, [Law::Item]);
    let healed_by_a_word = laws(|lines| {
        let ended = find(lines, "item.ended");
        lines[ended].insert("state".into(), json!("abandoned"));
        lines[ended].insert("incomplete".into(), json!(true));
        let mut revised = lines[ended].clone();
        revised.insert("type".into(), json!("item.revised"));
        revised.insert("state".into(), json!("completed"));
        revised.remove("incomplete");
        lines.insert(ended + 1, revised);
    });
    assert_eq!(healed_by_a_word, [Law::Taint]);
}

#[test]
fn a_repeat_may_follow_a_call_that_ended_and_must_supersede_it() {
    let ended_first = |superseded: bool| {
        laws(|lines| {
            let started = lines.iter().position(|line| line.get("attempt") == Some(&json!("a2"))).unwrap();
            let mut ended = lines[find(lines, "attempt.ended")].clone();
            ended.insert("attempt".into(), json!("a1"));
            lines.insert(started, ended);
            let items = find(lines, "attempt.superseded");
            if !superseded {
                lines.remove(items);
            }
        })
    };
    assert_eq!(ended_first(true), []);
    assert!(ended_first(false).contains(&Law::Attempt));
}

#[test]
fn a_session_is_resumed_between_turns_and_only_as_one_of_the_choices() {
    let resumed = |choice: &str, before: &str| {
        laws(|lines| {
            let event = json!({"type": "session.resumed", "as": choice, "forgot": "old", "time": 1});
            let at = find(lines, before);
            lines.insert(at, event.as_object().cloned().unwrap());
        })
    };
    assert_eq!(resumed("transcript", "prompt.accepted"), []);
    assert_eq!(resumed("transcript", "item.started"), [Law::Session]);
    assert_eq!(resumed("perhaps", "prompt.accepted"), [Law::Shape]);
}

#[test]
fn an_unknown_type_may_name_an_ended_turn() {
    let added = laws(|lines| {
        let unknown = json!({"time": 1, "type": "weather.changed", "turn": "t1"});
        lines.push(unknown.as_object().cloned().unwrap());
    });
    assert_eq!(added, []);
}

#[test]
fn a_session_does_not_end_with_something_open() {
    let ended = |what: Value| {
        laws(|lines| {
            lines.push(what.as_object().cloned().unwrap());
            lines.push(
                json!({"time": 1, "type": "session.ended", "reason": "deleted"})
                    .as_object()
                    .cloned()
                    .unwrap(),
            );
        })
    };
    assert_eq!(
        ended(json!({"time": 1, "type": "prompt.accepted", "prompt": "p9", "content": []})),
        [Law::Session]
    );
    assert_eq!(ended(json!({"time": 1, "type": "approval.requested", "approval": "q9"})), [Law::Session]);
    let background = json!({"time": 1, "type": "item.started", "item": "i9", "parent": "i3", "kind": "plan"});
    assert_eq!(ended(background), [Law::Session]);
}

#[test]
fn a_trimmed_log_still_has_to_end_things_once() {
    let mut lines = good();
    let end = find(&lines, "turn.ended");
    lines.insert(end, lines[end].clone());
    renumber(&mut lines);
    let report = judge(&lines[end - 1..]);
    assert!(
        report.violations.iter().any(|violation| violation.law == Law::OneEnd),
        "{:?}",
        report.violations
    );
}

#[test]
fn a_log_with_a_header_ends_where_the_header_says() {
    let lines = good();
    let judged = |head: usize, events: &[Line]| {
        let header = json!({"type": "export", "turnstream": "0.1.0", "first": 1, "head": head});
        let header = header.as_object().cloned().unwrap();
        let mut all = vec![header];
        all.extend_from_slice(events);
        let report = judge(&all);
        let seqs = report.violations.iter().filter(|violation| violation.law == Law::Seq);
        (report.events, seqs.map(|violation| (violation.line, violation.message.clone())).collect::<Vec<_>>())
    };
    let head = lines.len();
    assert_eq!(judged(head, &lines), (head, vec![]));
    let told = |last: usize| {
        format!("the log ends with event {last}, and its header says {head}: it was cut off or added to")
    };
    assert_eq!(judged(head, &lines[..head - 1]), (head - 1, vec![(head, told(head - 1))]));
    assert_eq!(judged(head, &[]).1.len(), 1);
}
