//! The server is away: its stream broke, and it may be starting again. Prompts wait until it has answered
//! once more.

use super::Conductor;
use crate::link::Observed;
use turnstream_model::time::Time;

/// How far the server has come back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Away {
    /// The stream is gone and is being opened again.
    Stream,
    /// The stream is there again. The server was asked what was missed, and has not answered.
    Answer,
}

impl Conductor {
    /// The stream is gone, and is being opened again.
    pub fn lost(&mut self, reason: &str, now: Time) {
        self.now = now;
        if self.away.is_none() {
            self.observed.push_back(Observed::Away(reason.to_owned()));
        }
        self.away = Some(Away::Stream);
        let limit = self.reach_until();
        if let Some(sent) = &mut self.sent {
            sent.wait_for_server(limit);
        }
    }

    /// The stream is there again: what is not known of the prompt that left is asked for with what was
    /// missed.
    pub(super) fn returning(&mut self) {
        if self.away.is_some() {
            self.away = Some(Away::Answer);
        }
        let next = self.resync.number + 1;
        if let Some(sent) = self.sent.as_mut().filter(|sent| sent.is_undecided()) {
            sent.ask_with(next);
        }
    }

    /// The server has answered, or cannot answer this question: prompts go out again.
    pub(super) fn returned(&mut self) {
        if self.away.take_if(|away| *away == Away::Answer).is_some() {
            self.observed.push_back(Observed::Back);
            if let Some(sent) = &mut self.sent {
                sent.reached();
            }
            self.post_held();
        }
    }

    /// True while nothing reaches the server for certain.
    pub(super) fn is_away(&self) -> bool {
        self.away.is_some()
    }

    /// Until when a prompt that begins to wait for the server now waits.
    pub(super) fn reach_until(&self) -> Time {
        self.now.plus_millis(self.pace.connect.as_millis() as u64)
    }
}
