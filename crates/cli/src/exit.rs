//! Exit codes: one table for the codes, `run --help` and docs/cli.md. A code never changes its meaning.

use std::fmt::Write;
use std::process::ExitCode;
use turnstream_model::event::{ErrorClass, Outcome};

/// How a command that follows a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Completed,
    /// With the class of the error, if this version knows it.
    Failed(Option<ErrorClass>),
    NotAccepted,
    Lost,
    GatewayAway,
    SessionEnded,
    Cancelled,
    ReaderGone,
}

impl Exit {
    /// The exit of a turn, from the members of `turn.ended`.
    pub(crate) fn of_turn(outcome: &str, class: Option<&str>) -> Self {
        match Outcome::from_word(outcome) {
            Some(Outcome::Completed) => Self::Completed,
            Some(Outcome::Cancelled) => Self::Cancelled,
            Some(Outcome::Lost) => Self::Lost,
            Some(Outcome::Failed) | None => Self::Failed(class.and_then(ErrorClass::from_word)),
        }
    }

    pub(crate) fn number(self) -> u8 {
        self.row().0
    }

    /// The number and its meaning.
    fn row(self) -> (u8, &'static str) {
        match self {
            Self::Completed => (0, "the turn completed; `stop_reason` of `turn.ended` says how"),
            Self::Failed(None) => (1, "the turn failed with an unknown class of error"),
            Self::NotAccepted => {
                (2, "nothing was sent: the command line, the configuration or the prompt is wrong")
            }
            Self::Lost => (3, "the turn is lost: it is not known how it ended"),
            Self::GatewayAway => (4, "the gateway does not answer; the turn may continue there"),
            Self::SessionEnded => (5, "the session ended before the turn did"),
            Self::Failed(Some(class)) => class_row(class),
            Self::Cancelled => {
                (130, "the turn was cancelled or the prompt withdrawn, or the command was interrupted")
            }
            Self::ReaderGone => (141, "the reader of standard output closed it; the turn may continue"),
        }
    }

    fn all() -> Vec<Self> {
        use Exit::*;
        let fixed = [Completed, Failed(None), NotAccepted, Lost, GatewayAway, SessionEnded];
        let by_class = ErrorClass::ALL.iter().map(|class| Failed(Some(*class)));
        fixed.into_iter().chain(by_class).chain([Cancelled, ReaderGone]).collect()
    }

    /// The class of a failed turn; empty for the other exits.
    fn class(self) -> &'static str {
        match self {
            Self::Failed(Some(class)) => class.as_str(),
            Self::Completed
            | Self::Failed(None)
            | Self::NotAccepted
            | Self::Lost
            | Self::GatewayAway
            | Self::SessionEnded
            | Self::Cancelled
            | Self::ReaderGone => "",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// The meaning of a class of errors.
pub(crate) fn class_meaning(class: ErrorClass) -> &'static str {
    class_row(class).1
}

/// The number and the meaning of a failed turn, by the class of its error.
fn class_row(class: ErrorClass) -> (u8, &'static str) {
    match class {
        ErrorClass::Cancelled => (20, "another client stopped it"),
        ErrorClass::Unreachable => (21, "no connection to the agent or the provider"),
        ErrorClass::TransportLost => (22, "a connection broke"),
        ErrorClass::Stalled => (23, "no data came for too long"),
        ErrorClass::StreamCorrupt => (24, "bytes were damaged"),
        ErrorClass::StreamSpliced => (25, "two answers were joined into one"),
        ErrorClass::Incomplete => (26, "the end of an answer is missing"),
        ErrorClass::EmptyOutput => (27, "an answer without content"),
        ErrorClass::NotAStream => (28, "the answer was not a stream"),
        ErrorClass::RateLimited => (29, "too many requests"),
        ErrorClass::QuotaExhausted => (30, "the quota is used up"),
        ErrorClass::Overloaded => (31, "the provider is overloaded"),
        ErrorClass::ProviderError => (32, "the provider failed"),
        ErrorClass::ContextOverflow => (33, "the input is too long for the model"),
        ErrorClass::OutputLimit => (34, "the output limit cut the answer"),
        ErrorClass::Refused => (35, "refused by policy"),
        ErrorClass::Auth => (36, "credentials are missing or wrong"),
        ErrorClass::ModelUnavailable => (37, "the model cannot be used"),
        ErrorClass::InvalidRequest => (38, "the request was malformed"),
        ErrorClass::Budget => (39, "a limit of steps, time, tokens or cost was reached"),
        ErrorClass::NotStarted => (40, "the agent accepted the prompt and did not start"),
        ErrorClass::AgentExited => (41, "the agent's process ended"),
        ErrorClass::AgentError => (42, "the agent reported an error of its own"),
        ErrorClass::Timeout => (43, "a deadline passed"),
        ErrorClass::Internal => (44, "a bug in turnstream"),
    }
}

/// The table, for `--help`.
pub(crate) fn help() -> String {
    let mut text = "Exit codes (stable):\n".to_owned();
    for exit in Exit::all() {
        let (number, meaning) = exit.row();
        let class =
            if exit.class().is_empty() { String::new() } else { format!("failed, {}: ", exit.class()) };
        // Writing to a `String` does not fail.
        let _ = writeln!(text, "  {number:>3}  {class}{}", meaning.replace('`', ""));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::Exit;
    use std::collections::BTreeSet;
    use turnstream_model::event::ErrorClass;

    #[test]
    fn outcome_and_class_decide() {
        assert_eq!(Exit::of_turn("completed", None).number(), 0);
        assert_eq!(Exit::of_turn("failed", Some("overloaded")).number(), 31);
        assert_eq!(Exit::of_turn("failed", Some("of a newer version")).number(), 1);
        assert_eq!(Exit::of_turn("lost", Some("agent_exited")).number(), 3);
        assert_eq!(Exit::of_turn("cancelled", Some("cancelled")).number(), 130);
    }

    #[test]
    fn every_exit_has_a_number_of_its_own() {
        let numbers: BTreeSet<u8> = Exit::all().iter().map(|exit| exit.number()).collect();
        assert_eq!(numbers.len(), Exit::all().len());
        assert_eq!(numbers.len(), 8 + ErrorClass::ALL.len());
    }

    /// Keeps the page equal to the table.
    #[test]
    fn the_documentation_has_this_table() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
        let page = std::fs::read_to_string(page).expect("docs/cli.md");
        let rows: Vec<String> = Exit::all()
            .into_iter()
            .map(|exit| {
                let (number, meaning) = exit.row();
                let class = match exit.class() {
                    "" => String::new(),
                    class => format!("`{class}`"),
                };
                format!("| {number} | {class} | {meaning} |")
            })
            .collect();
        let table = rows.join("\n").replace("|  |", "| |");
        assert!(page.contains(&table), "docs/cli.md needs this table:\n\n{table}\n");
    }
}
