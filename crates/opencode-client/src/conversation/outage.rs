//! An outage of the server: its stream broke, and it may be restarting. Prompts wait until it has answered
//! again.

use super::Conversation;
use turnstream_adapter::Observed;
use turnstream_model::time::Time;

/// What is missing before the server counts as reachable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outage {
    /// The stream: it is being reconnected.
    Stream,
    /// An answer: the stream is reconnected, and a snapshot was requested.
    Answer,
}

impl Conversation {
    /// The stream is lost and is being reconnected.
    pub fn lost(&mut self, reason: &str, now: Time) {
        self.now = now;
        if self.outage.is_none() {
            self.observed.push_back(Observed::Away(reason.to_owned()));
        }
        self.outage = Some(Outage::Stream);
        let limit = self.reach_until();
        if let Some(sent) = &mut self.sent {
            sent.wait_for_server(limit);
        }
    }

    /// The stream is reconnected. The next snapshot also decides about a sent prompt without a sign of work.
    pub(super) fn stream_reconnected(&mut self) {
        if self.outage.is_some() {
            self.outage = Some(Outage::Answer);
        }
        let next = self.resync.number + 1;
        if let Some(sent) = self.sent.as_mut().filter(|sent| sent.is_undecided()) {
            sent.decide_by(next);
        }
    }

    /// The server has answered, also with an error: the outage is over, and prompts are sent again.
    pub(super) fn server_answered(&mut self) {
        if self.outage.take_if(|outage| *outage == Outage::Answer).is_some() {
            self.observed.push_back(Observed::Back);
            if let Some(sent) = &mut self.sent {
                sent.reached();
            }
            self.post_held();
        }
    }

    /// True during an outage.
    pub(super) fn is_away(&self) -> bool {
        self.outage.is_some()
    }

    /// Until when a prompt waits that starts to wait for the server now.
    pub(super) fn reach_until(&self) -> Time {
        self.now.plus_millis(self.pace.connect.as_millis() as u64)
    }
}
