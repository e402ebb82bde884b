//! `[limits]`: how much clients may use of the gateway.

use super::keys::keys;
use super::size::Size;

keys! {
    /// The table. A key that is left out has its default.
    pub(super) struct Limits in "limits" {
        /// Sessions in all, ended ones included. Default: 100000.
        sessions: u64 = "100000", variable, zero "refuse every session" "allow 100000";
        /// Agents that work at the same time, over all sessions. A quiet agent makes room for another.
        /// Default: 100.
        live_agents: u64 = "100", variable, zero "refuse every prompt" "allow 100";
        /// Prompts that wait in one session. Default: 100.
        queued_prompts: u64 = "100", variable, zero "refuse every prompt" "allow 100";
        /// The size of these prompts together. Default: 32 MiB.
        queued_bytes: Size = "\"32MiB\"", variable, zero "refuse every prompt" "allow 32 MiB";
    }
}

impl Limits {
    /// The limits of the gateway itself.
    pub(super) fn of_gateway(&self) -> turnstream_gateway::Limits {
        let defaults = turnstream_gateway::Limits::default();
        let or = |chosen: Option<u64>, default: usize| {
            chosen.map_or(default, |chosen| usize::try_from(chosen).unwrap_or(usize::MAX))
        };
        turnstream_gateway::Limits {
            sessions: or(self.sessions, defaults.sessions),
            live_agents: or(self.live_agents, defaults.live_agents),
            queued_prompts: or(self.queued_prompts, defaults.queued_prompts),
            queued_bytes: or(self.queued_bytes.map(|size| size.0), defaults.queued_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Limits;

    #[test]
    fn what_is_left_out_has_its_default_and_variables_win() {
        let table: Limits = toml::from_str("sessions = 7\nqueued_bytes = \"1MiB\"\n").unwrap();
        let variables = |name: &str| (name == "TURNSTREAM_LIMITS_SESSIONS").then(|| "8".to_owned());
        let limits = table.with_environment(variables).unwrap().of_gateway();
        let defaults = turnstream_gateway::Limits::default();
        let wanted = turnstream_gateway::Limits { sessions: 8, queued_bytes: 1 << 20, ..defaults };
        assert_eq!(limits, wanted);
    }
}
