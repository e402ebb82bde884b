//! The flags of `turnstream run` for unattended runs, and what they mean for the end of the command.

use crate::config::parse_duration;
use crate::record::Record;
use serde_json::{Map, Value, json};
use std::time::Duration;
use turnstream_model::event::Known;

/// How a session goes on when nobody watches it.
#[derive(clap::Args)]
pub(crate) struct Flags {
    /// At a limit of the provider that tells its end: wait and go on, or fail [default: that of the agent]
    #[arg(long, value_name = "wait|fail", value_parser = ["wait", "fail"])]
    on_limit: Option<String>,
    /// How long to wait for limits at most, like 12h or 7d
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    limit_window: Option<Duration>,
    /// After another failure that passes: continue, at most 3 times, or fail [default: that of the agent]
    #[arg(long, value_name = "continue|fail", value_parser = ["continue", "fail"])]
    on_failure: Option<String>,
    /// The prompt that continues a failed turn
    #[arg(long, value_name = "TEXT")]
    continue_with: Option<String>,
}

impl Flags {
    /// The members of a request. Only those that are given: an older gateway does not know them.
    pub(crate) fn members(&self) -> Map<String, Value> {
        let millis = |window: Duration| json!(u64::try_from(window.as_millis()).unwrap_or(u64::MAX));
        let members = [
            ("on_limit", self.on_limit.as_ref().map(|word| json!(word))),
            ("limit_window", self.limit_window.map(millis)),
            ("on_failure", self.on_failure.as_ref().map(|word| json!(word))),
            ("continue_with", self.continue_with.as_ref().map(|text| json!(text))),
        ];
        members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// Whether a failed turn of the session may be continued, from the session or from `unattended.set`.
pub(crate) fn may_continue(session: Record<'_>) -> bool {
    let rules = session.member("unattended");
    rules.is("on_limit", "wait") || rules.is("on_failure", "continue")
}

/// What an event says about a failed turn.
pub(crate) enum Afterwards {
    /// It is not continued.
    Over,
    /// A client did not want it to be continued.
    Cancelled,
    /// This prompt continues it.
    Continued(String),
}

/// What an event says about a failed turn; `None` if nothing yet.
pub(crate) fn afterwards(turn: &str, event: Record<'_>) -> Option<Afterwards> {
    match event.event_type() {
        Some(Known::UnattendedReleased) if event.is("of", turn) => match event.text("outcome").exact() {
            "due" | "woken" => None,
            "cancelled" => Some(Afterwards::Cancelled),
            _ => Some(Afterwards::Over),
        },
        Some(Known::PromptContinues) if event.is("of", turn) => {
            Some(Afterwards::Continued(event.text("prompt").exact().to_owned()))
        }
        // With the end of the turn the session is idle, unless it waits to continue it.
        Some(Known::SessionStatus)
            if !event.is("status", "retrying") && !event.is("status", "recovering") =>
        {
            Some(Afterwards::Over)
        }
        _ => None,
    }
}
