//! One editor: reads its messages in order, and passes each on to the session that it is about.

use crate::capabilities::{self, Announced, GATEWAY_TOKEN};
use crate::output::{EditorGone, Output};
use crate::rpc::{self, INVALID_PARAMS, INVALID_REQUEST, Incoming};
use crate::session::{self, Command, Opening, Shared};
use crate::{DefaultAgent, McpServers, Options, listing, problem};
use agent_client_protocol_schema::v1::{
    AuthenticateRequest, CancelNotification, CancelRequestNotification, CloseSessionRequest,
    DeleteSessionRequest, Error, ListSessionsRequest, LoadSessionRequest, NewSessionRequest, PromptRequest,
    RequestId, ResumeSessionRequest, SessionConfigOptionValue, SetSessionConfigOptionRequest,
    SetSessionModeRequest,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use turnstream_agent_process::{Line, LineReader};
use turnstream_client::{Client, new_key};

/// The longest message of an editor: a prompt with images. The gateway takes 10 MiB.
const LONGEST: usize = 32 * 1024 * 1024;
/// How long requests that are under way may take after the editor has closed its side.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// Serves one editor until it closes its side, or stops reading. Turns that run then go on.
pub async fn serve(
    client: Client,
    options: Options,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let (sender, writing) = Output::start(output);
    let (created, mut news) = mpsc::channel(16);
    let mut connection = Connection {
        client,
        options: Arc::new(options),
        announced: None,
        output: sender,
        sessions: HashMap::new(),
        tasks: JoinSet::new(),
        created,
    };
    let mut lines = LineReader::new(input, LONGEST);
    let read = loop {
        let heard = tokio::select! {
            line = lines.next() => match line {
                Ok(Some(Line::Whole([]))) => Ok(()),
                Ok(Some(Line::Whole(line))) => connection.heard(rpc::parse(line)).await,
                Ok(Some(Line::Oversized(bytes))) => connection.too_long(bytes).await,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            },
            Some(created) = news.recv() => { connection.open(created).await; Ok(()) }
            Some(_) = connection.tasks.join_next(), if !connection.tasks.is_empty() => Ok(()),
        };
        if let Err(EditorGone) = heard {
            break Ok(());
        }
    };
    connection.end(news).await;
    match timeout(LAST_ANSWERS, writing).await {
        // An editor that has gone is no failure.
        Ok(Ok(Err(error))) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        Ok(_) => read,
        Err(_) => {
            tracing::warn!("the editor does not read the last messages");
            read
        }
    }
}

struct Connection {
    client: Client,
    options: Arc<Options>,
    /// What the editor announced with `initialize`.
    announced: Option<Announced>,
    output: Output,
    /// The open sessions.
    sessions: HashMap<String, mpsc::Sender<Command>>,
    /// Requests that no session answers.
    tasks: JoinSet<()>,
    created: mpsc::Sender<Created>,
}

/// A session that was made for the editor.
struct Created {
    session: String,
    opening: Opening,
}

impl Connection {
    async fn heard(&mut self, incoming: Incoming) -> Result<(), EditorGone> {
        match incoming {
            Incoming::Request { id, method, params } => match self.request(&id, &method, &params).await? {
                Ok(()) => Ok(()),
                Err(error) => self.output.respond::<()>(&id, Err(error)).await,
            },
            Incoming::Notification { method, params } => {
                self.notification(&method, &params).await;
                Ok(())
            }
            Incoming::Response { id, outcome } => {
                self.response(id, outcome).await;
                Ok(())
            }
            Incoming::Invalid { id, error } => self.output.respond::<()>(&id, Err(error)).await,
        }
    }

    async fn too_long(&self, bytes: u64) -> Result<(), EditorGone> {
        let told = format!("a message has {bytes} bytes, and at most {LONGEST} are read");
        self.output.respond::<()>(&RequestId::Null, Err(Error::new(INVALID_REQUEST, told))).await
    }

    /// Begins to answer a request. An error is the answer.
    async fn request(
        &mut self,
        id: &RequestId,
        method: &str,
        params: &Value,
    ) -> Result<Result<(), Error>, EditorGone> {
        if method == "initialize" {
            return self.initialize(id, params).await;
        }
        let Some(announced) = self.announced else {
            let told = format!("initialize must come before {method}");
            return Ok(Err(Error::new(INVALID_REQUEST, told)));
        };
        Ok(self.dispatch(id.clone(), method, params, announced).await)
    }

    async fn initialize(&mut self, id: &RequestId, params: &Value) -> Result<Result<(), Error>, EditorGone> {
        match capabilities::announced(params) {
            Ok(announced) => {
                self.announced = Some(announced);
                self.output.respond(id, Ok(capabilities::initialized(&self.options))).await?;
                Ok(Ok(()))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    async fn dispatch(
        &mut self,
        id: RequestId,
        method: &str,
        params: &Value,
        announced: Announced,
    ) -> Result<(), Error> {
        match method {
            "authenticate" => {
                let request: AuthenticateRequest = rpc::params(method, params)?;
                self.authenticate(id, &request)
            }
            "session/new" => {
                let request: NewSessionRequest = rpc::params(method, params)?;
                refuse_directories(&request.additional_directories)?;
                self.create(id, &request.cwd, &params["mcpServers"]);
                Ok(())
            }
            "session/load" => {
                let request: LoadSessionRequest = rpc::params(method, params)?;
                refuse_directories(&request.additional_directories)?;
                self.attach(&request.session_id.0, Opening::Load { id }, announced).await;
                Ok(())
            }
            "session/resume" => {
                let request: ResumeSessionRequest = rpc::params(method, params)?;
                refuse_directories(&request.additional_directories)?;
                self.attach(&request.session_id.0, Opening::Resume { id }, announced).await;
                Ok(())
            }
            "session/list" => {
                let request = match params {
                    Value::Null => ListSessionsRequest::default(),
                    params => rpc::params(method, params)?,
                };
                let (client, output) = (self.client.clone(), self.output.clone());
                self.tasks.spawn(async move {
                    // The editor is gone: nobody is left who could be told.
                    let _ = output.respond(&id, listing::list(&client, &request).await).await;
                });
                Ok(())
            }
            "session/prompt" => {
                let request: PromptRequest = rpc::params(method, params)?;
                // As the editor wrote it: the types drop members that they do not know.
                let content = params["prompt"].clone();
                self.tell(&request.session_id.0, Command::Prompt { id, content }).await
            }
            "session/set_mode" => {
                let request: SetSessionModeRequest = rpc::params(method, params)?;
                let mode = request.mode_id.0.to_string();
                self.tell(&request.session_id.0, Command::SetMode { id, mode }).await
            }
            "session/set_config_option" => {
                let request: SetSessionConfigOptionRequest = rpc::params(method, params)?;
                let SessionConfigOptionValue::ValueId { value } = &request.value else {
                    return Err(Error::new(INVALID_PARAMS, "all options take one of their values"));
                };
                let (option, value) = (request.config_id.0.to_string(), value.0.to_string());
                self.tell(&request.session_id.0, Command::SetOption { id, option, value }).await
            }
            "session/close" => {
                let request: CloseSessionRequest = rpc::params(method, params)?;
                self.close(&request.session_id.0, id).await
            }
            "session/delete" => {
                let request: DeleteSessionRequest = rpc::params(method, params)?;
                self.delete(&request.session_id.0, id).await
            }
            _ => Err(rpc::method_not_found(method)),
        }
    }

    async fn notification(&mut self, method: &str, params: &Value) {
        match method {
            "session/cancel" => {
                if let Ok(cancel) = rpc::params::<CancelNotification>(method, params)
                    && let Some(session) = self.sessions.get(&*cancel.session_id.0)
                {
                    // A session that has just ended has nothing to cancel.
                    let _ = session.send(Command::Cancel).await;
                }
            }
            "$/cancel_request" => {
                if let Ok(cancel) = rpc::params::<CancelRequestNotification>(method, params) {
                    for session in self.sessions.values() {
                        let _ = session.send(Command::CancelRequest(cancel.request_id.clone())).await;
                    }
                }
            }
            _ => tracing::debug!(method, "a notification is not known"),
        }
    }

    /// The answer to a request of a session. Its id is `SESSION/ASK`.
    async fn response(&mut self, id: RequestId, outcome: Result<Value, Value>) {
        let RequestId::Str(id) = &id else { return };
        if let Some((session, ask)) = id.rsplit_once('/')
            && let Some(session) = self.sessions.get(session)
        {
            let _ = session.send(Command::Answered { ask: ask.to_owned(), outcome }).await;
        }
    }

    /// Passes a request on to its session.
    async fn tell(&mut self, session: &str, command: Command) -> Result<(), Error> {
        let Some(open) = self.sessions.get(session) else { return Err(problem::not_open(session)) };
        match open.send(command).await {
            Ok(()) => Ok(()),
            Err(_) => {
                self.sessions.remove(session);
                Err(problem::not_open(session))
            }
        }
    }

    /// Checks the token. It is read when this process starts.
    fn authenticate(&mut self, id: RequestId, request: &AuthenticateRequest) -> Result<(), Error> {
        if &*request.method_id.0 != GATEWAY_TOKEN {
            let told = format!(
                "there is no way {:?} to authenticate; there is {GATEWAY_TOKEN}",
                request.method_id.0
            );
            return Err(Error::new(INVALID_PARAMS, told));
        }
        let (client, output) = (self.client.clone(), self.output.clone());
        self.tasks.spawn(async move {
            let answer = client.get("/v1/sessions?limit=1").await;
            let answer = answer.map(|_| json!({})).map_err(|error| problem::error(&error));
            let _ = output.respond(&id, answer).await;
        });
        Ok(())
    }

    fn create(&mut self, id: RequestId, cwd: &std::path::Path, servers: &Value) {
        let mcp = match self.options.mcp {
            McpServers::PassOn => servers.as_array().map(|all| all.iter().map(plain_server).collect()),
            McpServers::LeaveOut => None,
        };
        let mcp: Vec<Value> = mcp.unwrap_or_default();
        let mut body = json!({
            "cwd": cwd,
            "permissions": self.options.permissions,
            "key": new_key("acp"),
        });
        if !mcp.is_empty() {
            body["mcp"] = mcp.clone().into();
        }
        let (client, output, created) = (self.client.clone(), self.output.clone(), self.created.clone());
        let default = self.options.agent.clone();
        self.tasks.spawn(async move {
            let made = async {
                body["agent"] = agent(&client, &default).await?.into();
                client.create_session(&body).await.map_err(|error| problem::error(&error))
            };
            match made.await {
                Ok(session) => {
                    let session = session["id"].as_str().unwrap_or_default().to_owned();
                    let opening = Opening::New { id, mcp };
                    // The connection ends: nobody waits for the session.
                    let _ = created.send(Created { session, opening }).await;
                }
                Err(error) => {
                    let _ = output.respond::<()>(&id, Err(error)).await;
                }
            }
        });
    }

    /// Opens a session that was made.
    async fn open(&mut self, created: Created) {
        // It was made after `initialize`.
        let announced = self.announced.unwrap_or_default();
        self.attach(&created.session, created.opening, announced).await;
    }

    async fn attach(&mut self, session: &str, opening: Opening, announced: Announced) {
        let opening = match self.sessions.get(session) {
            None => opening,
            Some(open) => match open.send(Command::Reopen(opening)).await {
                Ok(()) => return,
                // Its task has ended.
                Err(mpsc::error::SendError(Command::Reopen(opening))) => opening,
                Err(_) => return,
            },
        };
        let shared = Shared {
            client: self.client.clone(),
            options: Arc::clone(&self.options),
            announced,
            output: self.output.clone(),
        };
        self.sessions.insert(session.to_owned(), session::start(shared, session.to_owned(), opening));
    }

    async fn close(&mut self, session: &str, id: RequestId) -> Result<(), Error> {
        let open = self.sessions.remove(session);
        let command = Command::Close { id };
        let command = match open {
            None => command,
            Some(open) => match open.send(command).await {
                Ok(()) => return Ok(()),
                Err(mpsc::error::SendError(command)) => command,
            },
        };
        // A session that is not open here is closed.
        let _ = session::refuse(&self.output, command, session).await;
        Ok(())
    }

    async fn delete(&mut self, session: &str, id: RequestId) -> Result<(), Error> {
        if let Some(open) = self.sessions.get(session)
            && open.send(Command::Delete { id: id.clone() }).await.is_ok()
        {
            return Ok(());
        }
        let (client, output, session) = (self.client.clone(), self.output.clone(), session.to_owned());
        self.tasks.spawn(async move {
            let answer = match session::delete(&client, &session).await {
                Ok(()) => Ok(json!({})),
                // It is as the editor wants it.
                Err(error) if error.kind() == Some("unknown-session") => Ok(json!({})),
                Err(error) => Err(problem::error(&error)),
            };
            let _ = output.respond(&id, answer).await;
        });
        Ok(())
    }

    /// The editor has closed its side. Requests that are under way are answered. Prompts are not waited for.
    async fn end(mut self, mut news: mpsc::Receiver<Created>) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(LAST_ANSWERS, all).await.is_err() {
            tracing::warn!("requests of the editor are left without an answer");
        }
        while let Ok(created) = news.try_recv() {
            self.open(created).await;
        }
        // Their tasks end, and with the last of them the task that writes.
    }
}

/// The agent of a new session.
async fn agent(client: &Client, default: &DefaultAgent) -> Result<String, Error> {
    match default {
        DefaultAgent::Named(agent) => Ok(agent.clone()),
        DefaultAgent::Chosen(choose) => {
            let agents = client.get("/v1/agents").await.map_err(|error| problem::error(&error))?;
            choose(&agents).map_err(|why| Error::new(INVALID_PARAMS, why))
        }
    }
}

/// This agent has no use for further directories, and an editor must know.
fn refuse_directories(directories: &[PathBuf]) -> Result<(), Error> {
    if directories.is_empty() {
        return Ok(());
    }
    Err(Error::new(INVALID_PARAMS, "additionalDirectories are not supported: a session works in its cwd"))
}

/// A server without `_meta`, which the gateway does not know.
fn plain_server(server: &Value) -> Value {
    match server {
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| *name != "_meta")
            .map(|(name, value)| (name.clone(), plain_server(value)))
            .collect(),
        Value::Array(all) => all.iter().map(plain_server).collect(),
        other => other.clone(),
    }
}
