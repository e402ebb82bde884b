//! A turn whose end is in doubt. Agents say idle early (opencode: 40 to 500 ms before the closing updates of an aborted
//! or failed turn) and late (the second idle of the turn before), without saying which turn they mean; and an idle can
//! be missed in a gap.

use crate::time::Time;

/// How long it is quiet before the agent itself is asked.
pub(crate) const QUIET_MILLIS: u64 = 2_000;

/// How long the agent has to answer, and how long until a busy one is asked again.
pub(crate) const ANSWER_MILLIS: u64 = 30_000;

/// What there is to believe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strength {
    /// An idle while something of the turn was unfinished: the completion of that, or a second idle, confirms it.
    Likely,
    /// An idle before the turn had shown anything, or work went on after it: only the agent's own word, or another
    /// idle when all is finished, can end the turn.
    Doubtful,
    /// No idle at all, only the possibility that one was missed: only the agent's own word counts.
    Missed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Not,
    Waiting,
    /// Work was seen since: the answer may be older than that, and is asked for again.
    Overtaken,
}

/// A doubt that waits for more evidence.
pub(crate) struct Hold {
    strength: Strength,
    until: Time,
    asked: Asked,
}

/// What a hold wants.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing.
    Nothing,
    /// Ask the agent.
    Ask,
    /// End the turn.
    End,
}

impl Hold {
    /// The agent is asked when it has been quiet for a while.
    pub(crate) fn new(strength: Strength, now: Time) -> Self {
        Self { strength, until: now.plus_millis(QUIET_MILLIS), asked: Asked::Not }
    }

    /// The agent is asked at once.
    pub(crate) fn asking(now: Time) -> Self {
        let until = now.plus_millis(ANSWER_MILLIS);
        Self { strength: Strength::Missed, until, asked: Asked::Waiting }
    }

    pub(crate) fn is_likely(&self) -> bool {
        self.strength == Strength::Likely
    }

    /// When it has something to do.
    pub(crate) fn until(&self) -> Time {
        self.until
    }

    /// Work went on: an idle was of another turn or too early.
    pub(crate) fn work_seen(&mut self, now: Time) {
        if self.strength == Strength::Likely {
            self.strength = Strength::Doubtful;
        }
        if self.asked == Asked::Waiting {
            self.asked = Asked::Overtaken;
        }
        self.until = now.plus_millis(QUIET_MILLIS);
    }

    /// Time has passed.
    pub(crate) fn due(&mut self, now: Time) -> Due {
        if now < self.until {
            return Due::Nothing;
        }
        // An idle, silence, and no answer for all that time: it is over.
        if self.asked == Asked::Waiting && self.strength != Strength::Missed {
            return Due::End;
        }
        self.ask(now)
    }

    /// The agent says that no turn is running.
    pub(crate) fn idle_answered(&mut self, now: Time) -> Due {
        match self.asked {
            Asked::Not => Due::Nothing,
            Asked::Waiting => Due::End,
            Asked::Overtaken => self.ask(now),
        }
    }

    /// The agent says that a turn is running. It is asked again if it stays quiet: every wait has a deadline.
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
