//! What the gateway measures about itself, for metrics and health checks.

use crate::event_counts::EventCounts;
use crate::gateway::Gateway;
use crate::limits::Limit;
use crate::live_agents::LiveAgentCounts;
use crate::session_states::Stage;
use std::collections::BTreeMap;
use std::sync::Arc;
use turnstream_adapter::{Agent, Counts, ProcessUsage};
use turnstream_log::{Figures, Health, Removed};
use turnstream_model::fold::Activity;

impl Gateway {
    /// Whether the log can be written at the moment.
    pub fn health(&self) -> Health {
        self.log().health()
    }

    /// The log's counters since it was opened.
    pub fn figures(&self) -> Figures {
        self.log().figures()
    }

    /// Counts of durable events since the gateway was opened, by configured agent. All other agents that a
    /// session names are counted together, as `other`.
    pub fn event_counts(&self) -> BTreeMap<String, EventCounts> {
        self.event_counters().all()
    }

    /// The agents' own counters, by name.
    pub fn counts(&self) -> BTreeMap<String, Counts> {
        let counts = |(name, agent): (&String, &Arc<dyn Agent>)| Some((name.clone(), agent.counts()?));
        self.shared().agents().iter().filter_map(counts).collect()
    }

    /// What the agents' processes use at the moment, by name. Reads files: not for an async task.
    pub fn process_usage(&self) -> BTreeMap<String, ProcessUsage> {
        let usage = |(name, agent): (&String, &Arc<dyn Agent>)| Some((name.clone(), agent.process_usage()?));
        self.shared().agents().iter().filter_map(usage).collect()
    }

    /// How many sessions of each configured agent are at which stage, and those of all others as `other`.
    pub fn stages(&self) -> BTreeMap<String, BTreeMap<Stage, u64>> {
        self.states().stages(self.shared().agents().keys())
    }

    /// What deletes and retention have removed since the gateway was opened.
    pub fn removed(&self) -> Removed {
        self.log().removed()
    }

    /// How many requests each limit has refused since the gateway was opened.
    pub fn refusals(&self) -> Vec<(Limit, u64)> {
        self.shared().refusals.all()
    }

    /// Logs what the limits have refused since the last call. To be called every
    /// [`Refusals::REPORT_EVERY`](crate::Refusals::REPORT_EVERY).
    pub fn report_refusals(&self) {
        self.shared().refusals.report();
    }

    /// How many links to agents there are.
    pub fn live_agents(&self) -> LiveAgentCounts {
        self.shared().live_agents.counts()
    }

    /// How many sessions are being recovered.
    pub fn recovering(&self) -> usize {
        self.states().count(Activity::Recovering)
    }
}
