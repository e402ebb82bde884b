//! Holds messages back until they are complete and no retry can void them.

use crate::escape::Untrusted;
use std::collections::HashMap;

/// The messages, oldest first.
#[derive(Default)]
pub(super) struct HeldMessages {
    open: Vec<Message>,
    attempts: HashMap<String, Attempt>,
}

struct Message {
    item: String,
    attempt: Option<String>,
    text: String,
    is_whole: bool,
}

/// A model call. Until it is settled it can be repeated, which voids its messages.
struct Attempt {
    step: Option<u64>,
    is_settled: bool,
}

impl HeldMessages {
    pub(super) fn begin(&mut self, item: &str, attempt: Option<Untrusted<'_>>) {
        let attempt = attempt.map(|attempt| attempt.exact().to_owned());
        self.open.push(Message { item: item.to_owned(), attempt, text: String::new(), is_whole: false });
    }

    /// Returns false if the message is not held here, as the methods below do.
    pub(super) fn append(&mut self, item: &str, text: &str) -> bool {
        self.find(item).map(|message| message.text.push_str(text)).is_some()
    }

    pub(super) fn replace(&mut self, item: &str, text: &str) -> bool {
        self.find(item).map(|message| text.clone_into(&mut message.text)).is_some()
    }

    pub(super) fn end(&mut self, item: &str) {
        if let Some(message) = self.find(item) {
            message.is_whole = true;
        }
    }

    /// The message is not an answer after all. Returns its text so far.
    pub(super) fn drop(&mut self, item: &str) -> Option<String> {
        let place = self.open.iter().position(|message| message.item == item)?;
        Some(self.open.remove(place).text)
    }

    /// A repeated call has the step of the first one. Any other call settles the calls before it.
    pub(super) fn attempt_started(&mut self, attempt: &str, step: Option<u64>) {
        for earlier in self.attempts.values_mut() {
            earlier.is_settled |= earlier.step != step;
        }
        self.attempts.insert(attempt.to_owned(), Attempt { step, is_settled: false });
    }

    /// A call that did not end well can be repeated.
    pub(super) fn attempt_ended(&mut self, attempt: &str, finish: Option<Untrusted<'_>>) {
        if let Some(attempt) = self.attempts.get_mut(attempt) {
            attempt.is_settled |= finish.is_some_and(|finish| finish.exact() != "error");
        }
    }

    /// The call was repeated. Its messages that were not dropped are final.
    pub(super) fn attempt_superseded(&mut self, attempt: &str) {
        if let Some(attempt) = self.attempts.get_mut(attempt) {
            attempt.is_settled = true;
        }
    }

    /// The turn has ended, so no call is repeated. A message without an end does not hold back later turns.
    pub(super) fn turn_ended(&mut self) {
        self.attempts.clear();
        self.open.retain(|message| message.is_whole);
    }

    /// Removes and returns the final texts, in order: each waits for those before it.
    pub(super) fn settled(&mut self) -> Vec<String> {
        let attempts = &self.attempts;
        let is_final = |message: &Message| {
            let attempt = message.attempt.as_ref().and_then(|attempt| attempts.get(attempt));
            message.is_whole && attempt.is_none_or(|attempt| attempt.is_settled)
        };
        let count = self.open.iter().take_while(|message| is_final(message)).count();
        let settled = self.open.drain(..count);
        settled.map(|message| message.text).filter(|text| !text.is_empty()).collect()
    }

    fn find(&mut self, item: &str) -> Option<&mut Message> {
        self.open.iter_mut().find(|message| message.item == item)
    }
}

#[cfg(test)]
mod tests {
    use super::HeldMessages;
    use crate::escape::Untrusted;

    /// Complete messages of one call.
    fn written(attempt: Option<&str>, texts: &[&str]) -> HeldMessages {
        let mut messages = HeldMessages::default();
        if let Some(attempt) = attempt {
            messages.attempt_started(attempt, Some(1));
        }
        for text in texts {
            messages.begin(text, attempt.map(Untrusted));
            messages.append(text, text);
            messages.end(text);
        }
        messages
    }

    #[test]
    fn a_message_waits_until_its_call_cannot_be_begun_again() {
        let mut messages = written(Some("a1"), &["one", "two"]);
        assert!(messages.settled().is_empty());
        messages.attempt_ended("a1", Some(Untrusted("error")));
        assert!(messages.settled().is_empty());
        messages.attempt_started("a2", Some(1));
        assert_eq!(messages.drop("one").as_deref(), Some("one"));
        messages.attempt_started("a3", Some(2));
        assert_eq!(messages.settled(), ["two"]);
        assert!(messages.settled().is_empty());
    }

    #[test]
    fn what_survives_an_attempt_that_is_begun_again_comes_before_its_repeat() {
        let mut messages = written(Some("a1"), &["one"]);
        messages.attempt_started("a2", Some(1));
        messages.begin("two", Some(Untrusted("a2")));
        messages.append("two", "two");
        messages.end("two");
        messages.attempt_ended("a2", Some(Untrusted("stop")));
        assert!(messages.settled().is_empty(), "an earlier message is held");
        messages.attempt_superseded("a1");
        assert_eq!(messages.settled(), ["one", "two"]);
    }

    #[test]
    fn a_message_without_an_end_holds_nothing_back_after_its_turn() {
        let mut messages = HeldMessages::default();
        messages.begin("open", None);
        messages.begin("whole", None);
        messages.append("whole", "whole");
        messages.end("whole");
        assert!(messages.settled().is_empty());
        messages.turn_ended();
        assert_eq!(messages.settled(), ["whole"]);
    }

    #[test]
    fn where_no_calls_are_seen_a_whole_message_is_final() {
        assert_eq!(written(None, &["one"]).settled(), ["one"]);
        let mut ended = written(Some("a1"), &["one"]);
        ended.attempt_ended("a1", Some(Untrusted("stop")));
        assert_eq!(ended.settled(), ["one"]);
        let mut turn = written(Some("a1"), &["one"]);
        turn.turn_ended();
        assert_eq!(turn.settled(), ["one"]);
    }
}
