//! The keys of an agent for unattended runs.

use super::agent::AgentKeys;
use turnstream_gateway::UnattendedChange;
use turnstream_model::event::Unattended;

impl AgentKeys {
    /// How new sessions of the agent go on after a limit or a failure.
    pub(super) fn unattended(&self) -> Result<Unattended, String> {
        let millis = |window: std::time::Duration| u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        let change = UnattendedChange {
            on_limit: self.on_limit,
            limit_window: self.limit_window.as_ref().map(|window| millis(window.0)),
            on_failure: self.on_failure,
            continue_with: self.continue_with.clone(),
        };
        change.check().map_err(|error| error.to_string())?;
        Ok(change.applied_to(&Unattended::default()))
    }
}
