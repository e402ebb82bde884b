//! What other clients did in the session while there was no link to it: taken in before the first prompt.

use super::Conductor;
use crate::agent::Known;
use crate::link::Observed;
use crate::opencode::translate::{Found, Stored, Want};
use std::collections::HashSet;
use std::time::Duration;
use turnstream_model::event::NoticeCode;
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;

/// How long is waited for the messages of the session. It is one request; without its answer turns of others
/// are not seen.
pub(super) const ASKED: Duration = Duration::from_secs(20);

/// What the log has of the session, by the names of messages.
pub(super) struct Seen {
    /// Prompts of ours, and what they were answered with. What a cancelled one does is news.
    messages: HashSet<String>,
}

impl Seen {
    fn of(known: &Known) -> Self {
        let of_call = |call: &str| call.split('#').next().unwrap_or_default().to_owned();
        let calls = known.calls.iter().map(|call| of_call(call.as_str()));
        let prompts = known.prompts.iter().filter(|prompt| !known.unwanted.contains(prompt));
        Self { messages: prompts.cloned().chain(calls).collect() }
    }

    fn has(&self, stored: &Stored) -> bool {
        let answers = stored.info.parent.as_ref().is_some_and(|parent| self.messages.contains(parent));
        answers || self.messages.contains(&stored.info.id)
    }
}

impl Conductor {
    /// The session was there before, and the log has this of it. What came since is told first, and then
    /// [`Observed::Back`]. True when there is something to compare with.
    pub fn catch_up_from(&mut self, known: &Known) -> bool {
        self.unwanted.extend(known.unwanted.iter().cloned());
        let seen = Seen::of(known);
        let may_compare = !seen.messages.is_empty();
        self.seen = may_compare.then_some(seen);
        may_compare
    }

    /// The newest messages of the session are there.
    pub(super) fn catch_up(&mut self, messages: &[Stored], now: Time) {
        let Some(seen) = self.seen.take() else { return self.translator.remember(messages) };
        match messages.iter().rposition(|stored| seen.has(stored)) {
            Some(last) => {
                self.translator.remember(&messages[..=last]);
                for turn in turns(&messages[last + 1..]) {
                    self.take_turn(turn, now);
                }
            }
            None => {
                self.translator.remember(messages);
                self.say(unseen("the newest messages of opencode are none that the log knows"));
            }
        }
        self.observed.push_back(Observed::Back);
    }

    /// Nobody can say what others did.
    pub(super) fn give_up_catching_up(&mut self) {
        if self.seen.take().is_some() {
            self.say(unseen("opencode did not answer"));
            self.observed.push_back(Observed::Back);
        }
    }

    /// One turn of another client. It is over, unless it is the last of the session and still runs.
    fn take_turn(&mut self, messages: &[Stored], now: Time) {
        let mut found = Found::default();
        for stored in messages {
            self.translator.stored(stored, &mut found);
        }
        // Not as what happens now: its limits were those of whoever asked for it.
        found.signals.into_iter().for_each(|signal| self.say(signal));
        for want in found.wants {
            if let Want::Child(child) = want {
                self.calls.push_back(super::Call::Adopt(child));
            }
        }
        let is_over = !self.translator.has_open_answer() && !self.translator.is_between_calls();
        if !is_over {
            self.heard = now;
            let prompts: Vec<String> = messages.iter().map(|stored| stored.info.id.clone()).collect();
            return self.stop_if_unwanted(&prompts, now);
        }
        let mut ended = Found::default();
        self.translator.rest(&mut ended);
        // The server has stored its end: said twice, nobody waits for more of it.
        for signal in ended.signals {
            self.say(signal.clone());
            self.end_by(signal);
        }
    }
}

/// The turns among these messages: each begins with what a person wrote. What is before the first is the end
/// of a turn that the log knows. One without an answer has not begun.
fn turns(messages: &[Stored]) -> impl Iterator<Item = &[Stored]> {
    let mut begins: Vec<usize> = (0..messages.len()).filter(|place| messages[*place].is_persons()).collect();
    begins.push(messages.len());
    let spans: Vec<(usize, usize)> = begins.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let turns = spans.into_iter().map(|(from, to)| &messages[from..to]);
    turns.filter(|turn| turn.iter().any(|stored| stored.info.is_assistant()))
}

fn unseen(why: &str) -> Signal {
    let message = format!(
        "what other clients did in this session while its agent was put away may be missing here: {why}"
    );
    Signal::Notice { code: NoticeCode::Gap, message, detail: None }
}
