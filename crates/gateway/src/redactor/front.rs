//! What people say is redacted at the door, before anything is done with it: the agent is sent what was committed, and a
//! repeat with a key is compared with that.

use super::body::{self, Prompts};
use crate::create::NewSession;
use crate::error::RequestError;
use crate::request::{AnswerQuestion, Change, NewPrompt, ResolveApproval};
use std::borrow::Cow;
use turnstream_model::fold::Session;
use turnstream_redact::{Rules, has_marker};

impl Prompts {
    /// As the session was made.
    pub(crate) fn of(session: &Session) -> Self {
        if session.redact_prompts.unwrap_or(true) { Self::Redacted } else { Self::AsTheyAre }
    }
}

/// Something a person said.
pub(crate) trait Said {
    /// Replaces every secret in it.
    fn redact(&mut self, rules: &Rules);
}

impl Said for NewPrompt {
    fn redact(&mut self, rules: &Rules) {
        body::redact(rules, &mut self.content);
    }
}

impl Said for ResolveApproval {
    fn redact(&mut self, rules: &Rules) {
        body::redact(rules, &mut self.message);
    }
}

impl Said for AnswerQuestion {
    fn redact(&mut self, rules: &Rules) {
        for answer in self.answers.iter_mut().flat_map(|answers| answers.values_mut()) {
            rules.redact_json(answer);
        }
    }
}

// A title is for lists, never for the agent: it is redacted whatever the session says of prompts.

impl Said for Change {
    fn redact(&mut self, rules: &Rules) {
        body::redact(rules, &mut self.title);
    }
}

impl Said for NewSession {
    fn redact(&mut self, rules: &Rules) {
        body::redact(rules, &mut self.title);
    }
}

/// Refuses the name of a model or a mode that holds a secret: the agent would not understand what is left of it.
pub(crate) fn refuse_secret(
    what: &'static str,
    name: Option<&str>,
    rules: &Rules,
) -> Result<(), RequestError> {
    match name.map(|name| rules.redact(name)) {
        Some(Cow::Owned(shown)) => Err(RequestError::SecretName { what, shown }),
        Some(Cow::Borrowed(_)) | None => Ok(()),
    }
}

/// The name of a model or a mode as the agent said it once. One of which something was redacted is not its name any more:
/// the agent goes on with what it has.
pub(crate) fn still_a_name(name: &Option<String>) -> Option<String> {
    name.clone().filter(|name| !has_marker(name))
}
