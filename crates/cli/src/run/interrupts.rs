//! Ctrl-C while a command waits for a gateway that may not answer.

use crate::escape::{Safe, safe};
use crate::out;
use crate::signals::Signals;
use std::io;

/// Signals to end, counted. What they ask for depends on how many there were.
pub(crate) struct Interrupts {
    signals: Signals,
    count: u32,
    are_told: bool,
}

impl Interrupts {
    /// Takes the signals over, from now on.
    pub(crate) fn take() -> io::Result<Self> {
        Ok(Self { signals: Signals::take()?, count: 0, are_told: false })
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// A person was told what the first one does.
    pub(super) fn are_told(&self) -> bool {
        self.are_told
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        self.signals.next().await;
        self.count += 1;
    }

    /// Waits until there were so many, and says at the first what one more does.
    pub(crate) async fn reach(&mut self, most: u32) {
        while self.count < most {
            self.next().await;
            if self.count < most {
                self.are_told = true;
                out::note(told());
            }
        }
    }
}

/// What the first one does, for a person.
pub(super) fn told() -> Safe {
    safe!["cancelling; once more leaves at once"]
}
