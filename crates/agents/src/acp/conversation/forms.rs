//! Questions of the agent: a form (`elicitation/create`), each field of which is one question.

use super::Conversation;
use super::lines::BAD_PARAMS;
use crate::acp::wire;
use serde_json::{Map, Value, json};
use turnstream_model::event::{Choice, Question, QuestionOutcome};
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;

/// A form that waits for an answer.
pub(super) struct OpenForm {
    /// The agent's request id.
    id: Value,
    /// The schemas of its fields.
    fields: Map<String, Value>,
}

impl OpenForm {
    pub(super) fn id(&self) -> &Value {
        &self.id
    }
}

impl Conversation {
    pub(super) fn form(&mut self, id: Value, params: &Map<String, Value>) {
        let mode = wire::text(params, "mode").unwrap_or("form");
        if mode != "form" {
            let message = format!("the gateway offers forms, and not the mode {mode:?}");
            return self.refuse(&id, BAD_PARAMS, message);
        }
        let schema = params.get("requestedSchema");
        let fields = schema.and_then(|schema| schema["properties"].as_object()).cloned().unwrap_or_default();
        let message = wire::text(params, "message").unwrap_or_default();
        let asked = || fields.iter().filter(|(name, _)| chosen_beside(&fields, name).is_none());
        let count = asked().count();
        let mut questions: Vec<Question> = asked()
            .map(|(name, field)| {
                let custom = fields.contains_key(&custom_name(name));
                let question = question(name, field, message, count);
                Question { custom: question.custom || custom, ..question }
            })
            .collect();
        if questions.is_empty() {
            // A form without a field asks for a yes or a no.
            questions.push(question("", &json!({"type": "boolean"}), message, 1));
        }
        let key = self.key_of(&id);
        if self.forms.contains_key(&key) {
            return;
        }
        self.end_text();
        let item = wire::text(params, "toolCallId").map(Key::from);
        self.forms.insert(key.clone(), OpenForm { id, fields });
        self.signal(Signal::Question { key, item, questions });
    }

    pub(super) fn answer(&mut self, key: &Key, outcome: QuestionOutcome, answers: &Map<String, Value>) {
        let Some(form) = self.forms.remove(key) else { return };
        let answer = match outcome {
            QuestionOutcome::Answered if form.fields.is_empty() => {
                let is_yes = first(answers.get("")) == Some("Yes");
                json!({"action": if is_yes { "accept" } else { "decline" }})
            }
            QuestionOutcome::Answered => {
                let content: Map<String, Value> = form
                    .fields
                    .iter()
                    .filter_map(|(name, field)| {
                        let custom = custom_name(name);
                        let answer = answers.get(name)?;
                        // What is not offered goes into the field beside it.
                        let name = match form.fields.contains_key(&custom) && !is_offered(field, answer) {
                            true => custom,
                            false => name.clone(),
                        };
                        Some((name, value(field, answer)?))
                    })
                    .collect();
                json!({"action": "accept", "content": content})
            }
            QuestionOutcome::Rejected => json!({"action": "decline"}),
            QuestionOutcome::Cancelled | QuestionOutcome::Expired | QuestionOutcome::Lost => {
                json!({"action": "cancel"})
            }
        };
        self.respond(&form.id, Ok(answer));
    }
}

/// The field for an answer of one's own, which claude-agent-acp has beside each field with choices.
fn custom_name(name: &str) -> String {
    format!("{name}_custom")
}

/// The field with choices that this one is beside of.
fn chosen_beside<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let field = fields.get(name.strip_suffix("_custom")?)?;
    (!choices(field).is_empty()).then_some(field)
}

/// Whether all given answers are among the choices of a field.
fn is_offered(field: &Value, answer: &Value) -> bool {
    let choices = choices(field);
    let is_choice = |text: &str| choices.iter().any(|choice| choice.label == text || choice.value == text);
    match answer {
        Value::Array(list) => list.iter().filter_map(Value::as_str).all(is_choice),
        other => other.as_str().is_some_and(is_choice),
    }
}

/// One field as a question.
fn question(name: &str, field: &Value, message: &str, fields: usize) -> Question {
    let text = |member: &str| field[member].as_str().filter(|text| !text.is_empty());
    let title = text("description").or_else(|| text("title"));
    let text = match title {
        Some(title) if fields > 1 || message.is_empty() => title.to_owned(),
        Some(_) | None if !message.is_empty() => message.to_owned(),
        Some(_) | None => name.to_owned(),
    };
    let choices = choices(field);
    let options = choices.iter().map(|choice| Choice { label: choice.label.clone(), extra: choice.extra() });
    Question {
        id: name.to_owned(),
        text,
        options: options.collect(),
        multiple: field["type"] == "array",
        custom: choices.is_empty(),
        extra: Map::new(),
    }
}

/// An offered value.
struct Offered {
    value: Value,
    label: String,
    about: Option<String>,
}

impl Offered {
    fn extra(&self) -> Map<String, Value> {
        self.about.iter().map(|about| ("description".to_owned(), Value::from(about.as_str()))).collect()
    }
}

/// The values that a field offers: an `enum`, a `oneOf` or `anyOf` of constants, or yes and no.
fn choices(field: &Value) -> Vec<Offered> {
    let plain = |value: &Value| {
        let label = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Offered { value: value.clone(), label, about: None }
    };
    let of = if field["type"] == "array" { &field["items"] } else { field };
    let constants = of["oneOf"].as_array().or_else(|| of["anyOf"].as_array());
    if let Some(constants) = constants {
        let offered = |option: &Value| {
            let value = option.get("const")?;
            let label = option["title"].as_str().map_or_else(|| plain(value).label, str::to_owned);
            let about = option["description"].as_str().map(str::to_owned);
            Some(Offered { value: value.clone(), label, about })
        };
        return constants.iter().filter_map(offered).collect();
    }
    if let Some(values) = of["enum"].as_array() {
        return values.iter().map(plain).collect();
    }
    if of["type"] == "boolean" {
        let offered = |value: bool, label: &str| Offered {
            value: Value::from(value),
            label: label.to_owned(),
            about: None,
        };
        return vec![offered(true, "Yes"), offered(false, "No")];
    }
    Vec::new()
}

/// The answer to a field, as its schema wants it. `None` if there is none.
fn value(field: &Value, answer: &Value) -> Option<Value> {
    let choices = choices(field);
    let one = |text: &str| {
        let offered = choices.iter().find(|choice| choice.label == text || choice.value == text);
        offered.map_or_else(|| typed(field["type"].as_str(), text), |choice| choice.value.clone())
    };
    if field["type"] == "array" {
        let texts = answer.as_array().into_iter().flatten().filter_map(Value::as_str);
        return Some(texts.map(one).collect());
    }
    first(Some(answer)).map(one)
}

/// A text that a person wrote, in the type of its field.
fn typed(kind: Option<&str>, text: &str) -> Value {
    let number = || match kind? {
        "integer" => text.parse::<i64>().ok().map(Value::from),
        "number" => text.parse::<f64>().ok().map(Value::from),
        _ => None,
    };
    number().unwrap_or_else(|| Value::from(text))
}

/// The first of the given answers, which are a list or a text.
fn first(answer: Option<&Value>) -> Option<&str> {
    let answer = answer?;
    answer.as_str().or_else(|| answer.get(0)?.as_str())
}
