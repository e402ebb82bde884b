//! Every capture with faults: one line dropped, doubled, replaced or preceded by garbage, or the output cut.
//! The laws hold, and every turn has one end after the process has ended (L1).

use super::playback::Capture;
use crate::playback::{End, Fault, is_close, is_same, names};

/// Plays each fault at many places. The laws are checked by `play`.
fn play_all(fault: fn(usize) -> Fault, check: fn(found: &[End], whole: &[End]) -> bool) {
    let outputs = |name: String| {
        let outputs = Capture::load(&name).outputs();
        (name, outputs)
    };
    let captures: Vec<(String, usize)> = names("claude").into_iter().map(outputs).collect();
    crate::playback::play_all(&captures, |name, fault| Capture::load(name).play(fault).ends(), fault, check);
}

#[test]
fn any_one_line_may_be_missing() {
    play_all(Fault::Drop, is_close);
}

#[test]
fn any_one_line_may_be_too_long() {
    play_all(Fault::Oversized, is_close);
}

#[test]
fn the_process_may_end_after_any_line() {
    play_all(Fault::Cut, is_close);
}

#[test]
fn a_line_that_comes_twice_changes_no_end() {
    play_all(Fault::Repeat, is_same);
}

#[test]
fn a_line_of_garbage_changes_no_end() {
    play_all(Fault::Garbage, is_same);
}
