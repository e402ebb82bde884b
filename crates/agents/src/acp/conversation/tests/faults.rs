//! Every capture with faults: one line dropped, doubled, replaced or preceded by garbage, or the output cut.
//! The laws hold, and every turn has one end after the process has ended (L1).

use super::playback::Playback;
use crate::desk::{End, Fault, Judge};

fn is_same(found: &[End], whole: &[End]) -> bool {
    found == whole
}

/// A missing line may hide a turn, or make one more.
fn is_close(found: &[End], whole: &[End]) -> bool {
    found.len() <= whole.len() + 1
}

#[test]
fn any_one_line_may_be_missing() {
    Judge::<Playback>::assert_faults(Fault::Drop, is_close);
}

#[test]
fn any_one_line_may_be_too_long() {
    Judge::<Playback>::assert_faults(Fault::Oversized, is_close);
}

#[test]
fn the_process_may_end_after_any_line() {
    Judge::<Playback>::assert_faults(Fault::Cut, is_close);
}

#[test]
fn a_line_that_comes_twice_changes_no_end() {
    Judge::<Playback>::assert_faults(Fault::Repeat, is_same);
}

#[test]
fn a_line_of_garbage_changes_no_end() {
    Judge::<Playback>::assert_faults(Fault::Garbage, is_same);
}
