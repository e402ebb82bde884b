//! Redaction of values and event bodies by the rules. The model's table of events says which members
//! hold text.

use serde_json::Value;
use std::borrow::Cow;
use turnstream_model::event::{Body, Redact, Secrets};
use turnstream_redact::Rules;

/// What happens to the text of people: prompts, answers, and messages with an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prompts {
    /// It is redacted like everything else.
    Redacted,
    /// The session was created to pass secrets to the agent.
    AsTheyAre,
}

/// Redacts the members of an event that are marked `here` in the table of events: messages of errors and
/// notices, which are made in many places. All other texts were redacted earlier.
pub(crate) fn redact_body(rules: &Rules, body: &mut Body) {
    body.redact_here(&ByRules(rules));
}

/// Redacts a value in place.
pub(super) fn redact(rules: &Rules, value: &mut impl Redact) {
    value.redact(&ByRules(rules));
}

/// The rules as the model's values use them.
struct ByRules<'a>(&'a Rules);

impl Secrets for ByRules<'_> {
    fn redact_text(&self, text: &mut String) {
        if let Cow::Owned(redacted) = self.0.redact(text) {
            *text = redacted;
        }
    }

    fn redact_json(&self, value: &mut Value) {
        self.0.redact_json(value);
    }
}
