//! The numbers of a stream's events: which are missing, which came late, which came before.

use std::ops::Range;

/// Gaps that are remembered. A stream with more of them is beyond healing.
const MOST_GAPS: usize = 64;

/// The numbers seen so far.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    next: Option<u64>,
    missing: Vec<Range<u64>>,
}

/// What a number says of its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbered {
    /// It is the next one.
    Next,
    /// It is a later one: those between are missing.
    Ahead,
    /// It was missing, and comes behind a later one.
    Late,
    /// It was seen.
    Seen,
}

impl Numbers {
    /// Whether any number was seen.
    pub(super) fn began(&self) -> bool {
        self.next.is_some()
    }

    /// What this number would say.
    pub(super) fn look(&self, number: u64) -> Numbered {
        match self.next {
            None => Numbered::Next,
            Some(next) if number == next => Numbered::Next,
            Some(next) if number > next => Numbered::Ahead,
            Some(_) if self.missing.iter().any(|gap| gap.contains(&number)) => Numbered::Late,
            Some(_) => Numbered::Seen,
        }
    }

    /// Takes a number; `false` when there are too many gaps.
    pub(super) fn take(&mut self, number: u64) -> bool {
        match self.look(number) {
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
