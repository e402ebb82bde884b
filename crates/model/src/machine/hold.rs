//! An idle that is not believed yet. Agents say idle early (opencode: 40 to 500 ms before the closing updates of an
//! aborted or failed turn) and late (the second idle of the turn before), without saying which turn they mean.

use crate::time::Time;

/// How long an idle waits for the rest of its turn before the agent itself is asked.
pub(crate) const HOLD_MILLIS: u64 = 2_000;

/// How long the agent has to answer; then its idle is believed, as nothing else came for all that time.
pub(crate) const ANSWER_MILLIS: u64 = 30_000;

/// How much a held idle proves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strength {
    /// It came while something of the turn was unfinished: the completion of that, or a second idle, confirms it.
    Likely,
    /// It came before the turn had shown anything, or work went on after it: only the agent's own word, or
    /// another idle when all is finished, can end the turn.
    Doubtful,
    /// There was none, only a gap in which one may have been missed: only the agent's own word counts.
    Gap,
}

/// An idle, or a gap, that waits for more evidence.
pub(crate) struct Hold {
    pub(crate) strength: Strength,
    pub(crate) until: Time,
    /// The agent has been asked and nothing was seen since.
    pub(crate) asked: bool,
}

/// What a hold wants when its time has come.
pub(crate) enum Due {
    /// Nothing yet.
    No,
    /// Ask the agent.
    Ask,
    /// Believe the idle.
    Believe,
}

impl Hold {
    pub(crate) fn idle(strength: Strength, now: Time) -> Self {
        Self { strength, until: now.plus_millis(HOLD_MILLIS), asked: false }
    }

    /// After a gap the agent is asked at once.
    pub(crate) fn gap(now: Time) -> Self {
        Self { strength: Strength::Gap, until: now.plus_millis(ANSWER_MILLIS), asked: true }
    }

    /// Work went on. An idle was of another turn or too early; a gap swallowed none.
    pub(crate) fn after_work(&self, now: Time) -> Option<Self> {
        match self.strength {
            Strength::Likely | Strength::Doubtful => Some(Self::idle(Strength::Doubtful, now)),
            Strength::Gap => None,
        }
    }

    pub(crate) fn due(&mut self, now: Time) -> Due {
        if now < self.until {
            return Due::No;
        }
        if self.asked && self.strength != Strength::Gap {
            return Due::Believe;
        }
        self.asked = true;
        self.until = now.plus_millis(ANSWER_MILLIS);
        Due::Ask
    }
}
