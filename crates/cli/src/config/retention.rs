//! `[retention]`: how long what was said is kept.

use super::size::{self, Size};
use super::{ConfigError, duration};
use serde::{Deserialize, Deserializer};
use std::time::Duration;
use turnstream_gateway::Retention;

/// The table. What is left out is kept for ever.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct RetentionTable {
    max_age: Option<Age>,
    max_bytes: Option<Size>,
    max_turns: Option<u64>,
    session_max_age: Option<Age>,
    max_sessions: Option<u64>,
    total_bytes: Option<Size>,
    every: Option<Age>,
}

/// A time, also none at all: a table that holds one is refused as a whole, with what is meant by the key.
#[derive(Clone, Copy, Debug)]
struct Age(Duration);

impl<'de> Deserialize<'de> for Age {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        duration::deserialize(deserializer).map(Self)
    }
}

impl RetentionTable {
    /// Refuses zeros: taken by the letter they remove everything, and whoever writes one means the opposite.
    pub(super) fn check(&self) -> Result<(), Zero> {
        let is_none = |age: Option<Age>| age.is_some_and(|age| age.0.is_zero());
        let zeros = [
            ("max_age", is_none(self.max_age)),
            ("max_bytes", self.max_bytes == Some(Size(0))),
            ("max_turns", self.max_turns == Some(0)),
            ("session_max_age", is_none(self.session_max_age)),
            ("max_sessions", self.max_sessions == Some(0)),
            ("total_bytes", self.total_bytes == Some(Size(0))),
            ("every", is_none(self.every)),
        ];
        match zeros.into_iter().find(|(_, is_zero)| *is_zero) {
            Some((key, _)) => Err(Zero(key)),
            None => Ok(()),
        }
    }

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
                *span = Some(Age(parsed.map_err(|problem| bad(named(name), value, problem))?));
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
        if let Err(zero) = self.check() {
            let name = named(&zero.0.to_uppercase());
            let value = variable(&name).unwrap_or_default();
            return Err(bad(name, value, zero.to_string()));
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

/// The key of a limit that is zero.
#[derive(Debug)]
pub(super) struct Zero(pub(super) &'static str);

impl std::fmt::Display for Zero {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(key) = self;
        let (would, default, example) = match *key {
            "max_age" => ("remove every turn as soon as it has ended", "keep turns of any age", "\"30d\""),
            "max_bytes" => {
                ("remove every turn as soon as it has ended", "keep turns of any size", "\"50MB\"")
            }
            "max_turns" => ("remove every turn as soon as it has ended", "keep any number of them", "1000"),
            "session_max_age" => {
                ("delete every quiet session at once", "keep sessions of any age", "\"180d\"")
            }
            "max_sessions" => ("delete every quiet session at once", "keep any number of them", "10000"),
            "total_bytes" => {
                ("delete every quiet session at once", "keep them whatever they weigh", "\"20GB\"")
            }
            _ => ("look for what goes without a pause", "look once a minute", "\"60s\""),
        };
        write!(f, "0 would {would}; leave {key} out to {default}, or give a limit like {example}")
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
        for (name, value) in [
            ("MAX_AGE", "old"),
            ("TOTAL_BYTES", "much"),
            ("MAX_TURNS", "-1"),
            ("EVERY", "0"),
            ("MAX_SESSIONS", "0"),
        ] {
            let full = format!("TURNSTREAM_RETENTION_{name}");
            let given = |asked: &str| (asked == full).then(|| value.to_owned());
            let error = RetentionTable::default().with_environment(given).unwrap_err().to_string();
            assert!(error.contains(&full) && error.contains(value), "{error}");
        }
    }
}
