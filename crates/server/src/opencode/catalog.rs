//! What a client can choose from: each agent of ours is an agent and a provider of opencode. And what a
//! gateway does not have: commands, language servers, formatters.

use super::answer::{Answer, Failure, Json};
use super::lookup;
use super::request::{Asked, Body};
use crate::app::App;
use axum::extract::State as Shared;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use turnstream_dialects::opencode::{DEFAULT_MODEL, PROJECT, VERSION};

/// Each agent that can be used, with its kind and the models that its sessions have used.
fn agents(app: &App) -> Vec<(String, String, BTreeSet<String>)> {
    let mut models: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in lookup::entries(&app.gateway) {
        if let Some(model) = entry.session.model {
            models.entry(entry.session.agent).or_default().insert(model);
        }
    }
    let mut agents: Vec<_> = app.gateway.agents();
    // Clients choose the first agent.
    agents.sort_by_key(|(name, _)| app.options.default_agent.as_ref() != Some(name));
    let agent = |(name, about): (String, turnstream_adapter::Description)| {
        let mut models = models.remove(&name).unwrap_or_default();
        models.insert(DEFAULT_MODEL.to_owned());
        (name, about.about, models)
    };
    agents.into_iter().map(agent).collect()
}

pub(super) async fn agent_list(Shared(app): Shared<Arc<App>>) -> Json {
    let agent = |(name, about, _): (String, String, _)| {
        json!({
            "name": name,
            "description": about,
            "mode": "primary",
            "native": false,
            "permission": [],
            "options": {},
            "model": {"providerID": name, "modelID": DEFAULT_MODEL},
        })
    };
    Json(Value::Array(agents(&app).into_iter().map(agent).collect()))
}

/// The providers, without any credentials: agents have their own.
fn providers(app: &App) -> (Vec<Value>, Map<String, Value>) {
    let mut defaults = Map::new();
    let providers = agents(app).into_iter().map(|(name, about, models)| {
        defaults.insert(name.clone(), json!(DEFAULT_MODEL));
        let models: Map<String, Value> =
            models.into_iter().map(|id| (id.clone(), model(&name, &id, &about))).collect();
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
    let (providers, default) = providers(&app);
    Json(json!({"providers": providers, "default": default}))
}

pub(super) async fn provider_list(Shared(app): Shared<Arc<App>>) -> Json {
    let (all, default) = providers(&app);
    let connected: Vec<Value> = all.iter().map(|provider| provider["id"].clone()).collect();
    Json(json!({"all": all, "default": default, "connected": connected}))
}

pub(super) async fn config(Shared(app): Shared<Arc<App>>) -> Json {
    let first = agents(&app).into_iter().next();
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
    let all: BTreeSet<String> =
        lookup::entries(&app.gateway).into_iter().map(|entry| entry.session.cwd).collect();
    Json(json!(all))
}

pub(super) async fn health() -> Json {
    Json(json!({"healthy": true, "version": VERSION}))
}

pub(super) async fn vcs() -> Json {
    Json(json!({"branch": null, "default_branch": null}))
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

fn location(asked: &Asked) -> Value {
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
