//! Caps on the command line: `steps=20`, `session_cost=2.5`, `time=none`.

use crate::config::parse_duration;
use crate::escape::{self, Safe, safe};
use crate::record::Record;
use serde_json::{Map, Value, json};
use std::str::FromStr;

/// The caps, by their names in requests and events.
const CAPS: [&str; 4] = ["steps", "time", "tokens", "cost"];

/// How the names of the caps of a whole session begin.
const OF_SESSION: &str = "session_";

/// One cap of the command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CapArg {
    /// `turn` or `session`.
    scope: &'static str,
    cap: &'static str,
    /// Null for no cap.
    value: Value,
}

impl FromStr for CapArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("write it like steps=20, or steps=none for no cap")?;
        let (scope, of_cap) = match name.strip_prefix(OF_SESSION) {
            Some(of_cap) => ("session", of_cap),
            None => ("turn", name),
        };
        let cap = CAPS.into_iter().find(|cap| *cap == of_cap).ok_or_else(|| {
            let known = CAPS.map(|cap| format!("{cap}, {OF_SESSION}{cap}")).join(", ");
            format!("there is no cap {name:?}; there is {known}")
        })?;
        let value = match (cap, value) {
            (_, "none") => Value::Null,
            ("time", time) => json!(u64::try_from(parse_duration(time)?.as_millis()).unwrap_or(u64::MAX)),
            ("cost", cost) => {
                let amount: f64 =
                    cost.parse().map_err(|_| format!("{cost:?} is not an amount of dollars"))?;
                json!(amount)
            }
            (_, count) => {
                let count: u64 = count.parse().map_err(|_| format!("{count:?} is not a whole number"))?;
                json!(count)
            }
        };
        Ok(Self { scope, cap, value })
    }
}

/// The caps as the member `budget` of a request; `None` without any.
pub(crate) fn body(caps: &[CapArg]) -> Option<Value> {
    let of = |scope: &str| {
        let caps = caps.iter().filter(|cap| cap.scope == scope);
        let members: Map<String, Value> = caps.map(|cap| (cap.cap.to_owned(), cap.value.clone())).collect();
        (!members.is_empty()).then_some(Value::Object(members))
    };
    let scopes = ["turn", "session"].into_iter().filter_map(|scope| Some((scope.to_owned(), of(scope)?)));
    let budget: Map<String, Value> = scopes.collect();
    (!budget.is_empty()).then_some(Value::Object(budget))
}

/// Whether one of the caps is for the whole session.
pub(crate) fn is_for_session(caps: &[CapArg]) -> bool {
    caps.iter().any(|cap| cap.scope == "session")
}

/// What a session has used of its budget, a line for each cap.
pub(crate) fn lines(session: Record<'_>) -> Vec<Safe> {
    let budget = &session.0["budget"];
    let mut lines = Vec::new();
    for (scope, name) in [("session", OF_SESSION), ("turn", "")] {
        for cap in CAPS {
            let limit = &budget[scope][cap];
            if limit.is_null() {
                continue;
            }
            let mut line = safe![name, cap, "=", amount(cap, limit)];
            if scope == "session" {
                line = match &budget["used"][cap] {
                    Value::Null => safe![line, ", used: the agent has not told"],
                    used => safe![line, ", used ", amount(cap, used)],
                };
                if budget["reached"] == cap {
                    line = safe![line, ": reached, the session takes no prompt"];
                }
            }
            lines.push(line);
        }
    }
    lines
}

/// A number of a cap, as it is written on the command line.
fn amount(cap: &str, value: &Value) -> Safe {
    match value.as_u64().filter(|_| cap == "time") {
        Some(millis) => escape::text(&format!("{}.{:03}s", millis / 1_000, millis % 1_000)),
        None => escape::text(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(texts: &[&str]) -> Result<Vec<CapArg>, String> {
        texts.iter().map(|text| text.parse()).collect()
    }

    #[test]
    fn caps_become_the_member_of_a_request() {
        let caps = parsed(&["steps=20", "time=1m", "session_cost=2.5", "session_tokens=none"]).unwrap();
        let wanted = json!({
            "turn": {"steps": 20, "time": 60_000},
            "session": {"cost": 2.5, "tokens": null},
        });
        assert_eq!(body(&caps), Some(wanted));
        assert!(is_for_session(&caps) && !is_for_session(&caps[..2]));
        assert_eq!(body(&[]), None);
    }

    #[test]
    fn what_is_no_cap_is_refused_in_words() {
        for (text, problem) in [
            ("steps", "write it like steps=20"),
            ("turns=3", "there is no cap \"turns\"; there is steps, session_steps, "),
            ("steps=many", "\"many\" is not a whole number"),
            ("cost=cheap", "\"cheap\" is not an amount of dollars"),
            ("time=soon", "\"soon\" is not a time"),
        ] {
            let refused = parsed(&[text]).unwrap_err();
            assert!(refused.contains(problem), "{text}: {refused}");
        }
    }

    #[test]
    fn a_session_shows_what_it_has_used() {
        let session = json!({"budget": {
            "turn": {"steps": 20},
            "session": {"tokens": 500, "time": 60_000, "cost": 1.5},
            "used": {"tokens": 512, "time": 1_250},
            "reached": "tokens",
        }});
        let shown: Vec<String> = lines(Record(&session)).iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "session_time=60.000s, used 1.250s",
                "session_tokens=500, used 512: reached, the session takes no prompt",
                "session_cost=1.5, used: the agent has not told",
                "steps=20",
            ]
        );
        assert!(lines(Record(&json!({"id": "s"}))).is_empty());
    }
}
