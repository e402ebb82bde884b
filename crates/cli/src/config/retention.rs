//! `[retention]`: how long sessions and turns are kept.

use super::duration::Age;
use super::keys::keys;
use super::size::Size;
use turnstream_gateway::Retention;

keys! {
    /// The table. A limit that is left out does not exist.
    pub(super) struct RetentionTable in "retention" {
        /// Per session: turns that ended longer ago are removed.
        max_age: Age = "\"30d\"", variable,
            zero "remove every turn as soon as it has ended" "keep turns of any age";
        /// Per session: the oldest turns beyond this size are removed.
        max_bytes: Size = "\"50MB\"", variable,
            zero "remove every turn as soon as it has ended" "keep turns of any size";
        /// Per session: the oldest turns beyond this number are removed.
        max_turns: u64 = "1000", variable,
            zero "remove every turn as soon as it has ended" "keep any number of them";
        /// Sessions in which nothing happened for longer are deleted.
        session_max_age: Age = "\"180d\"", variable,
            zero "delete every quiet session at once" "keep sessions of any age";
        /// Beyond this number, the sessions that were quiet for longest are deleted.
        max_sessions: u64 = "10000", variable,
            zero "delete every quiet session at once" "keep any number of them";
        /// The same, by the size of the events of all sessions together.
        total_bytes: Size = "\"20GB\"", variable,
            zero "delete every quiet session at once" "keep them whatever they weigh";
        /// How often these limits are applied. Default: every 60 seconds.
        every: Age = "\"60s\"", variable,
            zero "look for what goes without a pause" "look once a minute";
    }
}

impl RetentionTable {
    /// The limits, with the default of `every`.
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
