//! Every capture with faults: one line dropped, doubled, replaced or preceded by garbage, or the output cut.
//! The laws hold, and every turn has one end after the process has ended (L1).

use super::playback::{Capture, Fault, names};

/// Places of faults: every second line, and all with `TURNSTREAM_FULL`.
fn places(capture: &Capture) -> impl Iterator<Item = usize> {
    let step = if std::env::var_os("TURNSTREAM_FULL").is_some() { 1 } else { 2 };
    (0..capture.outputs()).step_by(step)
}

fn play_all(fault: fn(usize) -> Fault) {
    for name in names() {
        let capture = Capture::load(&name);
        let whole = capture.play(Fault::None).ends().len();
        for place in places(&capture) {
            let desk = capture.play(fault(place));
            // The laws are checked by `play`. A fault may hide a turn, but it makes at most one more.
            assert!(desk.ends().len() <= whole + 1, "{name} at {place}: {:?}", desk.ends());
        }
    }
}

#[test]
fn any_one_line_may_be_missing() {
    play_all(Fault::Drop);
}

#[test]
fn any_one_line_may_come_twice() {
    play_all(Fault::Repeat);
}

#[test]
fn the_process_may_end_after_any_line() {
    play_all(Fault::Cut);
}

#[test]
fn a_line_of_garbage_may_come_anywhere() {
    play_all(Fault::Garbage);
}

#[test]
fn any_one_line_may_be_too_long() {
    play_all(Fault::Oversized);
}
