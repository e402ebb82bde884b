//! Builds the agents of the configuration, and those that were found.

use crate::agent_listener::AgentListener;
use crate::config::{
    Acp as AcpTable, AgentTable, Builtin as BuiltinTable, Config, Opencode as OpencodeTable,
    Scripted as ScriptedTable, Started as StartedTable,
};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use turnstream_agents::Agent;
use turnstream_agents::acp::{Acp, AcpConfig};
use turnstream_agents::builtin::{Builtin, BuiltinConfig};
use turnstream_agents::claude::{Claude, ClaudeConfig};
use turnstream_agents::codex::{Codex, CodexConfig};
use turnstream_agents::demo::{DemoAgent, DemoConfig};
use turnstream_agents::opencode::{
    Budget, Configured, FromEnv, FromFile, Launch, Opencode, OpencodeConfig, Pace, Source, Timeouts,
};
use turnstream_agents::program::{CLAUDE, CODEX, NotYet, OPENCODE, Origin, RouteForAgent};
use turnstream_gateway::Settings;
use turnstream_llm::client::{self, Client, ClientError, Environment};
use turnstream_llm::wait::SystemClock;
use turnstream_log::Attempts;
use turnstream_provider::{AgentRoute, Asker, Route};

/// The model calls of a turn of the built-in agent, if the configuration has no cap.
const MOST_STEPS: u32 = 200;

/// The agents, by name. `ledger` is there if the configuration has a route to a model provider, `listener` if
/// an agent is pointed at one.
pub(crate) fn of(
    config: &Config,
    ledger: Option<&Attempts>,
    listener: Option<&AgentListener>,
) -> Result<BTreeMap<String, Arc<dyn Agent>>, ClientError> {
    let agent = |(name, table): (&String, &AgentTable)| {
        // The directory for the agent's own files.
        let place = config.data.join("agents").join(name);
        let pointed = match (table.pointed_at(&config.routes), listener) {
            (Some((_, Ok((by, route)))), Some(AgentListener { address, secret, .. })) => {
                Some(RouteForAgent { by, route: AgentRoute::new(route.clone(), *address, secret.clone()) })
            }
            // The configuration was refused if there is a route that cannot be used.
            (Some(_) | None, _) => None,
        };
        let agent: Arc<dyn Agent> = match table {
            AgentTable::Scripted(table) => Arc::new(scripted(table, place)),
            AgentTable::Opencode(table) => Arc::new(opencode(name, table, place, &config.settings, pointed)),
            AgentTable::Claude(table) => Arc::new(claude(name, table, place, &config.settings, pointed)),
            AgentTable::Codex(table) => Arc::new(codex(name, table, place, &config.settings, pointed)),
            AgentTable::Acp(table) => Arc::new(acp(name, table, place, &config.settings, pointed)),
            AgentTable::Builtin(table) => match (table.route(&config.routes), ledger) {
                (Some(route), Some(ledger)) => {
                    Arc::new(builtin(name, table, route, ledger, place, &config.settings)?)
                }
                // The configuration was refused then.
                (None, _) | (_, None) => return Ok(None),
            },
            AgentTable::NotYet(found) => Arc::new(NotYet::new(name, found.clone())),
        };
        Ok(Some((name.clone(), agent)))
    };
    config.agents.iter().filter_map(|entry| agent(entry).transpose()).collect()
}

fn builtin(
    name: &str,
    table: &BuiltinTable,
    route: &Arc<Route>,
    ledger: &Attempts,
    place: PathBuf,
    settings: &Settings,
) -> Result<Builtin, ClientError> {
    let mut client = client::Settings::default();
    client.timeouts.headers = route.first_event;
    client.timeouts.silence = route.silence;
    client.timeouts.silence_with_pings = client.timeouts.silence_with_pings.min(route.silence);
    let surroundings = Environment {
        ledger: Arc::new(ledger.clone()),
        waits: Arc::new(ledger.clone()),
        clock: Arc::new(SystemClock),
        redact: Arc::new(settings.redaction.clone()),
    };
    let config = BuiltinConfig {
        route: Arc::clone(route),
        client: Client::new(client, surroundings)?,
        ledger: Arc::new(ledger.clone()),
        state: place,
        secrets: settings.redaction.clone(),
        env: environment(&[], &table.env),
        most_steps: table.budget.steps.is_none().then_some(MOST_STEPS),
        most_output: table.max_tokens,
        discovered: table.origin == Origin::Discovered,
    };
    Ok(Builtin::new(name, config))
}

fn scripted(table: &ScriptedTable, place: PathBuf) -> DemoAgent {
    let defaults = DemoConfig::default();
    DemoAgent::new(DemoConfig {
        memory: Some(place),
        pace: table.pace_ms.map_or(defaults.pace, Duration::from_millis),
        script: table.script.clone(),
    })
}

fn opencode(
    name: &str,
    table: &OpencodeTable,
    place: PathBuf,
    settings: &Settings,
    route: Option<RouteForAgent>,
) -> Opencode {
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
            if let Some(route) = &route {
                // One server works for all sessions.
                route.point(&mut launch.env, &Asker::Agent(name.to_owned()));
            }
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

fn claude(
    name: &str,
    table: &StartedTable,
    place: PathBuf,
    settings: &Settings,
    route: Option<RouteForAgent>,
) -> Claude {
    let config = ClaudeConfig {
        command: table.command.clone().unwrap_or_else(|| PathBuf::from(CLAUDE.command)),
        origin: table.origin,
        env: environment(&table.passed, &table.env),
        state: place,
        secrets: settings.redaction.clone(),
        connect: settings.connect,
        route,
    };
    Claude::new(name, config)
}

fn codex(
    name: &str,
    table: &StartedTable,
    place: PathBuf,
    settings: &Settings,
    route: Option<RouteForAgent>,
) -> Codex {
    let config = CodexConfig {
        command: table.command.clone().unwrap_or_else(|| PathBuf::from(CODEX.command)),
        origin: table.origin,
        env: environment(&table.passed, &table.env),
        state: place,
        secrets: settings.redaction.clone(),
        route,
    };
    Codex::new(name, config)
}

fn acp(
    name: &str,
    table: &AcpTable,
    place: PathBuf,
    settings: &Settings,
    route: Option<RouteForAgent>,
) -> Acp {
    let config = AcpConfig {
        command: table.command.clone(),
        arguments: table.arguments.clone(),
        known: table.known,
        origin: table.origin,
        env: environment(&table.passed, &table.env),
        state: place,
        secrets: settings.redaction.clone(),
        connect: settings.connect,
        route,
    };
    Acp::new(name, config)
}

/// The variables that are passed on, and those that are set, which win.
fn environment(passed: &[(OsString, OsString)], set: &BTreeMap<String, String>) -> Vec<(OsString, OsString)> {
    let set = set.iter().map(|(name, value)| (name.into(), value.into()));
    passed.iter().cloned().chain(set).collect()
}
