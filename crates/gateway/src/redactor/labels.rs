//! The choices of questions as the agent offered them. Log and wire show a marker where a choice holds a
//! secret, but the agent only knows the original label. The originals are kept here, in memory only.

use super::body::redact;
use serde_json::{Map, Value};
use std::collections::{HashMap, VecDeque};
use turnstream_model::event::{Choice, Question};
use turnstream_model::id::Key;
use turnstream_redact::{Rules, has_marker};

/// Questions of which the choices are known. An agent has few open at a time.
const MOST: usize = 64;

/// The original labels of choices that hold a secret.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    /// By the agent's name of the question, the newest last.
    known: VecDeque<(Key, Offered)>,
}

/// By question and choice as shown: the choice as offered.
type Offered = HashMap<(String, String), String>;

/// A choice that is not known any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Forgotten {
    pub(crate) question: String,
    pub(crate) label: String,
}

impl Labels {
    /// Redacts the questions and remembers the choices that changed. Choices that become equal get a `+`
    /// each, so that a person can choose.
    pub(super) fn offer(&mut self, rules: &Rules, key: &Key, questions: &mut [Question]) {
        let mut offered = Offered::new();
        for Question { id, text, options, extra, .. } in questions {
            redact(rules, text);
            redact(rules, extra);
            let mut shown: Vec<String> = Vec::new();
            for Choice { label, extra } in options {
                redact(rules, extra);
                let raw = label.clone();
                redact(rules, label);
                while has_marker(label) && shown.contains(label) {
                    label.push('+');
                }
                shown.push(label.clone());
                if has_marker(label) {
                    offered.insert((id.clone(), label.clone()), raw);
                }
            }
        }
        self.known.retain(|(known, _)| known != key);
        if offered.is_empty() {
            return;
        }
        if self.known.len() == MOST {
            self.known.pop_front();
        }
        self.known.push_back((key.clone(), offered));
    }

    /// Shows the choices of these answers, given elsewhere in the agent's words, as they were offered here.
    pub(super) fn show(&self, key: &Key, answers: &mut Map<String, Value>) {
        let Some((_, offered)) = self.known.iter().find(|(known, _)| known == key) else { return };
        for (question, values) in answers {
            for value in values.as_array_mut().into_iter().flatten() {
                let shown = offered.iter().find(|((of, _), raw)| of == question && *value == ***raw);
                if let Some(((_, label), _)) = shown {
                    *value = Value::String(label.clone());
                }
            }
        }
    }

    /// The answers as the agent has to hear them. `asked` is what was shown.
    pub(crate) fn as_offered(
        &self,
        key: &Key,
        asked: &[Question],
        answers: &Map<String, Value>,
    ) -> Result<Map<String, Value>, Forgotten> {
        let offered = self.known.iter().find(|(known, _)| known == key).map(|(_, offered)| offered);
        let mut told = answers.clone();
        for (question, values) in &mut told {
            for value in values.as_array_mut().into_iter().flatten() {
                let Value::String(label) = value else { continue };
                if !has_marker(label) {
                    continue;
                }
                let raw = offered.and_then(|offered| offered.get(&(question.clone(), label.clone())));
                let options =
                    asked.iter().filter(|asked| asked.id == *question).flat_map(|asked| &asked.options);
                match raw {
                    Some(raw) => label.clone_from(raw),
                    None if options.into_iter().any(|option| option.label == *label) => {
                        return Err(Forgotten { question: question.clone(), label: label.clone() });
                    }
                    // Somebody's own words.
                    None => {}
                }
            }
        }
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_choice_that_nobody_remembers_is_refused_and_words_of_ones_own_are_not() {
        let option = |label: &str| Choice { label: label.to_owned(), extra: Map::new() };
        let shown = Question {
            id: "0".into(),
            text: "Which?".into(),
            options: vec![option("[redacted:github]"), option("none")],
            multiple: false,
            custom: true,
            extra: Map::new(),
        };
        let labels = Labels::default();
        let key = Key::from("q");
        let told = |answers: Value| {
            let answers = answers.as_object().cloned().unwrap_or_default();
            labels.as_offered(&key, std::slice::from_ref(&shown), &answers).map(Value::Object)
        };
        let forgotten = Forgotten { question: "0".into(), label: "[redacted:github]".into() };
        assert_eq!(told(json!({"0": ["[redacted:github]"]})), Err(forgotten));
        let own = json!({"0": ["none", "not [redacted:github]"]});
        assert_eq!(told(own.clone()), Ok(own));
    }

    #[test]
    fn of_many_questions_the_newest_are_known() {
        let mut labels = Labels::default();
        let label = format!("ghp_{}", "Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5");
        for number in 0..=MOST {
            let options = vec![Choice { label: label.clone(), extra: Map::new() }];
            let (id, text, extra) = ("0".to_owned(), String::new(), Map::new());
            let mut questions = [Question { id, text, options, multiple: false, custom: false, extra }];
            labels.offer(&Rules::standard(), &Key::from(format!("q{number}")), &mut questions);
        }
        let known: Vec<&str> = labels.known.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!((known.len(), known[0], known[MOST - 1]), (MOST, "q1", "q64"));
    }
}
