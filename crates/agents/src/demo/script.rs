//! Scripts: lists of steps in JSON. They are read strictly, so that a mistake is reported and not played.

use super::act::Act;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// A valid script: every step is known and allowed at its place.
#[derive(Clone, Debug)]
pub struct DemoScript(Arc<Read>);

#[derive(Debug)]
struct Read {
    /// The steps as they were written, for the memory.
    written: Vec<Value>,
    steps: Vec<Step>,
    pace: Option<Duration>,
}

/// What is wrong with a script, and at which step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DemoScriptError(String);

/// One step.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) when: Option<When>,
    pub(super) act: Act,
}

/// The outcome of the last permission or question that a step requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum When {
    Allowed,
    Rejected,
}

impl DemoScript {
    /// Reads a script: an array of steps, or an object with that array as `script` and an optional `pace_ms`.
    pub fn from_json(text: &str) -> Result<Self, DemoScriptError> {
        match turnstream_json::from_str(text)
            .map_err(|error| DemoScriptError(format!("not JSON: {error}")))?
        {
            Value::Array(steps) => Self::read(steps, None),
            Value::Object(object) => Self::from_object(object),
            _ => {
                Err(DemoScriptError("a script is an array of steps, or an object with \"script\"".to_owned()))
            }
        }
    }

    /// The script in a prompt, if it is one.
    pub(super) fn of_prompt(text: &str) -> Option<Result<Self, DemoScriptError>> {
        let text = text.trim();
        if !text.starts_with('{') || !text.contains("\"script\"") {
            return None;
        }
        match turnstream_json::from_str::<Value>(text) {
            Ok(Value::Object(object)) if object.contains_key("script") => Some(Self::from_object(object)),
            Ok(_) => None,
            Err(error) => {
                Some(Err(DemoScriptError(format!("the prompt looks like a script and is not JSON: {error}"))))
            }
        }
    }

    /// Reads steps that are already values.
    pub(super) fn read(written: Vec<Value>, pace: Option<Duration>) -> Result<Self, DemoScriptError> {
        let mut steps = Vec::with_capacity(written.len());
        for (index, value) in written.iter().enumerate() {
            let step = Step::read(value).map_err(|problem| at(index, value, &problem))?;
            step.fits_after(&steps).map_err(|problem| at(index, value, &problem))?;
            steps.push(step);
        }
        Ok(Self(Arc::new(Read { written, steps, pace })))
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.0.steps
    }

    /// The script's own delay between pieces of text.
    pub(super) fn pace(&self) -> Option<Duration> {
        self.0.pace
    }

    /// False if a step begins the turn, or replaces it.
    pub(super) fn begins_at_once(&self) -> bool {
        !self.steps().iter().any(|step| matches!(step.act, Act::Begin(_)) || step.act.is_instead_of_a_turn())
    }

    fn from_object(mut object: Map<String, Value>) -> Result<Self, DemoScriptError> {
        let steps = match object.remove("script") {
            Some(Value::Array(steps)) => steps,
            Some(_) => return Err(DemoScriptError("\"script\" must be an array of steps".to_owned())),
            None => return Err(DemoScriptError("\"script\" is missing".to_owned())),
        };
        let pace = match object.remove("pace_ms") {
            None => None,
            Some(pace) => Some(pace.as_u64().map(Duration::from_millis).ok_or_else(|| {
                DemoScriptError(format!("\"pace_ms\" must be a whole number of milliseconds, not {pace}"))
            })?),
        };
        if let Some(member) = object.keys().next() {
            let problem =
                format!("unknown member {member:?} beside \"script\"; \"pace_ms\" is the only other one");
            return Err(DemoScriptError(problem));
        }
        Self::read(steps, pace)
    }
}

impl Serialize for DemoScript {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = Map::new();
        object.insert("script".to_owned(), Value::Array(self.0.written.clone()));
        if let Some(pace) = self.0.pace {
            let millis = u64::try_from(pace.as_millis()).unwrap_or(u64::MAX);
            object.insert("pace_ms".to_owned(), millis.into());
        }
        object.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for DemoScript {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Map::deserialize(deserializer)?;
        Self::from_object(object).map_err(serde::de::Error::custom)
    }
}

fn at(index: usize, value: &Value, problem: &str) -> DemoScriptError {
    let name = value.get("do").and_then(Value::as_str).map_or(String::new(), |name| format!(" ({name})"));
    DemoScriptError(format!("step {}{name}: {problem}", index + 1))
}

// === impl Step ===

impl Step {
    fn read(value: &Value) -> Result<Self, String> {
        let Value::Object(object) = value else { return Err(format!("a step is an object, not {value}")) };
        let mut object = object.clone();
        let when = object.remove("when").map(serde_json::from_value::<When>).transpose();
        let when = when.map_err(|error| format!("member \"when\": {error}"))?;
        let act: Act = serde_json::from_value(Value::Object(object)).map_err(|error| error.to_string())?;
        act.check()?;
        Ok(Self { when, act })
    }

    /// Checks whether the step may follow those.
    fn fits_after(&self, before: &[Self]) -> Result<(), String> {
        let any = |holds: fn(&Act) -> bool| before.iter().any(|step| holds(&step.act));
        if any(Act::is_last) {
            return Err("nothing can follow the step before it".to_owned());
        }
        if self.when.is_some() && !any(Act::waits) {
            return Err("\"when\" needs a step before it that asks".to_owned());
        }
        if self.act.is_instead_of_a_turn() && !before.iter().all(|step| matches!(step.act, Act::Sleep(_))) {
            return Err("only sleep can come before it: it is instead of a turn".to_owned());
        }
        if self.act.needs_tool() && !any(Act::has_tool) {
            return Err("it needs a tool call before it".to_owned());
        }
        if self.act.needs_text() && !any(|act| matches!(act, Act::Text(_))) {
            return Err("it needs a text before it".to_owned());
        }
        Ok(())
    }
}
