//! Redaction of users' input, before anything else is done with it. So the agent gets what the log has, and a
//! repeated request is compared with the same text.

use super::body::{self, Prompts};
use crate::create::NewSession;
use crate::error::RequestError;
use crate::request::{AnswerQuestion, Change, NewPrompt, ResolveApproval};
use std::borrow::Cow;
use turnstream_model::fold::Session;
use turnstream_redact::{Rules, has_marker};

impl Prompts {
    /// The choice that was made when the session was created.
    pub(crate) fn of(session: &Session) -> Self {
        if session.redact_prompts.unwrap_or(true) { Self::Redacted } else { Self::AsTheyAre }
    }
}

/// Input of a user.
pub(crate) trait UserInput {
    /// Replaces every secret in it.
    fn redact(&mut self, rules: &Rules);
}

impl UserInput for NewPrompt {
    fn redact(&mut self, rules: &Rules) {
        body::redact(rules, &mut self.content);
    }
}

impl UserInput for ResolveApproval {
    fn redact(&mut self, rules: &Rules) {
        body::redact(rules, &mut self.message);
    }
}

impl UserInput for AnswerQuestion {
    fn redact(&mut self, rules: &Rules) {
        for answer in self.answers.iter_mut().flat_map(|answers| answers.values_mut()) {
            rules.redact_json(answer);
        }
    }
}

// A title is shown in lists and not sent to the agent: it is always redacted. So is the prompt that continues
// turns: it is a setting.

impl UserInput for Change {
    fn redact(&mut self, rules: &Rules) {
        body::redact(rules, &mut self.title);
        self.unattended.redact(rules);
    }
}

impl UserInput for NewSession {
    fn redact(&mut self, rules: &Rules) {
        body::redact(rules, &mut self.title);
        self.unattended.redact(rules);
    }
}

/// Refuses the name of a model or a mode that contains a secret: the agent needs the whole name.
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

/// The name of a model or a mode, if it was not redacted. A redacted name is of no use to the agent, which
/// then keeps its current one.
pub(crate) fn still_a_name(name: &Option<String>) -> Option<String> {
    name.clone().filter(|name| !has_marker(name))
}
