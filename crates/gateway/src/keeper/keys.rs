//! The keys that prompts came with. A prompt's text can be long and a session's life too, so of the content only a print is
//! kept: all that is asked of it is whether a repeat is the same.

use crate::redactor::Prompts;
use serde_json::Value;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use turnstream_model::fold::State;
use turnstream_model::id::PromptId;
use turnstream_redact::Rules;

/// Two hashes under two secrets that nobody outside this process knows and that no file holds: whoever writes two contents
/// cannot make them meet, and by chance one repeat in 2^128 does.
type Print = (u64, u64);

/// Prompts that came with a key.
pub(super) struct Keys {
    secrets: (RandomState, RandomState),
    known: HashMap<String, (PromptId, Known)>,
}

/// What is known of a prompt's content.
enum Known {
    /// It is no longer kept.
    Nothing,
    As(Print),
    /// It was kept under other rules of redaction than are in force now, perhaps: as it was kept, and as it would be now.
    Either(Print, Print),
}

impl Keys {
    /// Every prompt of the session that has a key. A repeat is redacted by the rules of today, and what was kept by those
    /// of its day.
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
                let kept = keys.print(&prompt.content);
                let known = match (changed, Prompts::of(&state.session)) {
                    (true, Prompts::Redacted) => Known::Either(kept, keys.print(&content)),
                    (false, Prompts::Redacted) | (_, Prompts::AsTheyAre) => Known::As(kept),
                };
                keys.known.insert(key.clone(), (prompt.prompt.clone(), known));
            }
        }
        keys
    }

    pub(super) fn add(&mut self, key: String, prompt: PromptId, content: &[Value]) {
        let print = self.print(content);
        self.known.insert(key, (prompt, Known::As(print)));
    }

    /// The prompt that had this key, and whether this is its content. One whose content is no longer kept is taken for the same.
    pub(super) fn find(&self, key: &str, content: &[Value]) -> Option<(PromptId, bool)> {
        let (prompt, known) = self.known.get(key)?;
        let same = match known {
            Known::Nothing => true,
            Known::As(print) => *print == self.print(content),
            Known::Either(kept, now) => [kept, now].contains(&&self.print(content)),
        };
        Some((prompt.clone(), same))
    }

    fn print(&self, content: &[Value]) -> Print {
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
