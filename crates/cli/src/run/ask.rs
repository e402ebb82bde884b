//! An ask of the agent: how it is shown, and how typed answers are read.

use crate::client::segment;
use crate::escape::{Safe, Untrusted, safe};
use crate::record::Record;
use crate::show::Call;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;

/// An approval or a question that waits for an answer.
pub(crate) enum Ask {
    Approval { id: String, call: Box<Call> },
    Question { id: String, questions: VecDeque<Value>, answers: Map<String, Value> },
}

/// How much of an ask is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Long input is folded in its middle.
    Folded,
    Whole,
}

/// What to do with a typed line.
pub(crate) enum Typed {
    /// Send the answer: the path below the session, and the body.
    Answer(String, Value),
    /// Ask again: there is more to answer, or the line was not understood.
    Again(Extent),
}

impl Ask {
    pub(crate) fn approval(event: Record<'_>, call: Call) -> Self {
        Self::Approval { id: event.text("approval").exact().to_owned(), call: Box::new(call) }
    }

    pub(crate) fn question(event: Record<'_>) -> Self {
        let questions = event.list("questions").map(|question| question.0.clone()).collect();
        Self::Question { id: event.text("question").exact().to_owned(), questions, answers: Map::new() }
    }

    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Approval { id, .. } | Self::Question { id, .. } => id,
        }
    }

    /// The text above the prompt, in lines of at most that many columns.
    pub(crate) fn lines(&self, extent: Extent, width: usize) -> Vec<Safe> {
        match (self, extent) {
            (Self::Approval { id, call }, extent) => {
                let mut lines = vec![safe!["[ask] ", call.title(), " (", Untrusted(id), ")"]];
                lines.extend(match extent {
                    Extent::Folded => call.folded(width),
                    Extent::Whole => call.whole(width),
                });
                lines
            }
            (Self::Question { questions, .. }, _) => {
                questions.front().map(|question| question_lines(Record(question), width)).unwrap_or_default()
            }
        }
    }

    /// The prompt in front of the cursor.
    pub(crate) fn prompt(&self, width: usize) -> Safe {
        match self {
            Self::Approval { call, .. } => {
                let always = if call.offers_always() { " [a]lways," } else { "" };
                let all = if call.is_folded(width) { ", [v]iew all" } else { "" };
                safe!["Allow ", call.title(), "? [y]es,", always, " [n]o, [s]top", all, ": "]
            }
            Self::Question { questions, .. } => {
                let Some(question) = questions.front().map(Record) else {
                    return safe!["Enter sends it again: "];
                };
                let several = if question.is_true("multiple") { "s, separated by commas" } else { "" };
                match (question.list("options").next(), question.is_true("custom")) {
                    (None, _) => safe!["Answer: "],
                    (Some(_), true) => safe!["Number", several, " or your own answer: "],
                    (Some(_), false) => safe!["Number", several, ": "],
                }
            }
        }
    }

    /// Reads a typed line.
    pub(crate) fn typed(&mut self, line: &str) -> Typed {
        let line = line.trim();
        match self {
            Self::Approval { id, call } => {
                let body = match line.to_lowercase().as_str() {
                    "y" | "yes" => json!({"outcome": "allow_once"}),
                    "a" | "always" if call.offers_always() => json!({"outcome": "allow_always"}),
                    "n" | "no" => json!({"outcome": "reject"}),
                    "s" | "stop" => json!({"outcome": "reject", "stop": true}),
                    "v" | "view" => return Typed::Again(Extent::Whole),
                    _ => return Typed::Again(Extent::Folded),
                };
                Typed::Answer(format!("approvals/{}", segment(id)), body)
            }
            Self::Question { id, questions, answers } => {
                if let Some(question) = questions.front().map(Record) {
                    let Some(chosen) = choice(question, line) else { return Typed::Again(Extent::Folded) };
                    answers.insert(question.text("id").exact().to_owned(), chosen);
                    questions.pop_front();
                }
                if !questions.is_empty() {
                    return Typed::Again(Extent::Folded);
                }
                let body = json!({"answers": answers});
                Typed::Answer(format!("questions/{}", segment(id)), body)
            }
        }
    }

    /// The refusal: the path below the session, and the body.
    pub(crate) fn refusal(&self) -> (String, Value) {
        match self {
            Self::Approval { id, .. } => (format!("approvals/{}", segment(id)), json!({"outcome": "reject"})),
            Self::Question { id, .. } => {
                (format!("questions/{}", segment(id)), json!({"outcome": "rejected"}))
            }
        }
    }
}

fn question_lines(question: Record<'_>, width: usize) -> Vec<Safe> {
    let mut lines = vec![safe!["[question]"]];
    lines.extend(question.text("text").wrapped(width));
    for (at, option) in question.list("options").enumerate() {
        let mut line = safe!["  ", at + 1, ". ", option.text("label")];
        if let Some(description) = option.some_text("description") {
            line.extend([safe![" \u{2013} ", description]]);
        }
        lines.push(line);
    }
    lines
}

/// The answer to one question: offered labels, or the person's own words where these are allowed.
pub(crate) fn choice(question: Record<'_>, line: &str) -> Option<Value> {
    let offered: Vec<&str> =
        question.list("options").filter_map(|option| Some(option.some_text("label")?.exact())).collect();
    let label = |word: &str| {
        let number = word.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let by_number = number.and_then(|at| offered.get(at).copied());
        by_number.or_else(|| offered.iter().copied().find(|label| *label == word.trim()))
    };
    let words: Vec<&str> = if question.is_true("multiple") { line.split(',').collect() } else { vec![line] };
    let labels: Option<Vec<&str>> = words.into_iter().map(label).collect();
    let may_be_own = offered.is_empty() || question.is_true("custom");
    match labels {
        Some(labels) => Some(json!(labels)),
        None if may_be_own && !line.is_empty() => Some(json!([line])),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Ask, Typed, choice};
    use crate::record::Record;
    use crate::show::{Answers, Asks, Prompts, Show};
    use serde_json::json;

    #[test]
    fn a_person_answers_by_number_by_label_or_in_own_words() {
        let question = json!({"id": "0", "text": "DB?", "options": [{"label": "PG"}, {"label": "Lite"}]});
        assert_eq!(choice(Record(&question), "2"), Some(json!(["Lite"])));
        assert_eq!(choice(Record(&question), "PG"), Some(json!(["PG"])));
        assert_eq!(choice(Record(&question), "3"), None);
        assert_eq!(choice(Record(&question), "other"), None);
        let mut custom = question.clone();
        custom["custom"] = json!(true);
        assert_eq!(choice(Record(&custom), "other"), Some(json!(["other"])));
        let mut multiple = question;
        multiple["multiple"] = json!(true);
        assert_eq!(choice(Record(&multiple), "1, 2"), Some(json!(["PG", "Lite"])));
    }

    #[test]
    fn an_approval_takes_only_what_it_offers() {
        let event = json!({"approval": "q/1", "options": [{"kind": "allow_once", "name": "Once"}]});
        let call = Show::new(Prompts::Hidden, Asks::Shown, Answers::Streamed).call(Record(&event));
        let mut ask = Ask::approval(Record(&event), call);
        for unknown in ["what?", "", "always", "a"] {
            assert!(matches!(ask.typed(unknown), Typed::Again(_)), "{unknown}");
        }
        assert!(matches!(ask.typed("Y"), Typed::Answer(path, body)
            if path == "approvals/q%2F1" && body == json!({"outcome": "allow_once"})));
    }
}
