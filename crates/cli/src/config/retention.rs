//! `[retention]`: how long what was said is kept.

use super::file::Span;
use super::size::{self, Size};
use super::{ConfigError, duration};
use serde::Deserialize;
use turnstream_gateway::Retention;

/// The table. What is left out is kept for ever.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetentionTable {
    max_age: Option<Span>,
    max_bytes: Option<Size>,
    max_turns: Option<u64>,
    session_max_age: Option<Span>,
    max_sessions: Option<u64>,
    total_bytes: Option<Size>,
    every: Option<Span>,
}

impl RetentionTable {
    /// `TURNSTREAM_RETENTION_MAX_AGE` and so on are stronger than the file.
    pub(super) fn with_environment(
        mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let bad = |variable, value, problem| ConfigError::Variable { variable, value, problem };
        let named = |name: &str| format!("TURNSTREAM_RETENTION_{name}");
        let spans = [
            ("MAX_AGE", &mut self.max_age),
            ("SESSION_MAX_AGE", &mut self.session_max_age),
            ("EVERY", &mut self.every),
        ];
        for (name, span) in spans {
            if let Some(value) = variable(&named(name)) {
                let parsed = duration::parse(&value);
                *span = Some(Span(parsed.map_err(|problem| bad(named(name), value, problem))?));
            }
        }
        let sizes = [("MAX_BYTES", &mut self.max_bytes), ("TOTAL_BYTES", &mut self.total_bytes)];
        for (name, size) in sizes {
            if let Some(value) = variable(&named(name)) {
                *size = Some(size::parse(&value).map_err(|problem| bad(named(name), value, problem))?);
            }
        }
        let numbers = [("MAX_TURNS", &mut self.max_turns), ("MAX_SESSIONS", &mut self.max_sessions)];
        for (name, number) in numbers {
            if let Some(value) = variable(&named(name)) {
                let parsed = value.parse::<u64>();
                let problem =
                    |_| bad(named(name), value.clone(), "it is a whole number, for example 100".to_owned());
                *number = Some(parsed.map_err(problem)?);
            }
        }
        Ok(self)
    }

    /// With the defaults for what is left out.
    pub(super) fn decided(&self) -> Retention {
        let defaults = Retention::default();
        Retention {
            max_age: self.max_age.map(|span| span.0),
            max_bytes: self.max_bytes.map(|size| size.0),
            max_turns: self.max_turns,
            session_max_age: self.session_max_age.map(|span| span.0),
            max_sessions: self.max_sessions,
            total_bytes: self.total_bytes.map(|size| size.0),
            every: self.every.map_or(defaults.every, |span| span.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RetentionTable;
    use std::time::Duration;
    use turnstream_gateway::Retention;

    #[test]
    fn variables_are_stronger_than_the_file() {
        let file = "max_age = \"30d\"\nmax_bytes = \"10MB\"\nmax_turns = 5\ntotal_bytes = 7\n";
        let table: RetentionTable = toml::from_str(file).unwrap();
        let variables = |name: &str| match name {
            "TURNSTREAM_RETENTION_MAX_AGE" => Some("2h".to_owned()),
            "TURNSTREAM_RETENTION_MAX_SESSIONS" => Some("9".to_owned()),
            "TURNSTREAM_RETENTION_TOTAL_BYTES" => Some("1GiB".to_owned()),
            _ => None,
        };
        let decided = table.with_environment(variables).unwrap().decided();
        let wanted = Retention {
            max_age: Some(Duration::from_secs(7_200)),
            max_bytes: Some(10_000_000),
            max_turns: Some(5),
            session_max_age: None,
            max_sessions: Some(9),
            total_bytes: Some(1 << 30),
            every: Duration::from_secs(60),
        };
        assert_eq!(decided, wanted);
    }

    #[test]
    fn a_variable_that_cannot_be_used_is_refused_by_name() {
        for (name, value) in
            [("MAX_AGE", "old"), ("TOTAL_BYTES", "much"), ("MAX_TURNS", "-1"), ("EVERY", "0")]
        {
            let full = format!("TURNSTREAM_RETENTION_{name}");
            let given = |asked: &str| (asked == full).then(|| value.to_owned());
            let error = RetentionTable::default().with_environment(given).unwrap_err().to_string();
            assert!(error.contains(&full) && error.contains(value), "{error}");
        }
    }
}
