//! Ctrl-C while a command waits for the gateway.

use crate::escape::{Safe, safe};
use crate::out;
use crate::signals::Signals;
use std::io;

/// Counts signals: the first one cancels the turn, the second one leaves.
pub(crate) struct Interrupts {
    signals: Signals,
    count: u32,
    are_told: bool,
}

impl Interrupts {
    /// Installs the handler of signals.
    pub(crate) fn take() -> io::Result<Self> {
        Ok(Self { signals: Signals::take()?, count: 0, are_told: false })
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Whether the person was told what the first signal does.
    pub(super) fn are_told(&self) -> bool {
        self.are_told
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) {
        self.signals.next().await;
        self.count += 1;
    }

    /// Waits until there were this many signals. Tells the person after the first what another one does.
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

/// The line for the person after the first signal.
pub(super) fn told() -> Safe {
    safe!["cancelling; press Ctrl-C again to leave at once"]
}
