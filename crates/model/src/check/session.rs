//! The session: it begins once, ends once, and its status is true.

use super::Law;
use super::lifecycle::{Found, Life, Lifecycle, text};
use super::prompt::Prompt;
use super::shape::{Count, Flag, Id, Ids, MAY, MUST, Object, Shape, Text, Word};
use serde_json::{Map, Value};

pub(super) const SHAPES: &[Shape] = &[
    (
        "session.created",
        &[
            ("session", Id, MUST),
            ("agent", Id, MUST),
            ("cwd", Id, MUST),
            ("title", Text, MAY),
            ("key", Text, MAY),
        ],
    ),
    (
        "session.updated",
        &[
            ("model", Text, MAY),
            ("mode", Text, MAY),
            ("title", Text, MAY),
            ("native_id", Text, MAY),
            ("context", Object, MAY),
            ("permissions", Word(&["ask", "allow", "deny"]), MAY),
            ("redact_prompts", Flag, MAY),
            ("mcp", Ids, MAY),
        ],
    ),
    ("session.resumed", &[("as", Word(&["fresh", "transcript"]), MUST), ("forgot", Text, MAY)]),
    (
        "session.status",
        &[
            ("status", Word(&["idle", "busy", "waiting", "recovering", "retrying"]), MUST),
            ("until", Count, MAY),
        ],
    ),
    ("session.handed_over", &[("to", Id, MUST), ("agent", Id, MUST)]),
    (
        "session.inherited",
        &[
            ("from", Id, MUST),
            ("agent", Id, MUST),
            ("cwd", Id, MUST),
            ("text", Text, MUST),
            ("entries", Count, MUST),
            ("left_out", Count, MAY),
        ],
    ),
    ("session.ended", &[("reason", Text, MUST)]),
];

impl Lifecycle {
    pub(super) fn session(
        &mut self,
        r#type: &str,
        event: &Map<String, Value>,
        first: bool,
        found: &mut Found,
    ) {
        if self.ended {
            found.push((Law::Session, format!("{type} after session.ended")));
        }
        if first && r#type != "session.created" {
            found.push((Law::Session, format!("a log begins with session.created, not {type}")));
        }
        match r#type {
            "session.created" if self.created || !first => {
                found.push((Law::Session, "session.created again".to_owned()));
            }
            "session.created" => self.created = true,
            "session.ended" => {
                self.ended = true;
                self.nothing_open(found);
            }
            "session.status" => self.status(event, found),
            "session.resumed" => self.resumed(found),
            "session.inherited" => self.inherited(event, found),
            _ => {}
        }
    }

    fn status(&mut self, event: &Map<String, Value>, found: &mut Found) {
        let asks = self.asks.values().any(|ask| !ask.settled);
        let is_sent = |prompt: &Prompt| matches!(prompt, Prompt::Sent | Prompt::Cancelling);
        let sent = self.prompts.values().any(is_sent);
        let untrue = match (text(event, "status"), &self.open_turn) {
            (Some("idle"), Some(turn)) => format!("status idle while turn {turn} is open"),
            (Some("idle"), None) if sent && self.busy_for_prompt => {
                "status idle while a prompt was sent and has no turn".to_owned()
            }
            (Some("busy"), None) if sent => {
                self.busy_for_prompt = true;
                return;
            }
            (Some("retrying"), None) if self.parked.is_some() => return,
            (Some("idle"), None) if self.parked.is_some() => {
                "status idle while the session waits to continue a turn".to_owned()
            }
            (Some("busy" | "retrying"), None) => "status busy or retrying while no turn is open".to_owned(),
            (Some("waiting"), _) if !asks => "status waiting while nothing waits".to_owned(),
            _ => return,
        };
        self.never(Law::Session, untrue, found);
    }

    /// An agent that has forgotten the session works on nothing in it.
    fn resumed(&mut self, found: &mut Found) {
        if let Some(turn) = &self.open_turn {
            let untrue = format!("session.resumed while turn {turn} is open");
            self.never(Law::Session, untrue, found);
        }
    }

    /// A session takes over from one other session, before its first prompt.
    fn inherited(&mut self, event: &Map<String, Value>, found: &mut Found) {
        if self.inherited || !self.prompts.is_empty() || !self.turns.is_empty() {
            let from = text(event, "from").unwrap_or_default();
            let untrue = format!("session.inherited from {from} after the session has begun");
            found.push((Law::Session, untrue));
        }
        self.inherited = true;
    }

    /// Reports what is still open at the end of the session.
    fn nothing_open(&self, found: &mut Found) {
        if let Some(turn) = &self.open_turn {
            found.push((Law::OneEnd, format!("the session ended with turn {turn} open")));
        }
        let items = self.items.iter().filter(|(_, item)| item.life == Life::Open && item.turn.is_none());
        let asks = self.asks.iter().filter(|(_, ask)| !ask.settled && ask.turn.is_none());
        let prompts =
            self.prompts.iter().filter(|(_, state)| !matches!(state, Prompt::Taken | Prompt::Withdrawn));
        let mut open: Vec<String> = items.map(|(id, _)| format!("item {id}")).collect();
        open.extend(asks.map(|(name, _)| name.clone()));
        open.extend(prompts.map(|(id, _)| format!("prompt {id}")));
        open.sort();
        for what in open {
            found.push((Law::Session, format!("the session ended with {what} open")));
        }
    }
}
