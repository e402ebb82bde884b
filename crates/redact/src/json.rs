//! Redacting JSON values in place.

use crate::name::By;
use crate::{Rules, assign, name};
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
                let changed = members.keys().any(|key| matches!(self.redact(key), Cow::Owned(_)));
                if changed {
                    for (key, value) in std::mem::take(members) {
                        let mut redacted = self.redact(&key).into_owned();
                        // Two secrets may become the same key; no member is lost because of that.
                        while members.contains_key(&redacted) {
                            redacted.push('+');
                        }
                        members.insert(redacted, value);
                    }
                }
                members
                    .iter_mut()
                    .fold(changed, |changed, (key, value)| self.redact_member(key, value) | changed)
            }
        }
    }

    /// The name of a member may say that its value is a secret, as in text.
    fn redact_member(&self, key: &str, value: &mut Value) -> bool {
        if let Value::String(text) = value
            && key.to_ascii_lowercase().ends_with("authorization")
            && let Cow::Owned(header) = self.redact(&format!("authorization: {text}"))
            && let Some(redacted) = header.strip_prefix("authorization: ")
        {
            *text = redacted.to_owned();
            return true;
        }
        if let Value::String(text) = value
            && let Some(sort) = name::announces(key)
            && let Some(kind) = self.inner.assigned(sort)
            && let Cow::Borrowed(_) = self.redact(text)
            && assign::is_secret_in_quotes(text.as_bytes(), sort, By::Loose)
        {
            *text = self.inner.marker(kind).to_owned();
            return true;
        }
        self.redact_json(value)
    }
}
