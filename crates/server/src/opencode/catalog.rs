//! What a client can choose from: each agent of ours is an agent and a provider of opencode, and each of its
//! modes is another agent. And what a gateway does not have: language servers, formatters.

use super::answer::{Answer, Failure, Json};
use super::request::{Asked, Body};
use crate::app::App;
use axum::extract::State as Shared;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use turnstream_adapter::Description;
use turnstream_dialects::opencode::{DEFAULT_MODEL, PROJECT, VERSION, agent_name};

/// Those of the agents that can be used. Clients choose the first one.
fn usable(app: &App, mut agents: Vec<(String, Description)>) -> Vec<(String, Description)> {
    agents.retain(|(_, about)| about.problem.is_none());
    agents.sort_by_key(|(name, _)| app.options.default_agent.as_ref() != Some(name));
    agents
}

/// Each agent, and each of its modes.
pub(super) async fn agent_list(Shared(app): Shared<Arc<App>>) -> Json {
    let mut list = Vec::new();
    for (name, about) in usable(&app, app.gateway.agents()) {
        let modes = about.modes.iter().map(|mode| agent_name(&name, Some(&mode.id)));
        // The mode `default` is the agent itself.
        let modes = modes.filter(|listed| *listed != name);
        for listed in std::iter::once(name.clone()).chain(modes) {
            list.push(json!({
                "name": listed,
                "description": about.about,
                "mode": "primary",
                "native": false,
                "permission": [],
                "options": {},
                "model": {"providerID": name, "modelID": DEFAULT_MODEL},
            }));
        }
    }
    Json(Value::Array(list))
}

/// The providers, without any credentials: agents have their own. Their models are those that agents offer,
/// and those that sessions use.
async fn providers(app: &App) -> (Vec<Value>, Map<String, Value>) {
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    app.gateway.for_each_session(|_, session| {
        let Some(model) = &session.model else { return };
        match used.get_mut(&session.agent) {
            Some(models) if models.contains(model) => {}
            Some(models) => drop(models.insert(model.clone())),
            None => drop(used.insert(session.agent.clone(), BTreeSet::from([model.clone()]))),
        }
    });
    let mut defaults = Map::new();
    let providers = usable(app, app.gateway.probe_agents().await).into_iter().map(|(name, about)| {
        defaults.insert(name.clone(), json!(DEFAULT_MODEL));
        let mut ids = used.remove(&name).unwrap_or_default();
        ids.insert(DEFAULT_MODEL.to_owned());
        ids.extend(about.models.into_iter().map(|model| model.id));
        let models: Map<String, Value> =
            ids.into_iter().map(|id| (id.clone(), model(&name, &id, &about.about))).collect();
        json!({"id": name, "name": name, "source": "custom", "env": [], "options": {}, "models": models})
    });
    let providers = providers.collect();
    (providers, defaults)
}

fn model(agent: &str, id: &str, about: &str) -> Value {
    let name = if id == DEFAULT_MODEL { format!("{agent} (its own choice)") } else { id.to_owned() };
    let kinds = json!({"text": true, "audio": false, "image": true, "video": false, "pdf": false});
    json!({
        "id": id,
        "providerID": agent,
        "api": {"id": id, "url": "", "npm": ""},
        "name": name,
        "family": about,
        "capabilities": {
            "temperature": false, "reasoning": true, "attachment": true, "toolcall": true, "input": kinds,
            "output": kinds, "interleaved": false,
        },
        "cost": {"input": 0, "output": 0, "cache": {"read": 0, "write": 0}},
        "limit": {"context": 0, "output": 0},
        "status": "active",
        "options": {},
        "headers": {},
        "release_date": "",
        "variants": {},
    })
}

pub(super) async fn config_providers(Shared(app): Shared<Arc<App>>) -> Json {
    let (providers, default) = providers(&app).await;
    Json(json!({"providers": providers, "default": default}))
}

pub(super) async fn provider_list(Shared(app): Shared<Arc<App>>) -> Json {
    let (all, default) = providers(&app).await;
    let connected: Vec<Value> = all.iter().map(|provider| provider["id"].clone()).collect();
    Json(json!({"all": all, "default": default, "connected": connected}))
}

pub(super) async fn config(Shared(app): Shared<Arc<App>>) -> Json {
    let first = usable(&app, app.gateway.agents()).into_iter().next();
    let mut config =
        json!({"$schema": "https://opencode.ai/config.json", "share": "disabled", "autoupdate": false});
    if let Some((name, ..)) = first {
        config["model"] = json!(format!("{name}/{DEFAULT_MODEL}"));
        config["default_agent"] = json!(name);
    }
    Json(config)
}

pub(super) async fn path(asked: Asked) -> Json {
    let directory = asked.directory_or_own();
    let home = std::env::var("HOME").unwrap_or_default();
    Json(json!({"home": home, "state": "", "config": "", "worktree": directory, "directory": directory}))
}

fn project() -> Value {
    json!({"id": PROJECT, "worktree": "/", "time": {"created": 0, "updated": 0}, "sandboxes": []})
}

pub(super) async fn current_project() -> Json {
    Json(project())
}

pub(super) async fn projects() -> Json {
    Json(json!([project()]))
}

/// The directories of all sessions.
pub(super) async fn directories(Shared(app): Shared<Arc<App>>) -> Json {
    let mut all: BTreeSet<String> = BTreeSet::new();
    app.gateway.for_each_session(|_, session| {
        if !all.contains(&session.cwd) {
            all.insert(session.cwd.clone());
        }
    });
    Json(all.into_iter().map(|directory| json!({"directory": directory})).collect())
}

pub(super) async fn health() -> Json {
    Json(json!({"healthy": true, "version": VERSION}))
}

pub(super) async fn capabilities() -> Json {
    Json(json!({"backgroundSubagents": false}))
}

pub(super) async fn console() -> Json {
    Json(json!({"consoleManagedProviders": [], "switchableOrgCount": 0}))
}

/// There is none of it.
pub(super) async fn no_list() -> Json {
    Json(json!([]))
}

/// There is none of it.
pub(super) async fn no_map() -> Json {
    Json(json!({}))
}

/// The directory of a request, in the form of the newer API.
pub(super) fn location(asked: &Asked) -> Value {
    json!({"directory": asked.directory_or_own(), "project": {"id": PROJECT, "directory": "/"}})
}

pub(super) async fn here(asked: Asked) -> Json {
    Json(location(&asked))
}

/// There is none of it, in the form of the newer API.
pub(super) async fn nothing_here(asked: Asked) -> Json {
    Json(json!({"location": location(&asked), "data": []}))
}

#[derive(Deserialize)]
pub(super) struct LogLine {
    service: String,
    level: String,
}

/// A line of a client's log. Its text may quote the conversation, so only its origin is logged.
pub(super) async fn log(Body(LogLine { service, level }): Body<LogLine>) -> Answer {
    if service.len() > 64 || level.len() > 16 {
        return Err(Failure::bad("service or level is too long"));
    }
    tracing::debug!(service, level, "a client of opencode's API logged a line");
    Ok(Json(json!(true)))
}
