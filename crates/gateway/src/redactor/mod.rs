//! What an agent says passes here before the turn machine sees it, so that no secret reaches the log (L9).
//!
//! Before the machine and not behind it: the machine compares what streams in with snapshots of the whole (L6), also with
//! those of a turn that an earlier owner began. Both sides have to be redacted for that, and the log has no other.

mod body;
mod front;
mod labels;

pub(crate) use body::{Prompts, redact_body};
pub(crate) use front::{Said, refuse_secret, still_a_name};
pub(crate) use labels::{Forgotten, Labels};

use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;
use turnstream_model::event::{Field, ToolStatus};
use turnstream_model::id::Key;
use turnstream_model::machine::Machine;
use turnstream_model::signal::{Finality, Signal, Truth};
use turnstream_redact::{Held, Rules, Stream};

/// How long text may be held back that could become a secret and shows no sign of one.
const BRIEFLY: Duration = Duration::from_millis(50);

/// The texts of one session that are being streamed, and what of them is held back.
pub(crate) struct Redactor {
    rules: Rules,
    texts: HashMap<(Key, Field), Text>,
    /// The beginning of a text that shows now may have been missed, and with it that of a secret.
    missed: bool,
    /// What the agent calls the choices that it offers.
    labels: Labels,
}

/// One text that grows.
struct Text {
    stream: Stream,
    /// Bytes of it that the agent has sent, as it sent them.
    taken: usize,
    /// Bytes of it that were let through.
    said: usize,
    /// Since when something is held back that time alone may release.
    since: Option<Instant>,
}

impl Redactor {
    /// For a session that begins, or of which an earlier owner left nothing open.
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules, texts: HashMap::new(), missed: false, labels: Labels::default() }
    }

    /// For a session that was in the middle of a turn.
    pub(crate) fn resumed(rules: Rules) -> Self {
        Self { missed: true, ..Self::new(rules) }
    }

    /// What the machine may see of this now. What is held back comes with a later signal, or by time.
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
            // A person has answered it elsewhere.
            Signal::QuestionClosed { key, outcome, mut answers } => {
                if let Some(answers) = &mut answers {
                    // A choice is what the agent said, also in a session whose prompts are kept as they are.
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
            // Each of them may end the turn, and a turn ends with all that was said in it. If it does not, because it was
            // late or is doubted, the streams go on from where they are.
            Signal::TurnIdle { .. }
            | Signal::TurnDone { .. }
            | Signal::LinkLost(_)
            | Signal::Truth { truth: Truth::Idle, .. } => {
                self.settle(out);
                out.push(signal);
            }
            // The texts of the call that is repeated begin anew. Those of others go on, and which is which is not said. What a
            // tool puts out is none of a call.
            Signal::Retrying { .. } => {
                self.settle(out);
                for ((_, field), text) in &mut self.texts {
                    match field {
                        Field::Text | Field::Input => *text = Text::new(&self.rules, true),
                        Field::Output => {}
                    }
                }
                out.push(signal);
            }
            Signal::Gap(_) => {
                self.settle(out);
                for text in self.texts.values_mut() {
                    *text = Text { taken: text.taken, said: text.said, ..Text::new(&self.rules, true) };
                }
                self.missed = true;
                out.push(signal);
            }
            // It ends the open turn if it is another.
            Signal::TurnBegan { ref native_id, .. } => {
                if machine.is_another_turn(native_id.as_deref()) {
                    self.settle(out);
                }
                out.push(signal);
            }
            // They say nothing that grows; what they say is redacted in the event they become.
            Signal::PromptTaken(_)
            | Signal::PromptRefused { .. }
            | Signal::AttemptBegan { .. }
            | Signal::AttemptEnded { .. }
            | Signal::ItemSeen(_)
            | Signal::AskClosed { .. }
            | Signal::Usage { .. }
            | Signal::Failed(_)
            | Signal::Truth { truth: Truth::Busy, .. }
            | Signal::Notice { .. } => out.push(signal),
        }
    }

    /// What the agent calls the choices that it offers.
    pub(crate) fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Everything that is held back is given out or redacted: the turn may be over, and may as well go on.
    pub(crate) fn settle(&mut self, out: &mut Vec<Signal>) {
        for ((key, field), text) in &mut self.texts {
            text.settle(key, *field, out);
        }
    }

    /// When [`Redactor::release`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.texts.values().filter_map(|text| text.since).min().map(|since| since + BRIEFLY)
    }

    /// What was held back for long enough and shows no sign of a secret.
    pub(crate) fn release(&mut self, now: Instant, out: &mut Vec<Signal>) {
        for ((key, field), text) in &mut self.texts {
            if text.since.is_some_and(|since| since + BRIEFLY <= now) {
                let mut released = String::new();
                text.stream.release(&mut released);
                text.said += released.len();
                text.since = None;
                say(key, *field, released, out);
            }
        }
    }

    /// A turn begins: its texts are seen from their beginning.
    pub(crate) fn turn_started(&mut self) {
        self.missed = false;
    }

    /// A turn has ended: only these items can still grow.
    pub(crate) fn keep_only(&mut self, is_open: impl Fn(&Key) -> bool) {
        self.texts.retain(|(key, _), _| is_open(key));
    }

    fn delta(&mut self, key: Key, field: Field, text: &str, now: Instant, out: &mut Vec<Signal>) {
        let mut passed = String::with_capacity(text.len());
        let (rules, missed) = (&self.rules, self.missed);
        let entry = self.texts.entry((key.clone(), field)).or_insert_with(|| Text::new(rules, missed));
        entry.push(text, now, &mut passed);
        say(&key, field, passed, out);
    }

    /// The text at some moment as the machine may compare it with what it has. It may be cut in the middle of a secret, and
    /// may be older than what streamed: only one that is not is what the next piece continues.
    fn snapshot(&mut self, key: &Key, field: Field, text: &str, have: Option<&str>, now: Instant) -> String {
        let place = (key.clone(), field);
        let mut passed = String::with_capacity(text.len());
        let mut whole = Text::new(&self.rules, false);
        whole.push(text, now, &mut passed);
        let streamed = self.texts.get(&place);
        // Nothing is what an agent shows that has not written down yet what it streams.
        if text.is_empty() || streamed.is_some_and(|streamed| streamed.taken >= whole.taken) {
            return passed;
        }
        // Of an item that was not introduced yet the machine has all that was let through, and does not show it.
        let said = streamed.map_or(0, |streamed| streamed.said);
        let is_older = match have {
            Some(have) => have.len() > passed.len() && have.starts_with(&passed),
            None => said > passed.len(),
        };
        let shows_all = |shown: &str| match have {
            Some(have) => shown.starts_with(have),
            None => shown.len() >= said,
        };
        if is_older {
            // Unless the machine has what is held here: time released it, or a gap settled it. Then it is no secret, or
            // the rest of it is passed over.
            let mut shown = passed.clone();
            whole.stream.release(&mut shown);
            if !shows_all(&shown) {
                whole.stream.settle(&mut shown);
            }
            if !shows_all(&shown) {
                return passed;
            }
            whole.said = shown.len();
            whole.since = None;
            passed = shown;
        }
        self.texts.insert(place, whole);
        passed
    }

    /// The item is over.
    fn end(&mut self, key: &Key, out: &mut Vec<Signal>) {
        for field in [Field::Text, Field::Input, Field::Output] {
            if let Some(text) = self.texts.remove(&(key.clone(), field)) {
                let mut rest = String::new();
                text.stream.finish(&mut rest);
                say(key, field, rest, out);
            }
        }
    }
}

impl Text {
    fn new(rules: &Rules, missed: bool) -> Self {
        let stream = if missed { Stream::in_the_middle(rules) } else { Stream::new(rules) };
        Self { stream, taken: 0, said: 0, since: None }
    }

    fn push(&mut self, text: &str, now: Instant, out: &mut String) {
        self.taken += text.len();
        let before = out.len();
        self.stream.push(text, out);
        self.said += out.len() - before;
        self.since = match self.stream.holds() {
            Held::Brief => Some(self.since.filter(|_| out.is_empty()).unwrap_or(now)),
            Held::Nothing | Held::Firm => None,
        };
    }

    fn settle(&mut self, key: &Key, field: Field, out: &mut Vec<Signal>) {
        let mut settled = String::new();
        self.stream.settle(&mut settled);
        self.said += settled.len();
        self.since = None;
        say(key, field, settled, out);
    }
}

fn say(key: &Key, field: Field, text: String, out: &mut Vec<Signal>) {
    if !text.is_empty() {
        out.push(Signal::TextDelta { key: key.clone(), field, text });
    }
}
