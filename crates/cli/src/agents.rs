//! Builds the agents of the configuration, and those that were found.

use crate::config::{
    Acp as AcpTable, AgentTable, Config, Opencode as OpencodeTable, Scripted as ScriptedTable,
    Started as StartedTable,
};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use turnstream_agents::Agent;
use turnstream_agents::acp::{Acp, AcpConfig};
use turnstream_agents::claude::{Claude, ClaudeConfig};
use turnstream_agents::codex::{Codex, CodexConfig};
use turnstream_agents::demo::{DemoAgent, DemoConfig};
use turnstream_agents::opencode::{
    Budget, Configured, FromEnv, FromFile, Launch, Opencode, OpencodeConfig, Pace, Source, Timeouts,
};
use turnstream_agents::program::{CLAUDE, CODEX, NotYet, OPENCODE};
use turnstream_gateway::Settings;

/// The agents, by name.
pub(crate) fn of(config: &Config) -> BTreeMap<String, Arc<dyn Agent>> {
    let agent = |(name, table): (&String, &AgentTable)| {
        // The directory for the agent's own files.
        let place = config.data.join("agents").join(name);
        let agent: Arc<dyn Agent> = match table {
            AgentTable::Scripted(table) => Arc::new(scripted(table, place)),
            AgentTable::Opencode(table) => Arc::new(opencode(name, table, place, &config.settings)),
            AgentTable::Claude(table) => Arc::new(claude(name, table, place, &config.settings)),
            AgentTable::Codex(table) => Arc::new(codex(name, table, place, &config.settings)),
            AgentTable::Acp(table) => Arc::new(acp(name, table, place, &config.settings)),
            AgentTable::NotYet(found) => Arc::new(NotYet::new(name, found.clone())),
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
            let command = table.command.clone().unwrap_or_else(|| PathBuf::from(OPENCODE.command));
            let mut launch = Launch::new(command, &place, &place);
            launch.secrets = settings.redaction.clone();
            launch.env = environment(&table.passed, &table.env);
            Source::Start(Box::new(launch))
        }
    };
    // The gateway enforces the caps of the configuration. Without one on steps, opencode's own guard stops a
    // model that never stops.
    let guard = Budget::default();
    let budget = Budget { steps: guard.steps.filter(|_| table.budget.steps.is_none()), ..guard };
    let (timeouts, pace) = (Timeouts::default(), Pace { connect: settings.connect, ..Pace::default() });
    let origin = table.origin;
    Opencode::new(name, OpencodeConfig { source, origin, timeouts, pace, budget })
}

fn claude(name: &str, table: &StartedTable, place: PathBuf, settings: &Settings) -> Claude {
    let config = ClaudeConfig {
        command: table.command.clone().unwrap_or_else(|| PathBuf::from(CLAUDE.command)),
        origin: table.origin,
        env: environment(&table.passed, &table.env),
        state: place,
        secrets: settings.redaction.clone(),
        connect: settings.connect,
    };
    Claude::new(name, config)
}

fn codex(name: &str, table: &StartedTable, place: PathBuf, settings: &Settings) -> Codex {
    let config = CodexConfig {
        command: table.command.clone().unwrap_or_else(|| PathBuf::from(CODEX.command)),
        origin: table.origin,
        env: environment(&table.passed, &table.env),
        state: place,
        secrets: settings.redaction.clone(),
    };
    Codex::new(name, config)
}

fn acp(name: &str, table: &AcpTable, place: PathBuf, settings: &Settings) -> Acp {
    let config = AcpConfig {
        command: table.command.clone(),
        arguments: table.arguments.clone(),
        known: table.known,
        origin: table.origin,
        env: environment(&table.passed, &table.env),
        state: place,
        secrets: settings.redaction.clone(),
        connect: settings.connect,
    };
    Acp::new(name, config)
}

/// The variables that are passed on, and those that are set, which win.
fn environment(passed: &[(OsString, OsString)], set: &BTreeMap<String, String>) -> Vec<(OsString, OsString)> {
    let set = set.iter().map(|(name, value)| (name.into(), value.into()));
    passed.iter().cloned().chain(set).collect()
}
