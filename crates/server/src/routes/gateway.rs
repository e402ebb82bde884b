//! `GET /v1/gateway`: what the gateway does at the moment, for a person who looks after it.

use super::Answer;
use crate::app::App;
use crate::params::{Nothing, Params};
use crate::problem::Problem;
use crate::stream::StreamKind;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use turnstream_gateway::RequestError;
use turnstream_log::Health;
use turnstream_model::Chain;
use turnstream_proxy::OUTCOMES;

pub(crate) async fn show(
    State(app): State<Arc<App>>,
    _: Params<Nothing>,
) -> Result<impl IntoResponse, Problem> {
    // Blocking: the disk and what agents use are read from files.
    let answer = tokio::task::spawn_blocking(move || describe(&app)).await.map_err(RequestError::log)?;
    Ok(Answer(StatusCode::OK, answer))
}

fn describe(app: &App) -> Value {
    let (status, problem) = match app.gateway.health() {
        Health::Sound => ("sound", None),
        Health::Degraded { since: _, problem } => ("degraded", Some(problem.to_string())),
        Health::Failed { problem } => ("failed", Some(problem.to_string())),
    };
    let started = app.started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let connections = &app.in_use.connections;
    let streams = StreamKind::ALL.map(|kind| (kind.word().to_owned(), json!(app.streams.count(kind))));
    let mut gateway = json!({
        "status": status,
        "version": env!("CARGO_PKG_VERSION"),
        "started": u64::try_from(started.as_millis()).unwrap_or_default(),
        "recovering": app.gateway.recovering(),
        "events": app.gateway.figures().events,
        "live_agents": app.gateway.live_agents().live,
        "agents": agents(app),
        "turns": turns(app),
        "streams": Map::from_iter(streams),
        "connections": {"open": connections.open(), "most": connections.most()},
    });
    if let Some(problem) = problem {
        gateway["problem"] = json!(problem);
    }
    match app.gateway.disk_use() {
        Ok(disk) => gateway["disk"] = json!({"used": disk.used, "free": disk.free, "size": disk.size}),
        Err(error) => tracing::warn!(error = %Chain(&error), "the use of the disk cannot be read"),
    }
    if let Some(proxy) = &app.options.proxy {
        let routes = proxy.figures().into_iter().map(|(name, route)| {
            let ended = OUTCOMES.into_iter().zip(route.ended);
            let ended: Map<String, Value> =
                ended.map(|(word, count)| (word.to_owned(), json!(count))).collect();
            json!({
                "name": name,
                "open": route.open,
                "attempts": route.attempts,
                "fallbacks": route.fallbacks,
                "reattached": route.reattached,
                "ended": ended,
            })
        });
        gateway["routes"] = routes.collect();
    }
    gateway
}

/// What the processes of each agent use, where that is known.
fn agents(app: &App) -> Value {
    let usage = app.gateway.process_usage().into_iter().map(|(name, usage)| {
        let cpu = u64::try_from(usage.cpu.as_millis()).unwrap_or(u64::MAX);
        json!({"name": name, "processes": usage.processes, "memory": usage.memory, "cpu": cpu})
    });
    usage.collect()
}

/// The turns of all agents that ended since the start, by outcome.
fn turns(app: &App) -> Value {
    let mut turns = Map::new();
    for counts in app.gateway.event_counts().into_values() {
        for ((outcome, _), count) in counts.turns_ended {
            let before = turns.get(outcome.as_str()).and_then(Value::as_u64).unwrap_or_default();
            turns.insert(outcome.as_str().to_owned(), json!(before + count));
        }
    }
    Value::Object(turns)
}
