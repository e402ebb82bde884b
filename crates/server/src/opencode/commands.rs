//! Commands of agents: a prompt that begins with a slash and a name that the agent knows. And shell commands
//! of a person, which only some agents run.

use super::answer::{Answer, Failure, Json};
use super::choice::ModelRef;
use super::lookup::find_whole;
use super::prompts::{Prompt, answered};
use super::request::Body;
use crate::app::App;
use crate::caller::CallersGateway;
use crate::params::Ids;
use axum::extract::State as Shared;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use turnstream_adapter::Description;
use turnstream_gateway::Gateway;
use turnstream_model::id::SessionId;

/// The command that shortens a conversation.
const COMPACT: &str = "compact";
/// The command that describes a project for agents.
const INIT: &str = "init";
/// Commands that clients have themselves, under the same names.
const OF_CLIENTS: [&str; 2] = [COMPACT, "clear"];

#[derive(Deserialize)]
pub(super) struct Run {
    command: String,
    #[serde(default)]
    arguments: String,
    #[serde(rename = "messageID")]
    message: Option<String>,
    agent: Option<String>,
    /// `PROVIDER/MODEL`.
    model: Option<String>,
    #[serde(default)]
    parts: Vec<Map<String, Value>>,
}

#[derive(Deserialize)]
pub(super) struct Shell {
    command: String,
    #[serde(rename = "messageID")]
    message: Option<String>,
    agent: Option<String>,
    model: Option<ModelRef>,
}

#[derive(Deserialize)]
pub(super) struct Init {
    #[serde(rename = "messageID")]
    message: Option<String>,
}

/// The commands of all agents.
pub(super) async fn list(Shared(app): Shared<Arc<App>>) -> Json {
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    for choice in app.gateway.agents().into_iter().flat_map(|(_, about)| about.commands) {
        let name = choice.id;
        if !OF_CLIENTS.contains(&name.as_str()) {
            let about = choice.about.unwrap_or_default();
            let command = json!({
                "name": name, "description": about, "source": "command", "template": format!("/{name}"), "hints": [],
            });
            all.insert(name, command);
        }
    }
    Json(all.into_values().collect())
}

pub(super) async fn run(
    Shared(app): Shared<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    Ids(id): Ids<String>,
    Body(body): Body<Run>,
) -> Answer {
    let Run { command, arguments, message, agent, model, parts } = body;
    let model = model.as_deref().and_then(|model| model.split_once('/'));
    let model = model.map(|(provider, id)| ModelRef { provider: provider.into(), id: id.into() });
    let session = find_whole(&app, &id, "session.command")?;
    let mut prompt = prompt(&gateway, &session, "session.command", &command, &arguments).await?;
    prompt.parts.extend(parts);
    answered(&app, &gateway, &session, Prompt { message, agent, model, ..prompt }).await
}

/// Shortens a conversation, with the model of the session.
pub(super) async fn summarize(
    Shared(app): Shared<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    Ids(id): Ids<String>,
) -> Answer {
    let session = find_whole(&app, &id, "session.summarize")?;
    let prompt = prompt(&gateway, &session, "session.summarize", COMPACT, "").await?;
    succeeded(&answered(&app, &gateway, &session, prompt).await?, "session.summarize")
}

pub(super) async fn init(
    Shared(app): Shared<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    Ids(id): Ids<String>,
    Body(Init { message }): Body<Init>,
) -> Answer {
    let session = find_whole(&app, &id, "session.init")?;
    let prompt = prompt(&gateway, &session, "session.init", INIT, "").await?;
    succeeded(&answered(&app, &gateway, &session, Prompt { message, ..prompt }).await?, "session.init")
}

/// The answer to a command that returns nothing: `true`, unless its turn has an error.
fn succeeded(Json(answer): &Json, operation: &str) -> Answer {
    let error = &answer["info"]["error"];
    if error.is_null() {
        return Ok(Json(json!(true)));
    }
    let message = error["data"]["message"].as_str().or(error["name"].as_str()).unwrap_or_default();
    Err(Failure::failed(format!("{operation} failed: {message}")))
}

/// Runs a shell command of a person, in the session of an agent that does.
pub(super) async fn shell(
    Shared(app): Shared<Arc<App>>,
    CallersGateway(gateway): CallersGateway,
    Ids(id): Ids<String>,
    Body(Shell { command, message, agent, model }): Body<Shell>,
) -> Answer {
    let session = find_whole(&app, &id, "session.shell")?;
    let ours = gateway.session(&session)?.session.agent;
    let runs_shell = gateway.agents().into_iter().any(|(name, about)| name == ours && about.shell);
    if !runs_shell {
        let detail = format!("session.shell: the agent {ours} runs no shell commands of a person; ask it to");
        return Err(Failure::not_supported(detail));
    }
    let part = text_part(&format!("!{command}"));
    let body = Prompt { parts: vec![part], message, agent, model, is_shell: true, ..Prompt::default() };
    answered(&app, &gateway, &session, body).await
}

/// The prompt that is a command, if the agent of the session has it.
async fn prompt(
    gateway: &Gateway,
    session: &SessionId,
    operation: &str,
    command: &str,
    arguments: &str,
) -> Result<Prompt, Failure> {
    let ours = gateway.session(session)?.session.agent;
    let has = |agents: Vec<(String, Description)>| {
        let about = agents.into_iter().find(|(name, _)| *name == ours);
        about.is_some_and(|(_, about)| about.commands.iter().any(|choice| choice.id == command))
    };
    // An agent may know more of them after a look.
    if !has(gateway.agents()) && !has(gateway.probe_agents().await) {
        let detail = format!("{operation}: the agent {ours} has no command {command:?}");
        return Err(Failure::not_supported(detail));
    }
    let text = format!("/{command} {arguments}");
    Ok(Prompt { parts: vec![text_part(text.trim_end())], ..Prompt::default() })
}

fn text_part(text: &str) -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), json!("text")), ("text".to_owned(), json!(text))])
}
