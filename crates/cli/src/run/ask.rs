//! What the agent waits for, and who answers it.

use crate::escape::preview;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::io::BufRead;
use tokio::sync::mpsc;

/// How much of a question is shown.
const WIDEST: usize = 400;

/// Who answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// The person at this terminal.
    Person,
    /// Other clients of the gateway.
    Others,
    /// Nobody: what the permissions do not settle is refused.
    Nobody,
}

/// Something that waits for an answer.
pub(crate) enum Ask {
    Approval { id: String, about: String },
    Question { id: String, questions: VecDeque<Value>, answers: Map<String, Value> },
}

/// What to do with what a person typed.
pub(crate) enum Typed {
    /// The whole answer: the path below the session, and the body.
    Answer(String, Value),
    /// Ask on: there is more to answer, or it was not understood.
    Again,
}

impl Ask {
    pub(crate) fn approval(event: &Value, about: String) -> Self {
        Self::Approval { id: text(event, "approval"), about }
    }

    pub(crate) fn question(event: &Value) -> Self {
        let questions = event["questions"].as_array().cloned().unwrap_or_default();
        Self::Question { id: text(event, "question"), questions: questions.into(), answers: Map::new() }
    }

    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Approval { id, .. } | Self::Question { id, .. } => id,
        }
    }

    /// What a person is asked next.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Approval { about, .. } => {
                format!("Allow {about}? [y]es, [a]lways, [n]o, [s]top: ")
            }
            Self::Question { questions, .. } => questions.front().map(question_words).unwrap_or_default(),
        }
    }

    /// Takes what a person typed.
    pub(crate) fn typed(&mut self, line: &str) -> Typed {
        let line = line.trim();
        match self {
            Self::Approval { id, .. } => {
                let body = match line.to_lowercase().as_str() {
                    "y" | "yes" => json!({"outcome": "allow_once"}),
                    "a" | "always" => json!({"outcome": "allow_always"}),
                    "n" | "no" => json!({"outcome": "reject"}),
                    "s" | "stop" => json!({"outcome": "reject", "stop": true}),
                    _ => return Typed::Again,
                };
                Typed::Answer(format!("approvals/{id}"), body)
            }
            Self::Question { id, questions, answers } => {
                if let Some(question) = questions.front() {
                    let Some(chosen) = choice(question, line) else { return Typed::Again };
                    answers.insert(text(question, "id"), chosen);
                    questions.pop_front();
                }
                if !questions.is_empty() {
                    return Typed::Again;
                }
                Typed::Answer(format!("questions/{id}"), json!({"answers": std::mem::take(answers)}))
            }
        }
    }

    /// The refusal of it: the path below the session, and the body.
    pub(crate) fn refusal(&self) -> (String, Value) {
        match self {
            Self::Approval { id, .. } => (format!("approvals/{id}"), json!({"outcome": "reject"})),
            Self::Question { id, .. } => (format!("questions/{id}"), json!({"outcome": "rejected"})),
        }
    }
}

fn question_words(question: &Value) -> String {
    let mut words = format!("{}\n", preview(&text(question, "text"), WIDEST));
    for (at, option) in options(question).enumerate() {
        words.push_str(&format!("  {}. {}\n", at + 1, preview(option, WIDEST)));
    }
    let several = if question["multiple"] == true { "s, separated by commas" } else { "" };
    words.push_str(&match (options(question).next(), question["custom"] == true) {
        (None, _) => "Answer: ".to_owned(),
        (Some(_), true) => format!("Number{several} or your own answer: "),
        (Some(_), false) => format!("Number{several}: "),
    });
    words
}

/// The answer to one question: labels that were offered, or the person's own words where these may be given.
pub(crate) fn choice(question: &Value, line: &str) -> Option<Value> {
    let offered: Vec<&str> = options(question).collect();
    let label = |word: &str| {
        let number = word.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let by_number = number.and_then(|at| offered.get(at).copied());
        by_number.or_else(|| offered.iter().copied().find(|label| *label == word.trim()))
    };
    let words: Vec<&str> = if question["multiple"] == true { line.split(',').collect() } else { vec![line] };
    let labels: Option<Vec<&str>> = words.into_iter().map(label).collect();
    let may_be_own = offered.is_empty() || question["custom"] == true;
    match labels {
        Some(labels) => Some(json!(labels)),
        None if may_be_own && !line.is_empty() => Some(json!([line])),
        None => None,
    }
}

fn options(question: &Value) -> impl Iterator<Item = &str> {
    question["options"].as_array().into_iter().flatten().filter_map(|option| option["label"].as_str())
}

fn text(value: &Value, member: &str) -> String {
    value[member].as_str().unwrap_or_default().to_owned()
}

/// The lines a person types. The thread behind it ends with the process: reading a terminal cannot be stopped.
pub(crate) fn keyboard() -> mpsc::Receiver<String> {
    let (lines, typed) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    typed
}

#[cfg(test)]
mod tests {
    use super::{Ask, Typed, choice};
    use serde_json::json;

    #[test]
    fn a_person_answers_by_number_by_label_or_in_own_words() {
        let question = json!({"id": "0", "text": "DB?", "options": [{"label": "PG"}, {"label": "Lite"}]});
        assert_eq!(choice(&question, "2"), Some(json!(["Lite"])));
        assert_eq!(choice(&question, "PG"), Some(json!(["PG"])));
        assert_eq!(choice(&question, "3"), None);
        assert_eq!(choice(&question, "other"), None);
        let mut custom = question.clone();
        custom["custom"] = json!(true);
        assert_eq!(choice(&custom, "other"), Some(json!(["other"])));
        let mut multiple = question;
        multiple["multiple"] = json!(true);
        assert_eq!(choice(&multiple, "1, 2"), Some(json!(["PG", "Lite"])));
    }

    #[test]
    fn an_approval_takes_only_what_it_offers() {
        let mut ask = Ask::approval(&json!({"approval": "q1"}), "Write a".to_owned());
        assert!(matches!(ask.typed("what?"), Typed::Again));
        assert!(matches!(ask.typed("Y"), Typed::Answer(path, body)
            if path == "approvals/q1" && body == json!({"outcome": "allow_once"})));
    }
}
