//! Sequence numbers of events: missing, late and repeated ones.

use std::ops::Range;

/// The most gaps that are remembered. A stream with more of them is beyond repair.
const MOST_GAPS: usize = 64;

/// The numbers seen so far.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    next: Option<u64>,
    missing: Vec<Range<u64>>,
}

/// What a sequence number says about its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbered {
    /// The event is the next one.
    Next,
    /// Events before this one are missing.
    Ahead,
    /// The event was missing, and comes after a later one.
    Late,
    /// The number was seen before.
    Seen,
}

impl Numbers {
    /// Whether any number was seen.
    pub(super) fn began(&self) -> bool {
        self.next.is_some()
    }

    /// Checks a number without recording it.
    pub(super) fn check(&self, number: u64) -> Numbered {
        match self.next {
            None => Numbered::Next,
            Some(next) if number == next => Numbered::Next,
            Some(next) if number > next => Numbered::Ahead,
            Some(_) if self.missing.iter().any(|gap| gap.contains(&number)) => Numbered::Late,
            Some(_) => Numbered::Seen,
        }
    }

    /// Records a number; `false` if there are too many gaps.
    pub(super) fn record(&mut self, number: u64) -> bool {
        match self.check(number) {
            Numbered::Next => self.next = Some(number.saturating_add(1)),
            Numbered::Ahead => {
                self.missing.extend(self.next.map(|next| next..number));
                self.next = Some(number.saturating_add(1));
            }
            Numbered::Late => {
                let at = self.missing.iter().position(|gap| gap.contains(&number));
                let gap = at.map(|at| self.missing.swap_remove(at));
                let halves = gap.into_iter().flat_map(|gap| [gap.start..number, number + 1..gap.end]);
                self.missing.extend(halves.filter(|half| !half.is_empty()));
            }
            Numbered::Seen => {}
        }
        self.missing.len() <= MOST_GAPS
    }
}
