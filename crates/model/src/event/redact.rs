//! Taking secrets out of events: which parts of a value hold prose, by type. What a secret is, the caller
//! says.

use super::{ApprovalOption, Choice, Context, Cost, Question, Status, Tool, TurnError, Usage, Weigh};
use serde_json::{Map, Value};

/// What takes secrets out of texts. Implementors put a marker in place of each secret.
pub trait Secrets {
    /// Redacts a text in place.
    fn redact_text(&self, text: &mut String);

    /// Redacts the texts inside a JSON value. The name of a member may tell that its value is a secret.
    fn redact_json(&self, value: &mut Value);

    /// Redacts the values of a list. An implementor that limits sizes may shorten the list.
    fn redact_list<T: Redact + Weigh>(&self, list: &mut Vec<T>)
    where
        Self: Sized,
    {
        for value in list {
            value.redact(self);
        }
    }
}

/// A value that may hold secrets. Ids, words and numbers in it stay as they are.
pub trait Redact {
    /// Takes the secrets out.
    fn redact(&mut self, secrets: &impl Secrets);
}

impl Redact for String {
    fn redact(&mut self, secrets: &impl Secrets) {
        secrets.redact_text(self);
    }
}

impl Redact for Value {
    fn redact(&mut self, secrets: &impl Secrets) {
        secrets.redact_json(self);
    }
}

impl Redact for Map<String, Value> {
    fn redact(&mut self, secrets: &impl Secrets) {
        let mut whole = Value::Object(std::mem::take(self));
        secrets.redact_json(&mut whole);
        if let Value::Object(redacted) = whole {
            *self = redacted;
        }
    }
}

impl<T: Redact> Redact for Option<T> {
    fn redact(&mut self, secrets: &impl Secrets) {
        if let Some(value) = self {
            value.redact(secrets);
        }
    }
}

impl<T: Redact> Redact for Box<T> {
    fn redact(&mut self, secrets: &impl Secrets) {
        (**self).redact(secrets);
    }
}

impl<T: Redact + Weigh> Redact for Vec<T> {
    fn redact(&mut self, secrets: &impl Secrets) {
        secrets.redact_list(self);
    }
}

impl Redact for Tool {
    fn redact(&mut self, secrets: &impl Secrets) {
        let Self { name, kind: _, title, status: _, input, output, content, locations, extra } = self;
        name.redact(secrets);
        title.redact(secrets);
        input.redact(secrets);
        output.redact(secrets);
        content.redact(secrets);
        locations.redact(secrets);
        extra.redact(secrets);
    }
}

impl Redact for Usage {
    fn redact(&mut self, secrets: &impl Secrets) {
        let Self { input: _, output: _, reasoning: _, cache_read: _, cache_write: _, extra } = self;
        extra.redact(secrets);
    }
}

impl Redact for Cost {
    fn redact(&mut self, secrets: &impl Secrets) {
        let Self { amount: _, currency, extra } = self;
        currency.redact(secrets);
        extra.redact(secrets);
    }
}

impl Redact for Context {
    fn redact(&mut self, secrets: &impl Secrets) {
        let Self { used: _, size: _, extra } = self;
        extra.redact(secrets);
    }
}

impl Redact for TurnError {
    fn redact(&mut self, secrets: &impl Secrets) {
        let Self { class: _, message, status: _, retry_at: _, request_id, extra } = self;
        message.redact(secrets);
        request_id.redact(secrets);
        extra.redact(secrets);
    }
}

impl Redact for ApprovalOption {
    fn redact(&mut self, secrets: &impl Secrets) {
        let Self { id: _, kind: _, name, extra } = self;
        name.redact(secrets);
        extra.redact(secrets);
    }
}

impl Redact for Question {
    fn redact(&mut self, secrets: &impl Secrets) {
        let Self { id: _, text, options, multiple: _, custom: _, extra } = self;
        text.redact(secrets);
        options.redact(secrets);
        extra.redact(secrets);
    }
}

impl Redact for Choice {
    fn redact(&mut self, secrets: &impl Secrets) {
        let Self { label, extra } = self;
        label.redact(secrets);
        extra.redact(secrets);
    }
}

impl Redact for Status {
    fn redact(&mut self, secrets: &impl Secrets) {
        match self {
            Self::Idle | Self::Busy | Self::Waiting | Self::Recovering => {}
            Self::Retrying { attempt: _, reason: _, until: _, message } => message.redact(secrets),
        }
    }
}

/// Members that hold no prose.
pub(super) mod plain {
    use super::Secrets;
    use crate::event::Redacted;

    pub(in crate::event) const REDACTED: Redacted = Redacted::Plain;

    pub(in crate::event) fn redact<T>(_value: &mut T, _secrets: &impl Secrets) {}

    pub(in crate::event) use redact as redact_always;
}

/// Members that were redacted before they became part of an event.
pub(super) mod before {
    use crate::event::Redacted;

    pub(in crate::event) use super::here::redact_always;
    pub(in crate::event) use super::plain::redact;

    pub(in crate::event) const REDACTED: Redacted = Redacted::Before;
}

/// Members that are redacted in the event.
pub(super) mod here {
    use super::{Redact, Secrets};
    use crate::event::Redacted;

    pub(in crate::event) const REDACTED: Redacted = Redacted::Here;

    pub(in crate::event) fn redact<T: Redact>(value: &mut T, secrets: &impl Secrets) {
        value.redact(secrets);
    }

    pub(in crate::event) use redact as redact_always;
}
