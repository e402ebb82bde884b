//! Forms in which an agent, or an MCP server of an agent, asks for input. Each field is one question.

use serde_json::{Map, Value, json};
use turnstream_model::event::{Choice, Question, QuestionOutcome};

/// A form that waits for an answer.
pub(crate) struct Form {
    /// The schemas of its fields.
    fields: Map<String, Value>,
}

impl Form {
    /// The form with this schema (`requestedSchema`).
    pub(crate) fn new(schema: Option<&Value>) -> Self {
        let fields = schema.and_then(|schema| schema["properties"].as_object());
        Self { fields: fields.cloned().unwrap_or_default() }
    }

    /// Its questions. `message` is what the agent says about it.
    pub(crate) fn questions(&self, message: &str) -> Vec<Question> {
        let fields = &self.fields;
        let asked = || fields.iter().filter(|(name, _)| chosen_beside(fields, name).is_none());
        let count = asked().count();
        if count == 0 {
            // A form without a field asks for a yes or a no.
            return vec![question("", &json!({"type": "boolean"}), message, 1)];
        }
        let question = |(name, field): (&String, &Value)| {
            let custom = fields.contains_key(&custom_name(name));
            let question = question(name, field, message, count);
            Question { custom: question.custom || custom, ..question }
        };
        asked().map(question).collect()
    }

    /// The answer: an action, and the content of the fields.
    pub(crate) fn answer(&self, outcome: QuestionOutcome, answers: &Map<String, Value>) -> Value {
        match outcome {
            QuestionOutcome::Answered if self.fields.is_empty() => {
                let is_yes = first(answers.get("")) == Some("Yes");
                json!({"action": if is_yes { "accept" } else { "decline" }})
            }
            QuestionOutcome::Answered => json!({"action": "accept", "content": self.content(answers)}),
            QuestionOutcome::Rejected => json!({"action": "decline"}),
            QuestionOutcome::Cancelled | QuestionOutcome::Expired | QuestionOutcome::Lost => {
                json!({"action": "cancel"})
            }
        }
    }

    fn content(&self, answers: &Map<String, Value>) -> Map<String, Value> {
        let field = |(name, field): (&String, &Value)| {
            let custom = custom_name(name);
            let answer = answers.get(name)?;
            // What is not offered goes into the field beside it.
            let name = match self.fields.contains_key(&custom) && !is_offered(field, answer) {
                true => custom,
                false => name.clone(),
            };
            Some((name, value(field, answer)?))
        };
        self.fields.iter().filter_map(field).collect()
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
