//! Every capture with faults: one line dropped, doubled, replaced or preceded by garbage, or the output cut.
//! The laws hold, and every turn has one end after the process has ended (L1).

use super::desk::End;
use super::playback::{Capture, Fault, names};

/// Places of faults: every second line, and all with `TURNSTREAM_FULL`.
fn places(capture: &Capture) -> impl Iterator<Item = usize> {
    let step = if std::env::var_os("TURNSTREAM_FULL").is_some() { 1 } else { 2 };
    (0..capture.outputs()).step_by(step)
}

/// Plays each fault at each place. The laws are checked by `play`.
fn play_all(fault: fn(usize) -> Fault, check: fn(found: &[End], whole: &[End]) -> bool) {
    let mut wrong = Vec::new();
    for name in names() {
        let capture = Capture::load(&name);
        let whole = capture.play(Fault::None).ends();
        for place in places(&capture) {
            let found = capture.play(fault(place)).ends();
            if !check(&found, &whole) {
                wrong.push(format!("{name} at {place}: {found:?} instead of {whole:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn is_same(found: &[End], whole: &[End]) -> bool {
    found == whole
}

/// A missing line may hide a turn, or make one more.
fn is_close(found: &[End], whole: &[End]) -> bool {
    found.len() <= whole.len() + 1
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
