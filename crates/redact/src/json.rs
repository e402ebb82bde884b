//! Redacting JSON values in place.

use crate::Rules;
use serde_json::Value;
use std::borrow::Cow;

impl Rules {
    /// Redacts every string and every key of a value. True if something changed.
    pub fn redact_json(&self, value: &mut Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
            Value::String(text) => match self.redact(text) {
                Cow::Borrowed(_) => false,
                Cow::Owned(redacted) => {
                    *text = redacted;
                    true
                }
            },
            Value::Array(values) => {
                values.iter_mut().fold(false, |changed, value| self.redact_json(value) | changed)
            }
            Value::Object(members) => {
                let mut changed = false;
                let keys_change = members.keys().any(|key| matches!(self.redact(key), Cow::Owned(_)));
                if keys_change {
                    let old = std::mem::take(members);
                    members
                        .extend(old.into_iter().map(|(key, value)| (self.redact(&key).into_owned(), value)));
                    changed = true;
                }
                members.iter_mut().fold(changed, |changed, (_, value)| self.redact_json(value) | changed)
            }
        }
    }
}
