//! Builds the agents of the configuration.

use crate::config::{AgentTable, Config, Opencode as OpencodeTable, Scripted as ScriptedTable};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use turnstream_agents::Agent;
use turnstream_agents::demo::{DemoAgent, DemoConfig};
use turnstream_agents::opencode::{
    Budget, Configured, FromEnv, FromFile, Launch, Opencode, OpencodeConfig, Pace, Source, Timeouts,
};
use turnstream_gateway::Settings;

/// The agents, by name.
pub(crate) fn of(config: &Config) -> BTreeMap<String, Arc<dyn Agent>> {
    let agent = |(name, table): (&String, &AgentTable)| {
        // The directory for the agent's own files.
        let place = config.data.join("agents").join(name);
        let agent: Arc<dyn Agent> = match table {
            AgentTable::Scripted(table) => Arc::new(scripted(table, place)),
            AgentTable::Opencode(table) => Arc::new(opencode(name, table, place, &config.settings)),
        };
        (name.clone(), agent)
    };
    config.agents.iter().map(agent).collect()
}

fn scripted(table: &ScriptedTable, place: PathBuf) -> DemoAgent {
    let defaults = DemoConfig::default();
    DemoAgent::new(DemoConfig {
        memory: Some(place),
        pace: table.pace_ms.map_or(defaults.pace, Duration::from_millis),
        script: table.script.clone(),
    })
}

fn opencode(name: &str, table: &OpencodeTable, place: PathBuf, settings: &Settings) -> Opencode {
    let source = match &table.url {
        Some(url) => {
            let password = match (&table.password_env, &table.password_file) {
                (Some(variable), _) => Configured::Env(FromEnv::new(variable)),
                (None, Some(file)) => Configured::File(FromFile::new(file)),
                (None, None) => Configured::Nothing,
            };
            Source::Attach { url: url.clone(), password, user: table.user.clone() }
        }
        None => {
            let command = table.command.clone().unwrap_or_else(|| PathBuf::from("opencode"));
            let mut launch = Launch::new(command, &place, &place);
            let passed =
                table.pass_env.iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
            let given = table.env.iter().map(|(name, value)| (name.into(), value.into()));
            launch.secrets = settings.redaction.clone();
            launch.env = passed.chain(given).collect();
            Source::Start(Box::new(launch))
        }
    };
    let defaults = Budget::default();
    let budget = Budget {
        steps: table.budget.steps.map(|limit| limit.0).or(defaults.steps),
        time: table.budget.time.map(|span| span.0),
        tokens: table.budget.tokens.map(|limit| limit.0),
        cost: table.budget.cost.map(|limit| limit.0),
    };
    let (timeouts, pace) = (Timeouts::default(), Pace { connect: settings.connect, ..Pace::default() });
    Opencode::new(name, OpencodeConfig { source, timeouts, pace, budget })
}
