//! What people say is redacted at the door, before anything is done with it: the agent is sent what was committed, and a
//! repeat with a key is compared with that.

use super::body::{Prompts, redact_option};
use crate::create::NewSession;
use crate::request::{AnswerQuestion, Change, NewPrompt, ResolveApproval};
use turnstream_model::fold::Session;
use turnstream_redact::Rules;

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
        for block in &mut self.content {
            rules.redact_json(block);
        }
    }
}

impl Said for ResolveApproval {
    fn redact(&mut self, rules: &Rules) {
        redact_option(rules, &mut self.message);
    }
}

impl Said for AnswerQuestion {
    fn redact(&mut self, rules: &Rules) {
        for answer in self.answers.iter_mut().flat_map(|answers| answers.values_mut()) {
            rules.redact_json(answer);
        }
    }
}

// A title is for lists, never for the agent: it is redacted whatever the session says of prompts. So are the names of
// models and modes, which hold no secret.

impl Said for Change {
    fn redact(&mut self, rules: &Rules) {
        for text in [&mut self.title, &mut self.model, &mut self.mode] {
            redact_option(rules, text);
        }
    }
}

impl Said for NewSession {
    fn redact(&mut self, rules: &Rules) {
        for text in [&mut self.title, &mut self.model] {
            redact_option(rules, text);
        }
    }
}
