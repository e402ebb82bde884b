//! Faults in what an agent prints.

use super::End;

/// What is done to the agent's output, by the place of the line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    None,
    Drop(usize),
    Repeat(usize),
    /// Nothing comes from that line on: the process ends there.
    Cut(usize),
    /// A line that is no JSON comes before that line.
    Garbage(usize),
    /// That line is too long to keep.
    Oversized(usize),
}

/// Plays each fault at every second place of the captures with so many lines, and at all places with
/// `TURNSTREAM_FULL`. `play` returns how the turns ended, and checks the laws.
pub(crate) fn play_all(
    captures: &[(String, usize)],
    play: impl Fn(&str, Fault) -> Vec<End>,
    fault: fn(usize) -> Fault,
    check: fn(found: &[End], whole: &[End]) -> bool,
) {
    let step = if std::env::var_os("TURNSTREAM_FULL").is_some() { 1 } else { 2 };
    let mut wrong = Vec::new();
    for (name, outputs) in captures {
        let whole = play(name, Fault::None);
        for place in (0..*outputs).step_by(step) {
            let found = play(name, fault(place));
            if !check(&found, &whole) {
                wrong.push(format!("{name} at {place}: {found:?} instead of {whole:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

pub(crate) fn is_same(found: &[End], whole: &[End]) -> bool {
    found == whole
}

/// A missing line may hide a turn, or make one more.
pub(crate) fn is_close(found: &[End], whole: &[End]) -> bool {
    found.len() <= whole.len() + 1
}
