//! `turnstream answer SESSION ANSWER…`: answers a question of an agent.

use super::{Target, VerbError, WIDEST, pick, say};
use crate::client::{Reach, segment};
use crate::escape::{Safe, Untrusted, safe};
use crate::record::Record;
use crate::run::choice;
use serde_json::{Map, Value, json};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  turnstream answer 3f2                   show what the session 3f2… asks
  turnstream answer 3f2 2                 the second of what is offered
  turnstream answer 3f2 PostgreSQL 1,3    two questions in one: a label, and two of several
  turnstream answer 3f2 --reject          nobody will answer";

/// Answer a question of an agent: by number, by label, or in your own words where these are allowed
///
/// Without an answer it shows the question. Exit codes: 0 when the answer was accepted, 2 when it was not,
/// or none was given.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The session id, or its unique beginning
    session: String,
    /// One answer per question, in order; separate several choices with commas
    #[arg(value_name = "ANSWER")]
    answers: Vec<String>,
    /// The id of the question; only needed if several wait
    #[arg(long, value_name = "ID")]
    question: Option<String>,
    /// Tell the agent that nobody will answer
    #[arg(long, conflicts_with = "answers")]
    reject: bool,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, VerbError> {
    let target = Target::find(&args.reach, &args.session).await?;
    let open = target.open("questions").await?;
    let asked = pick(&open, "question", args.question.as_deref(), about)?;
    let id = asked["question"].as_str().unwrap_or_default();
    let body = match args.reject {
        true => json!({"outcome": "rejected"}),
        false => json!({"answers": answers(asked, &args.answers)?}),
    };
    target.client.post(&target.path(&format!("questions/{}", segment(id))), &body).await?;
    let outcome = if args.reject { "rejected" } else { "answered" };
    say(&safe![outcome, " ", Untrusted(id), ": ", about(asked)])
}

/// The typed words as answers to the questions.
fn answers(asked: &Value, typed: &[String]) -> Result<Map<String, Value>, VerbError> {
    let questions = asked["questions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if typed.len() != questions.len() {
        let (wanted, given) = (questions.len(), typed.len());
        let shown: Safe = questions.iter().map(|question| shown(Record(question))).collect();
        let needed = " answers were given; one for each question is needed:";
        return Err(VerbError::Unclear(safe![given, " of ", wanted, needed, shown]));
    }
    let mut answers = Map::new();
    for (question, line) in questions.iter().zip(typed) {
        let Some(chosen) = choice(Record(question), line.trim()) else {
            let (line, shown) = (Untrusted(line), shown(Record(question)));
            return Err(VerbError::Unclear(safe!["\"", line, "\" is none of what is offered:", shown]));
        };
        answers.insert(question["id"].as_str().unwrap_or_default().to_owned(), chosen);
    }
    Ok(answers)
}

/// A question and its choices.
fn shown(question: Record<'_>) -> Safe {
    let mut shown = safe!["\n  ", question.text("text").preview(WIDEST)];
    let labels = question.list("options").filter_map(|option| option.some_text("label"));
    for (at, label) in labels.enumerate() {
        shown.push(safe!["\n    ", at + 1, ". ", label.preview(WIDEST)]);
    }
    if question.is_true("custom") {
        shown.push("\n    or an answer in your own words");
    }
    shown
}

/// The question in a line.
fn about(asked: &Value) -> Safe {
    let texts = Record(asked).list("questions").filter_map(|one| Some(one.some_text("text")?.exact()));
    Untrusted(&texts.collect::<Vec<_>>().join(" / ")).preview(WIDEST)
}

#[cfg(test)]
mod tests {
    use super::answers;
    use serde_json::{Value, json};

    #[test]
    fn every_question_needs_its_answer() {
        let asked = json!({"questions": [
            {"id": "0", "text": "DB?", "options": [{"label": "PG"}, {"label": "Lite"}]},
            {"id": "1", "text": "Why?", "options": [], "custom": true},
        ]});
        let typed = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            answers(&asked, &words).map(Value::Object).map_err(|error| error.to_string())
        };
        assert_eq!(typed(&["2", "because"]), Ok(json!({"0": ["Lite"], "1": ["because"]})));
        let none = typed(&[]).unwrap_err();
        assert!(none.starts_with("0 of 2 answers") && none.contains("\n    2. Lite\n  Why?"), "{none}");
        assert!(typed(&["3", "x"]).unwrap_err().starts_with("\"3\" is none of what is offered"));
    }
}
