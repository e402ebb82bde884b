//! What the client of one stream knows of each session. It is told every event once, and the idle of a turn
//! exactly once. This also holds if it fell behind or opened the stream in the middle.

use super::feed::last_ended;
use super::ring::Progress;
use std::collections::HashMap;
use turnstream_dialects::opencode::{Idle, is_busy};
use turnstream_model::cursor::Seq;
use turnstream_model::fold::State;
use turnstream_model::id::{SessionId, TurnId};
use turnstream_model::time::Time;

/// What a client knows of all sessions.
pub(super) struct Seen {
    opened: Time,
    sessions: HashMap<SessionId, Known>,
}

/// What it knows of one session.
struct Known {
    /// Up to which event of its log.
    seq: Seq,
    is_busy: bool,
    /// The last turn that it knows to be over.
    over: Option<TurnId>,
    /// The last turn whose idle it was told as an event of its own.
    idle: Option<TurnId>,
}

/// What of an entry is new to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    All,
    /// It was told the rest as a state. The idle happened after the stream was opened.
    Idle,
    Nothing,
}

impl Seen {
    /// Of a stream that was opened at this time.
    pub(super) fn new(opened: Time) -> Self {
        Self { opened, sessions: HashMap::new() }
    }

    /// When the stream was opened.
    pub(super) fn opened(&self) -> Time {
        self.opened
    }

    /// Notes an entry, and says what of it is to be told.
    pub(super) fn entry(&mut self, session: &SessionId, progress: &Progress) -> News {
        let Progress::Reached { seq, is_busy, over } = progress else {
            self.sessions.remove(session);
            return News::All;
        };
        let (seq, is_busy) = (*seq, *is_busy);
        match self.sessions.get_mut(session) {
            Some(known) if seq <= known.seq => {
                let is_new = over.is_some() && known.idle != *over && !known.is_busy;
                if !is_new {
                    return News::Nothing;
                }
                known.idle.clone_from(over);
                News::Idle
            }
            Some(known) => {
                (known.seq, known.is_busy) = (seq, is_busy);
                if over.is_some() {
                    (known.over, known.idle) = (over.clone(), over.clone());
                }
                News::All
            }
            None => {
                let known = Known { seq, is_busy, over: over.clone(), idle: over.clone() };
                self.sessions.insert(session.clone(), known);
                News::All
            }
        }
    }

    /// Whether a client that fell behind has missed the end of the last turn. It has no other way to learn of
    /// it.
    pub(super) fn missed_idle(&self, session: &SessionId, state: &State) -> bool {
        // A session that waits to continue a failed turn is not busy: that turn is over.
        if is_busy(state) {
            return false;
        }
        let last = state.turns.last().filter(|turn| !turn.is_open());
        match (self.sessions.get(session), last) {
            (Some(known), Some(last)) => {
                let turns = [&known.over, &known.idle];
                known.is_busy || turns.iter().all(|turn| turn.as_ref() != Some(&last.turn))
            }
            (Some(known), None) => known.is_busy,
            (None, Some(last)) => last.ended.is_some_and(|ended| ended >= self.opened),
            (None, None) => false,
        }
    }

    /// Notes that a client was told a state.
    pub(super) fn state(&mut self, session: &SessionId, state: &State, idle: Idle) {
        let over = last_ended(state);
        let told = match idle {
            Idle::Missed => over.clone(),
            Idle::Told | Idle::LeftOut => self.sessions.remove(session).and_then(|known| known.idle),
        };
        let is_busy = is_busy(state);
        self.sessions.insert(session.clone(), Known { seq: state.seq, is_busy, over, idle: told });
    }
}

#[cfg(test)]
mod tests {
    use super::{News, Seen};
    use crate::opencode::ring::Progress;
    use turnstream_dialects::opencode::Idle;
    use turnstream_model::cursor::Seq;
    use turnstream_model::event::Event;
    use turnstream_model::fold::{Fold, State};
    use turnstream_model::id::{SessionId, TurnId};
    use turnstream_model::time::Time;

    const LOG: [&str; 7] = [
        r#"{"seq":1,"time":1,"type":"session.created","session":"s","agent":"demo","cwd":"/srv"}"#,
        r#"{"seq":2,"time":5,"type":"turn.started","turn":"t1","origin":"agent","prompts":[]}"#,
        r#"{"seq":3,"time":6,"type":"turn.ended","turn":"t1","outcome":"completed","stop_reason":"end_turn"}"#,
        r#"{"seq":4,"time":7,"type":"session.updated","title":"T"}"#,
        r#"{"seq":5,"time":8,"type":"turn.started","turn":"t2","origin":"agent","prompts":[]}"#,
        r#"{"seq":6,"time":9,"type":"turn.ended","turn":"t2","outcome":"completed","stop_reason":"end_turn"}"#,
        r#"{"seq":7,"time":9,"type":"session.updated","title":"U"}"#,
    ];

    fn id() -> SessionId {
        SessionId::from("s")
    }

    fn state(events: usize) -> State {
        let log: Vec<Event> = LOG[..events].iter().map(|line| Event::from_json(line).unwrap()).collect();
        Fold::of(&log).state().clone()
    }

    fn reached(seq: u64) -> Progress {
        let over = match seq {
            3 => Some(TurnId::from("t1")),
            6 => Some(TurnId::from("t2")),
            _ => None,
        };
        Progress::Reached { seq: Seq(seq), is_busy: seq == 2 || seq == 5, over }
    }

    #[test]
    fn the_idle_of_a_turn_that_ended_while_the_stream_opened_is_told_once() {
        let mut seen = Seen::new(Time(4));
        // The state was read after the end of the turn, and told without its idle.
        seen.state(&id(), &state(3), Idle::LeftOut);
        assert_eq!(seen.entry(&id(), &reached(2)), News::Nothing);
        assert_eq!(seen.entry(&id(), &reached(3)), News::Idle);
        assert_eq!(seen.entry(&id(), &reached(3)), News::Nothing);
        assert_eq!(seen.entry(&id(), &reached(4)), News::All);
        assert!(!seen.missed_idle(&id(), &state(4)));
    }

    #[test]
    fn a_client_that_fell_behind_has_missed_an_idle_unless_it_was_told_of_it() {
        let mut seen = Seen::new(Time(4));
        assert!(seen.missed_idle(&id(), &state(3)), "it knows nothing of the session");
        assert!(!Seen::new(Time(7)).missed_idle(&id(), &state(3)), "it was over before");
        for seq in 2..=4 {
            assert_eq!(seen.entry(&id(), &reached(seq)), News::All);
        }
        assert!(!seen.missed_idle(&id(), &state(4)), "it was told");
        assert!(seen.missed_idle(&id(), &state(7)), "another turn has begun and ended since");
        seen.state(&id(), &state(7), Idle::Missed);
        for seq in 5..=7 {
            assert_eq!(seen.entry(&id(), &reached(seq)), News::Nothing);
        }
        assert!(!seen.missed_idle(&id(), &state(7)));
    }

    #[test]
    fn a_client_that_was_told_of_a_turn_learns_of_its_end() {
        let mut seen = Seen::new(Time(4));
        seen.state(&id(), &state(5), Idle::LeftOut);
        assert!(!seen.missed_idle(&id(), &state(5)), "it is open");
        assert!(seen.missed_idle(&id(), &state(6)));
        // A session that is gone and comes again begins anew.
        assert_eq!(seen.entry(&id(), &Progress::Gone), News::All);
        assert_eq!(seen.entry(&id(), &reached(2)), News::All);
    }
}
