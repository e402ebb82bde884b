//! `[limits]`: how much clients may use of the gateway.

use super::duration::Span;
use super::keys::keys;
use super::size::Size;
use turnstream_gateway::{Limits as GatewayLimits, TextLengths};
use turnstream_server::Limits as ServerLimits;

keys! {
    /// The table. A key that is left out has its default.
    pub(super) struct Limits in "limits" {
        // The limits of the gateway itself.
        /// Sessions in all, ended ones included. Default: 100000.
        sessions: u64 = "100000", variable, zero "refuse every session" "allow 100000";
        /// Agents that work at the same time, over all sessions. A quiet agent makes room for another.
        /// Default: 100.
        live_agents: u64 = "100", variable, zero "refuse every prompt" "allow 100";
        /// Prompts that wait in one session. Default: 100.
        queued_prompts: u64 = "100", variable, zero "refuse every prompt" "allow 100";
        /// The size of these prompts together. Default: 32 MiB.
        queued_bytes: Size = "\"32MiB\"", variable, zero "refuse every prompt" "allow 32 MiB";
        /// The greatest length of a title, in characters. Default: 1000.
        title_length: u64 = "1000", variable, zero "refuse every title" "allow 1000";
        /// The greatest length of the name of a model. Default: 256.
        model_length: u64 = "256", variable, zero "refuse every model" "allow 256";
        /// The greatest length of the name of a mode. Default: 256.
        mode_length: u64 = "256", variable, zero "refuse every mode" "allow 256";
        /// The greatest length of the name of an agent. Default: 128.
        agent_length: u64 = "128", variable, zero "refuse every agent" "allow 128";
        /// The greatest length of a key for repeated requests. Default: 500.
        key_length: u64 = "500", variable, zero "refuse every key" "allow 500";
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
        /// The time in which an import must be over: its file has arrived, is checked and is stored. Imports
        /// run one at a time. Default: 1 hour.
        import_time: Span = "\"1h\"", variable;
    }
}

impl Limits {
    /// The limits of the gateway itself, with their defaults.
    pub(super) fn of_gateway(&self) -> GatewayLimits {
        let defaults = GatewayLimits::default();
        GatewayLimits {
            sessions: number(self.sessions, defaults.sessions),
            live_agents: number(self.live_agents, defaults.live_agents),
            queued_prompts: number(self.queued_prompts, defaults.queued_prompts),
            queued_bytes: number(self.queued_bytes.map(|size| size.0), defaults.queued_bytes),
            texts: TextLengths {
                title: number(self.title_length, defaults.texts.title),
                model: number(self.model_length, defaults.texts.model),
                mode: number(self.mode_length, defaults.texts.mode),
                agent: number(self.agent_length, defaults.texts.agent),
                key: number(self.key_length, defaults.texts.key),
            },
        }
    }

    /// The limits of the HTTP server, with their defaults.
    pub(super) fn of_server(&self) -> ServerLimits {
        let defaults = ServerLimits::default();
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

fn number(chosen: Option<u64>, default: usize) -> usize {
    chosen.map_or(default, |chosen| usize::try_from(chosen).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::{GatewayLimits, Limits, ServerLimits, TextLengths};
    use std::time::Duration;

    #[test]
    fn what_is_left_out_has_its_default_and_variables_win() {
        let table: Limits = toml::from_str("sessions = 7\nqueued_bytes = \"1MiB\"\n").unwrap();
        let variables = |name: &str| (name == "TURNSTREAM_LIMITS_SESSIONS").then(|| "8".to_owned());
        let limits = table.with_environment(variables).unwrap().of_gateway();
        let wanted = GatewayLimits { sessions: 8, queued_bytes: 1 << 20, ..GatewayLimits::default() };
        assert_eq!(limits, wanted);
    }

    #[test]
    fn every_length_of_a_short_text_can_be_chosen() {
        let file = "title_length = 1\nmodel_length = 2\nmode_length = 3\nagent_length = 4\nkey_length = 5\n";
        let limits = toml::from_str::<Limits>(file).unwrap().of_gateway();
        let texts = TextLengths { title: 1, model: 2, mode: 3, agent: 4, key: 5 };
        assert_eq!(limits, GatewayLimits { texts, ..GatewayLimits::default() });
    }

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
