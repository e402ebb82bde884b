//! Turns of other clients that ran while no link was up. They are reported before the first prompt.

use super::Conversation;
use crate::translate::{Stored, Translated, Want};
use std::collections::HashSet;
use std::time::Duration;
use turnstream_adapter::LoggedWork;
use turnstream_adapter::Observed;
use turnstream_model::event::NoticeCode;
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;

/// How long a prompt waits for the newest messages. Without them the turns of other clients are not seen.
pub(super) const COMPARE_LIMIT: Duration = Duration::from_secs(20);

/// The messages of the session that the log knows.
pub(super) struct LoggedMessages {
    /// The ids of the gateway's prompts and of their answers. Without cancelled prompts: if one of those
    /// started, it is reported.
    ids: HashSet<String>,
}

impl LoggedMessages {
    fn of(known: &LoggedWork) -> Self {
        let of_call = |call: &str| call.split('#').next().unwrap_or_default().to_owned();
        let calls = known.calls.iter().map(|call| of_call(call.as_str()));
        let prompts = known.prompts.iter().filter(|prompt| !known.unwanted.contains(prompt));
        Self { ids: prompts.cloned().chain(calls).collect() }
    }

    fn has(&self, stored: &Stored) -> bool {
        let answers = stored.info.parent.as_ref().is_some_and(|parent| self.ids.contains(parent));
        answers || self.ids.contains(&stored.info.id)
    }
}

impl Conversation {
    /// Compares an older session with the log. Turns that the log lacks are reported first, then
    /// [`Observed::Back`]. Returns false if the log has nothing to compare with.
    pub fn catch_up_from(&mut self, known: &LoggedWork) -> bool {
        self.unwanted.extend(known.unwanted.iter().cloned());
        let logged = LoggedMessages::of(known);
        let may_compare = !logged.ids.is_empty();
        self.logged = may_compare.then_some(logged);
        may_compare
    }

    /// Reports the turns among the newest messages that the log lacks.
    pub(super) fn catch_up(&mut self, messages: &[Stored], now: Time) {
        let Some(logged) = self.logged.take() else { return self.translator.remember(messages) };
        match messages.iter().rposition(|stored| logged.has(stored)) {
            Some(last) => {
                self.translator.remember(&messages[..=last]);
                for turn in turns(&messages[last + 1..]) {
                    self.report_turn(turn, now);
                }
            }
            None => {
                self.translator.remember(messages);
                self.report(missing_turns_notice(
                    "the newest messages of opencode are none that the log knows",
                ));
            }
        }
        self.observed.push_back(Observed::Back);
    }

    /// The newest messages could not be read: a notice says that turns may be missing.
    pub(super) fn give_up_catching_up(&mut self) {
        if self.logged.take().is_some() {
            self.report(missing_turns_notice("opencode did not answer"));
            self.observed.push_back(Observed::Back);
        }
    }

    /// Reports one turn of another client. It is over, unless it is the last one and still runs.
    fn report_turn(&mut self, messages: &[Stored], now: Time) {
        let mut out = Translated::default();
        for stored in messages {
            self.translator.stored(stored, &mut out);
        }
        // Reported directly, past the budget: the limits of the turn are those of the other client.
        out.signals.into_iter().for_each(|signal| self.report(signal));
        for want in out.wants {
            if let Want::Child(child) = want {
                self.calls.push_back(super::Call::Adopt(child));
            }
        }
        let is_over = !self.translator.has_open_answer() && !self.translator.is_between_calls();
        if !is_over {
            self.last_activity = now;
            let prompts: Vec<String> = messages.iter().map(|stored| stored.info.id.clone()).collect();
            return self.stop_if_unwanted(&prompts, now);
        }
        let mut ended = Translated::default();
        self.translator.end_turn(&mut ended);
        // The end is reported twice, which confirms it: the server has stored it.
        for signal in ended.signals {
            self.report(signal.clone());
            self.end_turn(signal);
        }
    }
}

/// Splits messages into turns. A turn begins with a message of a person and has at least one answer.
/// Messages before the first such message belong to a turn that the log knows.
fn turns(messages: &[Stored]) -> impl Iterator<Item = &[Stored]> {
    let mut begins: Vec<usize> = (0..messages.len()).filter(|place| messages[*place].is_persons()).collect();
    begins.push(messages.len());
    let spans: Vec<(usize, usize)> = begins.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let turns = spans.into_iter().map(|(from, to)| &messages[from..to]);
    turns.filter(|turn| turn.iter().any(|stored| stored.info.is_assistant()))
}

fn missing_turns_notice(why: &str) -> Signal {
    let message = format!(
        "what other clients did in this session while its agent was put away may be missing here: {why}"
    );
    Signal::Notice { code: NoticeCode::Gap, message, detail: None }
}
