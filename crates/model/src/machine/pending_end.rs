//! A turn whose end is in doubt. Agents report idle without naming the turn:
//!
//! - early: opencode is 40 to 500 ms ahead of the last updates of an aborted or failed turn;
//! - late: the second idle of the turn before;
//! - not at all: an idle can be missed in a gap.

use crate::time::Time;

/// How long the turn must be quiet before the agent's status is probed.
pub(crate) const QUIET_MILLIS: u64 = 2_000;

/// How long the agent has to answer, and the time until a busy one is probed again.
pub(crate) const ANSWER_MILLIS: u64 = 30_000;

/// How strong the evidence for an end is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strength {
    /// An idle came while something of the turn was unfinished. Its completion, or a second idle, confirms
    /// the end.
    Likely,
    /// An idle came before the turn showed any work, or work followed it. Only a status probe, or another
    /// idle when all is finished, ends the turn.
    Doubtful,
    /// No idle came, but one may have been missed. Only a status probe ends the turn.
    Missed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Not,
    Waiting,
    /// Work was seen after the probe, so its answer may be old. The status is probed again.
    Overtaken,
}

/// A possible end that waits for more evidence.
pub(crate) struct PendingEnd {
    strength: Strength,
    until: Time,
    asked: Asked,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing.
    Nothing,
    /// Probe the agent's status.
    Ask,
    /// End the turn.
    End,
}

impl PendingEnd {
    /// Probes the status when the turn has been quiet for a while.
    pub(crate) fn new(strength: Strength, now: Time) -> Self {
        Self { strength, until: now.plus_millis(QUIET_MILLIS), asked: Asked::Not }
    }

    /// Probes the status at once.
    pub(crate) fn asking(now: Time) -> Self {
        let until = now.plus_millis(ANSWER_MILLIS);
        Self { strength: Strength::Missed, until, asked: Asked::Waiting }
    }

    pub(crate) fn is_likely(&self) -> bool {
        self.strength == Strength::Likely
    }

    /// When [`PendingEnd::due`] has something to do.
    pub(crate) fn until(&self) -> Time {
        self.until
    }

    /// Work went on, so the idle was early or of another turn.
    pub(crate) fn work_seen(&mut self, now: Time) {
        if self.strength == Strength::Likely {
            self.strength = Strength::Doubtful;
        }
        if self.asked == Asked::Waiting {
            self.asked = Asked::Overtaken;
        }
        self.until = now.plus_millis(QUIET_MILLIS);
    }

    /// What is to be done at this time.
    pub(crate) fn due(&mut self, now: Time) -> Due {
        if now < self.until {
            return Due::Nothing;
        }
        // An idle, silence and no answer to the probe: the turn is over.
        if self.asked == Asked::Waiting && self.strength != Strength::Missed {
            return Due::End;
        }
        self.ask(now)
    }

    /// The probe answered that no turn is running.
    pub(crate) fn idle_answered(&mut self, now: Time) -> Due {
        match self.asked {
            Asked::Not => Due::Nothing,
            Asked::Waiting => Due::End,
            Asked::Overtaken => self.ask(now),
        }
    }

    /// The probe answered that a turn is running. It is repeated if the turn stays quiet: every wait has a
    /// deadline (L13).
    pub(crate) fn busy_answered(&mut self, now: Time) {
        if self.asked != Asked::Not {
            *self =
                Self { strength: Strength::Missed, until: now.plus_millis(ANSWER_MILLIS), asked: Asked::Not };
        }
    }

    fn ask(&mut self, now: Time) -> Due {
        self.asked = Asked::Waiting;
        self.until = now.plus_millis(ANSWER_MILLIS);
        Due::Ask
    }
}
