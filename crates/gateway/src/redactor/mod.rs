//! Redaction of an agent's signals before the turn machine sees them, so that no secret reaches the log
//! (L9).
//!
//! It comes before the machine because the machine compares streamed text with snapshots (L6), also for a
//! turn of an earlier owner. Both sides must be redacted for that, and the log has only redacted text.

mod body;
mod labels;
mod user_input;

pub(crate) use body::{Prompts, redact_body};
pub(crate) use labels::{Forgotten, Labels};
pub(crate) use user_input::{UserInput, refuse_secret, still_a_name};

use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;
use turnstream_model::event::{Field, ToolStatus};
use turnstream_model::id::Key;
use turnstream_model::machine::Machine;
use turnstream_model::signal::{Finality, ProbedStatus, Signal};
use turnstream_redact::{Held, Rules, Stream};

/// How long text is held back that could be the beginning of a secret.
const BRIEFLY: Duration = Duration::from_millis(50);

/// The streamed texts of one session, and what is held back of them.
pub(crate) struct Redactor {
    rules: Rules,
    texts: HashMap<(Key, Field), Text>,
    /// Set when the beginning of a new text may have been missed, and with it the beginning of a secret.
    missed: bool,
    /// The agent's own labels of the choices that it offers.
    labels: Labels,
}

/// One streamed text.
struct Text {
    stream: Stream,
    /// Bytes received from the agent.
    received: usize,
    /// Bytes passed on.
    passed: usize,
    /// Since when text is held back that is released after a while.
    since: Option<Instant>,
}

impl Redactor {
    /// For a session without an open turn.
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules, texts: HashMap::new(), missed: false, labels: Labels::default() }
    }

    /// For a session with an open turn.
    pub(crate) fn resumed(rules: Rules) -> Self {
        Self { missed: true, ..Self::new(rules) }
    }

    /// Passes the signal on, redacted. Text that is held back comes with a later signal or after a while.
    pub(crate) fn pass(
        &mut self,
        signal: Signal,
        machine: &Machine,
        prompts: Prompts,
        now: Instant,
        out: &mut Vec<Signal>,
    ) {
        match signal {
            Signal::TextDelta { key, field, text } => self.delta(key, field, &text, now, out),
            Signal::TextSnapshot { key, field, text, finality: Finality::Final } => {
                self.texts.remove(&(key.clone(), field));
                let (text, finality) = (self.rules.redact(&text).into_owned(), Finality::Final);
                out.push(Signal::TextSnapshot { key, field, text, finality });
            }
            Signal::TextSnapshot { key, field, text, finality: Finality::SoFar } => {
                let have = machine.text(&key, field);
                let text = self.snapshot(&key, field, &text, have, now);
                out.push(Signal::TextSnapshot { key, field, text, finality: Finality::SoFar });
            }
            Signal::ToolSeen { key, parent, mut tool } => {
                if matches!(tool.status, Some(ToolStatus::Completed | ToolStatus::Failed)) {
                    self.end(&key, out);
                }
                body::redact(&self.rules, &mut tool);
                out.push(Signal::ToolSeen { key, parent, tool });
            }
            Signal::Ask { key, item, mut tool, options } => {
                body::redact(&self.rules, &mut tool);
                out.push(Signal::Ask { key, item, tool, options });
            }
            Signal::Question { key, item, mut questions } => {
                self.labels.offer(&self.rules, &key, &mut questions);
                out.push(Signal::Question { key, item, questions });
            }
            // A user of another client has answered it.
            Signal::QuestionClosed { key, outcome, mut answers } => {
                if let Some(answers) = &mut answers {
                    // A choice is the agent's text: it is redacted also in sessions that keep prompts as
                    // they are.
                    self.labels.show(&key, answers);
                    if prompts == Prompts::Redacted {
                        body::redact(&self.rules, answers);
                    }
                }
                out.push(Signal::QuestionClosed { key, outcome, answers });
            }
            Signal::Session(mut patch) => {
                body::redact(&self.rules, &mut patch);
                out.push(Signal::Session(patch));
            }
            Signal::ItemEnded { .. } => {
                if let Signal::ItemEnded { key, .. } = &signal {
                    self.end(key, out);
                }
                out.push(signal);
            }
            Signal::ItemRemoved(ref key) => {
                self.texts.retain(|(of, _), _| of != key);
                out.push(signal);
            }
            // Each of these may end the turn, so all text is passed on. If the turn goes on, the streams go
            // on too.
            Signal::TurnIdle { .. }
            | Signal::TurnDone { .. }
            | Signal::LinkLost(_)
            | Signal::StatusProbed { status: ProbedStatus::Idle, .. } => {
                self.flush(out);
                out.push(signal);
            }
            // The texts of the repeated call begin again. The signal does not say which texts those are, so
            // all texts except tool output are treated so.
            Signal::Retrying { .. } => {
                self.flush(out);
                for ((_, field), text) in &mut self.texts {
                    match field {
                        Field::Text | Field::Input => *text = Text::new(&self.rules, true),
                        Field::Output => {}
                    }
                }
                out.push(signal);
            }
            Signal::Gap(_) => {
                self.flush(out);
                for text in self.texts.values_mut() {
                    let Text { received, passed, .. } = *text;
                    *text = Text { received, passed, ..Text::new(&self.rules, true) };
                }
                self.missed = true;
                out.push(signal);
            }
            // The beginning of another turn ends the open one.
            Signal::TurnBegan { ref native_id, .. } => {
                if machine.is_another_turn(native_id.as_deref()) {
                    self.flush(out);
                }
                out.push(signal);
            }
            // These have no streamed text. Their other texts are redacted in the events they become.
            Signal::PromptTaken(_)
            | Signal::PromptRefused { .. }
            | Signal::AttemptBegan { .. }
            | Signal::AttemptEnded { .. }
            | Signal::ItemSeen(_)
            | Signal::AskClosed { .. }
            | Signal::Usage { .. }
            | Signal::Failed(_)
            | Signal::StatusProbed { status: ProbedStatus::Busy, .. }
            | Signal::Notice { .. } => out.push(signal),
        }
    }

    /// The agent's own labels of the choices that it offers.
    pub(crate) fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Passes on everything that is held back, redacted if need be. The streams can go on afterwards.
    pub(crate) fn flush(&mut self, out: &mut Vec<Signal>) {
        for ((key, field), text) in &mut self.texts {
            text.flush(key, *field, out);
        }
    }

    /// When [`Redactor::release`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.texts.values().filter_map(|text| text.since).min().map(|since| since + BRIEFLY)
    }

    /// Passes on text that was held back for long enough and did not become a secret.
    pub(crate) fn release(&mut self, now: Instant, out: &mut Vec<Signal>) {
        for ((key, field), text) in &mut self.texts {
            if text.since.is_some_and(|since| since + BRIEFLY <= now) {
                let mut released = String::new();
                text.stream.release(&mut released);
                text.passed += released.len();
                text.since = None;
                push_delta(key, *field, released, out);
            }
        }
    }

    /// A turn begins, and its texts are seen from their beginning.
    pub(crate) fn turn_started(&mut self) {
        self.missed = false;
    }

    /// A turn has ended. Only texts of these items are kept.
    pub(crate) fn keep_only(&mut self, is_open: impl Fn(&Key) -> bool) {
        self.texts.retain(|(key, _), _| is_open(key));
    }

    fn delta(&mut self, key: Key, field: Field, text: &str, now: Instant, out: &mut Vec<Signal>) {
        let mut passed = String::with_capacity(text.len());
        let (rules, missed) = (&self.rules, self.missed);
        let entry = self.texts.entry((key.clone(), field)).or_insert_with(|| Text::new(rules, missed));
        entry.push(text, now, &mut passed);
        push_delta(&key, field, passed, out);
    }

    /// Redacts a snapshot of a text for the machine's comparison. A snapshot may end within a secret, and
    /// may be older than the stream. The next delta continues the newer of the two.
    fn snapshot(&mut self, key: &Key, field: Field, text: &str, have: Option<&str>, now: Instant) -> String {
        let place = (key.clone(), field);
        let mut passed = String::with_capacity(text.len());
        let mut whole = Text::new(&self.rules, false);
        whole.push(text, now, &mut passed);
        let streamed = self.texts.get(&place);
        // A snapshot is empty while the agent has not stored what it streams.
        if text.is_empty() || streamed.is_some_and(|streamed| streamed.received >= whole.received) {
            return passed;
        }
        // The machine does not show the text of an item that was not introduced yet, so lengths are compared.
        let before = streamed.map_or(0, |streamed| streamed.passed);
        let is_older = match have {
            Some(have) => have.len() > passed.len() && have.starts_with(&passed),
            None => before > passed.len(),
        };
        let shows_all = |shown: &str| match have {
            Some(have) => shown.starts_with(have),
            None => shown.len() >= before,
        };
        if is_older {
            // The machine may have text that this snapshot holds back: it was released after a while, or
            // flushed by a gap. Then it is passed on here too.
            let mut shown = passed.clone();
            whole.stream.release(&mut shown);
            if !shows_all(&shown) {
                whole.stream.settle(&mut shown);
            }
            if !shows_all(&shown) {
                return passed;
            }
            whole.passed = shown.len();
            whole.since = None;
            passed = shown;
        }
        self.texts.insert(place, whole);
        passed
    }

    /// The item has ended: its texts are complete.
    fn end(&mut self, key: &Key, out: &mut Vec<Signal>) {
        for field in [Field::Text, Field::Input, Field::Output] {
            if let Some(text) = self.texts.remove(&(key.clone(), field)) {
                let mut rest = String::new();
                text.stream.finish(&mut rest);
                push_delta(key, field, rest, out);
            }
        }
    }
}

impl Text {
    fn new(rules: &Rules, missed: bool) -> Self {
        let stream = if missed { Stream::in_the_middle(rules) } else { Stream::new(rules) };
        Self { stream, received: 0, passed: 0, since: None }
    }

    fn push(&mut self, text: &str, now: Instant, out: &mut String) {
        self.received += text.len();
        let before = out.len();
        self.stream.push(text, out);
        self.passed += out.len() - before;
        self.since = match self.stream.holds() {
            Held::Brief => Some(self.since.filter(|_| out.is_empty()).unwrap_or(now)),
            Held::Nothing | Held::Firm => None,
        };
    }

    fn flush(&mut self, key: &Key, field: Field, out: &mut Vec<Signal>) {
        let mut flushed = String::new();
        self.stream.settle(&mut flushed);
        self.passed += flushed.len();
        self.since = None;
        push_delta(key, field, flushed, out);
    }
}

fn push_delta(key: &Key, field: Field, text: String, out: &mut Vec<Signal>) {
    if !text.is_empty() {
        out.push(Signal::TextDelta { key: key.clone(), field, text });
    }
}
