//! The shape of every event as the wire reference gives it. It is not made from the table of events, which
//! it judges.

use super::{ask, attempt, budget, item, notice, prompt, session, turn, unattended};
use serde_json::{Map, Value};

/// What a member must look like.
pub(super) enum Kind {
    /// A string that is not empty.
    Id,
    Ids,
    Text,
    /// Short text without anything that a terminal or a page does not print.
    Name,
    /// A whole number.
    Count,
    /// A whole number of at most 16 bits.
    Small,
    Number,
    Flag,
    Object,
    Objects,
    /// One of these words.
    Word(&'static [&'static str]),
}

pub(super) use Kind::{Count, Flag, Id, Ids, Name, Number, Object, Objects, Small, Text, Word};

/// Name, what it looks like, and whether it must be there.
pub(super) type Member = (&'static str, Kind, bool);

/// An event's type and its members.
pub(super) type Shape = (&'static str, &'static [Member]);

pub(super) const MUST: bool = true;
pub(super) const MAY: bool = false;

/// Who did it.
pub(super) const BY: &[&str] = &["client", "policy", "agent", "gateway"];

const ENVELOPE: &[Member] = &[
    ("turn", Id, MAY),
    ("item", Id, MAY),
    ("parent", Id, MAY),
    ("native", Text, MAY),
    ("native_id", Text, MAY),
    ("actor", Name, MAY),
];

/// The shapes of all events, a list for each family.
const FAMILIES: &[&[Shape]] = &[
    session::SHAPES,
    prompt::SHAPES,
    turn::SHAPES,
    attempt::SHAPES,
    item::SHAPES,
    ask::SHAPES,
    notice::SHAPES,
    budget::SHAPES,
    unattended::SHAPES,
];

const TOOL: &[Member] = &[
    ("name", Text, MAY),
    (
        "kind",
        Word(&[
            "read",
            "edit",
            "delete",
            "move",
            "search",
            "execute",
            "think",
            "fetch",
            "switch_mode",
            "other",
        ]),
        MAY,
    ),
    ("title", Text, MAY),
    ("status", Word(&["pending", "in_progress", "completed", "failed"]), MAY),
    ("content", Objects, MAY),
    ("locations", Objects, MAY),
];

pub(super) const CLASSES: &[&str] = &[
    "cancelled",
    "unreachable",
    "transport_lost",
    "stalled",
    "stream_corrupt",
    "stream_spliced",
    "incomplete",
    "empty_output",
    "not_a_stream",
    "rate_limited",
    "quota_exhausted",
    "overloaded",
    "provider_error",
    "context_overflow",
    "output_limit",
    "refused",
    "auth",
    "model_unavailable",
    "invalid_request",
    "budget",
    "not_started",
    "agent_exited",
    "agent_error",
    "timeout",
    "internal",
];

const ERROR: &[Member] = &[
    ("class", Word(CLASSES), MUST),
    ("message", Text, MUST),
    ("status", Small, MAY),
    ("retry_at", Count, MAY),
    ("request_id", Text, MAY),
];

const USAGE: &[Member] = &[
    ("input", Count, MAY),
    ("output", Count, MAY),
    ("reasoning", Count, MAY),
    ("cache_read", Count, MAY),
    ("cache_write", Count, MAY),
];

/// Caps, or what was used of them.
const AMOUNTS: &[Member] =
    &[("steps", Count, MAY), ("time", Count, MAY), ("tokens", Count, MAY), ("cost", Number, MAY)];

const RETRY: &[Member] = &[("attempt", Count, MAY), ("reason", Word(CLASSES), MAY)];

/// Members of members, and of the objects in lists.
const NESTED: &[(&str, &[Member])] = &[
    ("tool", TOOL),
    ("error", ERROR),
    ("usage", USAGE),
    ("cost", &[("amount", Number, MUST), ("currency", Text, MUST)]),
    ("caps", AMOUNTS),
    ("used", AMOUNTS),
    ("last", AMOUNTS),
    ("budget", &[("turn", Object, MAY), ("session", Object, MAY)]),
    (
        "unattended",
        &[
            ("on_limit", Word(&["wait", "fail"]), MUST),
            ("limit_window", Count, MUST),
            ("on_failure", Word(&["continue", "fail"]), MUST),
            ("continue_with", Text, MUST),
        ],
    ),
    ("context", &[("used", Count, MAY), ("size", Count, MAY)]),
    ("content", &[("type", Id, MUST)]),
    (
        "options",
        &[
            ("id", Text, MUST),
            ("kind", Word(&["allow_once", "allow_always", "reject_once", "reject_always"]), MUST),
            ("name", Text, MUST),
        ],
    ),
    (
        "questions",
        &[
            ("id", Text, MUST),
            ("text", Text, MUST),
            ("options", Objects, MAY),
            ("multiple", Flag, MAY),
            ("custom", Flag, MAY),
        ],
    ),
];

/// Every way in which this event does not have the shape of its type. An unknown type has any shape.
pub(super) fn problems(r#type: &str, event: &Map<String, Value>) -> Vec<String> {
    let mut problems = Vec::new();
    let Some((_, members)) = FAMILIES.iter().copied().flatten().find(|(name, _)| *name == r#type) else {
        return problems;
    };
    check(event, members, "", &mut problems);
    let is_own = |name: &str| members.iter().any(|(own, ..)| *own == name);
    for member in ENVELOPE.iter().filter(|(name, ..)| !is_own(name)) {
        check(event, std::slice::from_ref(member), "", &mut problems);
    }
    // In a status `attempt` is the number of a retry; everywhere else it names a model call.
    if r#type == "session.status" {
        check(event, RETRY, "", &mut problems);
    } else if !is_own("attempt") {
        check(event, &[("attempt", Id, MAY)], "", &mut problems);
    }
    for (name, members) in NESTED {
        match event.get(*name) {
            Some(Value::Object(nested)) => check(nested, members, &format!("{name}."), &mut problems),
            Some(Value::Array(list)) => {
                for nested in list.iter().filter_map(Value::as_object) {
                    check(nested, members, &format!("{name}[]."), &mut problems);
                }
            }
            _ => {}
        }
    }
    if r#type == "turn.ended" {
        turn::check_ending(event, &mut problems);
    }
    problems
}

fn check(object: &Map<String, Value>, members: &[Member], prefix: &str, problems: &mut Vec<String>) {
    for (name, kind, must) in members {
        match object.get(*name) {
            None | Some(Value::Null) if *must => {
                problems.push(format!("member \"{prefix}{name}\" is missing"))
            }
            None | Some(Value::Null) => {}
            Some(value) => {
                if let Some(wanted) = kind.refuses(value) {
                    let shown = super::shortened(&value.to_string());
                    problems.push(format!("member \"{prefix}{name}\" is {shown}, not {wanted}"));
                }
            }
        }
    }
}

impl Kind {
    /// What was wanted, if the value is something else.
    fn refuses(&self, value: &Value) -> Option<String> {
        let is_id = |value: &Value| value.as_str().is_some_and(|id| !id.is_empty());
        let (fits, wanted) = match self {
            Id => (is_id(value), "a string that is not empty".to_owned()),
            Ids => (value.as_array().is_some_and(|ids| ids.iter().all(is_id)), "a list of ids".to_owned()),
            Text => (value.is_string(), "a string".to_owned()),
            Name => (value.as_str().is_some_and(is_name), "1 to 64 printable characters".to_owned()),
            Count => (value.is_u64(), "a whole number".to_owned()),
            Small => {
                let fits = value.as_u64().is_some_and(|number| u16::try_from(number).is_ok());
                (fits, "a whole number up to 65535".to_owned())
            }
            Number => (value.is_number(), "a number".to_owned()),
            Flag => (value.is_boolean(), "true or false".to_owned()),
            Object => (value.is_object(), "an object".to_owned()),
            Objects => {
                let fits = value.as_array().is_some_and(|values| values.iter().all(Value::is_object));
                (fits, "a list of objects".to_owned())
            }
            Word(words) => (
                value.as_str().is_some_and(|word| words.contains(&word)),
                format!("one of {}", words.join(", ")),
            ),
        };
        (!fits).then_some(wanted)
    }
}

fn is_name(text: &str) -> bool {
    let letters = text.chars().count();
    let is_odd = |letter: char| !letter.is_alphanumeric() && !matches!(letter, ' '..='~');
    letters > 0 && letters <= 64 && !text.contains(is_odd)
}
