//! The idempotency keys of prompts. Of a prompt's content only a fingerprint is kept in memory, to tell
//! whether a repeated request is the same.

use crate::redactor::Prompts;
use serde_json::Value;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use turnstream_model::fold::State;
use turnstream_model::id::PromptId;
use turnstream_redact::Rules;

/// Two hashes under two secrets of this process. A client cannot construct a collision, and by chance one in
/// 2^128 collides.
type Fingerprint = (u64, u64);

/// The prompts of a session that have a key.
pub(super) struct Keys {
    secrets: (RandomState, RandomState),
    known: HashMap<String, (PromptId, Known)>,
}

/// What is known of a prompt's content.
enum Known {
    /// Retention has removed it.
    Nothing,
    As(Fingerprint),
    /// The redaction rules may have changed since: the content as it was kept, and as it would be kept now.
    Either(Fingerprint, Fingerprint),
}

impl Keys {
    /// Reads the keys of a session. A repeated request is redacted by the current rules, and the kept content
    /// was redacted by the rules of its time.
    pub(super) fn resume(state: &State, rules: &Rules) -> Self {
        let mut keys = Self { secrets: (RandomState::new(), RandomState::new()), known: HashMap::new() };
        for spent in &state.spent {
            keys.known.insert(spent.key.clone(), (spent.prompt.clone(), Known::Nothing));
        }
        for prompt in state.prompts.iter().chain(&state.queue) {
            if let Some(key) = &prompt.key {
                let mut content = prompt.content.clone();
                let changed =
                    content.iter_mut().fold(false, |changed, block| rules.redact_json(block) | changed);
                let kept = keys.fingerprint(&prompt.content);
                let known = match (changed, Prompts::of(&state.session)) {
                    (true, Prompts::Redacted) => Known::Either(kept, keys.fingerprint(&content)),
                    (false, Prompts::Redacted) | (_, Prompts::AsTheyAre) => Known::As(kept),
                };
                keys.known.insert(key.clone(), (prompt.prompt.clone(), known));
            }
        }
        keys
    }

    pub(super) fn add(&mut self, key: String, prompt: PromptId, content: &[Value]) {
        let fingerprint = self.fingerprint(content);
        self.known.insert(key, (prompt, Known::As(fingerprint)));
    }

    /// The prompt that had this key, and whether this is its content. Content that retention removed counts
    /// as the same.
    pub(super) fn find(&self, key: &str, content: &[Value]) -> Option<(PromptId, bool)> {
        let (prompt, known) = self.known.get(key)?;
        let same = match known {
            Known::Nothing => true,
            Known::As(fingerprint) => *fingerprint == self.fingerprint(content),
            Known::Either(kept, now) => [kept, now].contains(&&self.fingerprint(content)),
        };
        Some((prompt.clone(), same))
    }

    fn fingerprint(&self, content: &[Value]) -> Fingerprint {
        (self.secrets.0.hash_one(content), self.secrets.1.hash_one(content))
    }
}

#[cfg(test)]
mod tests {
    use super::{Keys, Rules};
    use serde_json::json;
    use turnstream_model::fold::State;
    use turnstream_model::id::PromptId;

    #[test]
    fn the_same_content_is_known_however_its_members_stand() {
        let mut keys = Keys::resume(&State::default(), &Rules::none());
        let content = [json!({"type": "text", "text": "Hi", "n": 1.5})];
        keys.add("k".to_owned(), PromptId::from("p1"), &content);
        let turned = [serde_json::from_str(r#"{"n":1.5,"text":"Hi","type":"text"}"#).unwrap()];
        assert_eq!(keys.find("k", &turned), Some((PromptId::from("p1"), true)));
        for other in [
            vec![],
            vec![json!({"type": "text", "text": "Ho", "n": 1.5})],
            vec![json!({"type": "text", "text": "Hi"})],
            [content.clone(), content.clone()].concat(),
        ] {
            assert_eq!(keys.find("k", &other), Some((PromptId::from("p1"), false)), "{other:?}");
        }
        assert_eq!(keys.find("other", &content), None);
    }
}
