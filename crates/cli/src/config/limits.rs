//! `[limits]`: how much clients may take of the gateway at once.

use super::duration::Span;
use super::keys::keys;
use super::size::Size;
use turnstream_server::Limits as ServerLimits;

keys! {
    /// The table. A limit that is left out has its default.
    pub(super) struct Limits in "limits" {
        // The limits of the HTTP server.
        /// Open connections in all. An idle one is closed in favour of a new one. When all are in use, a new
        /// one is answered with 503. A quarter of the open files (`ulimit -n`), and at least 128, is kept for
        /// the log and for agents. Default: 12000.
        connections: u64 = "12000", variable, zero "refuse every connection" "allow 12000";
        /// Open connections of one client address (IPv6: of one network of 64 bits). Default: 6000.
        connections_per_address: u64 = "6000", variable, zero "refuse every connection" "allow 6000";
        /// Requests per second of one token, or of one client address without tokens. A stream counts once.
        /// Default: 2000.
        requests_per_second: u64 = "2000", variable, zero "refuse every request" "allow 2000";
        /// Requests that may come at once after a pause. Default: 10000.
        requests_burst: u64 = "10000", variable, zero "refuse every request" "allow 10000";
        /// Open event streams and WebSockets in all. Default: 11000.
        followers: u64 = "11000", variable, zero "refuse every stream" "allow 11000";
        /// Memory for bodies of requests that have not arrived completely, in all. At least 14 MiB, so that a
        /// whole body fits. Default: 64 MiB.
        body_memory: Size = "\"64MiB\"", variable, zero "refuse every body" "allow 64 MiB";
        /// The time in which the file of an import must arrive. Imports run one at a time. Default: 1 hour.
        import_time: Span = "\"1h\"", variable;
    }
}

impl Limits {
    /// The limits of the HTTP server, with their defaults.
    pub(super) fn of_server(&self) -> ServerLimits {
        let defaults = ServerLimits::default();
        let number = |limit: Option<u64>, default: usize| {
            limit.map_or(default, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
        };
        ServerLimits {
            connections: number(self.connections, defaults.connections),
            connections_per_address: number(self.connections_per_address, defaults.connections_per_address),
            descriptors: defaults.descriptors,
            requests_per_second: self.requests_per_second.unwrap_or(defaults.requests_per_second),
            requests_burst: self.requests_burst.unwrap_or(defaults.requests_burst),
            followers: number(self.followers, defaults.followers),
            body_memory: number(self.body_memory.map(|size| size.0), defaults.body_memory),
            import_time: self.import_time.map_or(defaults.import_time, |span| span.0),
            wait: defaults.wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Limits, ServerLimits};
    use std::time::Duration;

    #[test]
    fn the_limits_of_the_server_come_from_the_table_and_the_rest_are_the_defaults() {
        let file = "connections = 7\nconnections_per_address = 6\nrequests_per_second = 5\nrequests_burst = 4\n\
                    followers = 3\nbody_memory = \"20MiB\"\n";
        let table: Limits = toml::from_str(file).unwrap();
        let variables = |name: &str| (name == "TURNSTREAM_LIMITS_IMPORT_TIME").then(|| "2m".to_owned());
        let wanted = ServerLimits {
            connections: 7,
            connections_per_address: 6,
            descriptors: None,
            requests_per_second: 5,
            requests_burst: 4,
            followers: 3,
            body_memory: 20 << 20,
            import_time: Duration::from_secs(120),
            wait: ServerLimits::default().wait,
        };
        assert_eq!(table.with_environment(variables).unwrap().of_server(), wanted);
        assert_eq!(Limits::default().of_server(), ServerLimits::default());
    }
}
