//! `turnstream run "prompt"`: sends a prompt and shows its turn.

mod ask;
mod follower;
mod interrupts;
mod keyboard;
mod pending_asks;
pub(crate) mod prompt;

pub(crate) use ask::choice;
pub(crate) use follower::{Follower, Following, Form, Goal, asks};
pub(crate) use interrupts::Interrupts;
pub(crate) use pending_asks::Answerer;

use crate::agent_choice::{self, ChooseError};
use crate::budget::{self, CapArg};
use crate::client::{Client, ClientError, FindError, Reach, open_unless, segment};
use crate::escape::{self, safe};
use crate::exit::{self, Exit};
use crate::out;
use crate::record::Record;
use crate::unattended;
use prompt::PromptError;
use serde_json::{Map, Value, json};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Send a prompt to an agent and show its answer
///
/// On a terminal the answer is shown as it comes; text that a retry replaces is marked. Otherwise standard
/// output gets only the final text of each message, when it is complete, and standard error gets the rest.
/// Ctrl-C cancels the turn; a second Ctrl-C leaves at once.
#[derive(clap::Args)]
#[command(after_long_help = exit::help())]
pub(crate) struct Args {
    /// The prompt; - reads it from standard input
    prompt: String,
    /// The agent of the new session [default: default_agent of the configuration, else the only usable agent]
    #[arg(long, conflicts_with = "session")]
    agent: Option<String>,
    /// The working directory of the new session [default: the current directory]
    #[arg(long, value_name = "DIR", conflicts_with = "session")]
    cwd: Option<PathBuf>,
    /// Continue this session instead of creating one: its id, or its unique beginning
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Go on from the finished items of this session in a new one: its id, or its unique beginning
    #[arg(long, value_name = "ID", conflicts_with = "session")]
    from: Option<String>,
    /// A cap, like steps=20 or session_cost=2.5; may be given several times. With --session only of this turn
    #[arg(long, value_name = "CAP=VALUE")]
    budget: Vec<CapArg>,
    #[command(flatten)]
    unattended: unattended::Flags,
    /// The model, by the agent's name for it
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The agent's mode, by the agent's name for it
    #[arg(long, value_name = "NAME")]
    mode: Option<String>,
    /// The title of the session
    #[arg(long)]
    title: Option<String>,
    /// What to do when the agent asks for permission [default: ask on a terminal, else deny]
    #[arg(long, value_enum)]
    permissions: Option<Permissions>,
    /// Do not redact secrets in prompts; the log then contains them
    #[arg(long, conflicts_with = "session")]
    keep_secrets: bool,
    /// Print the session's events as JSON lines instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Permissions {
    /// Ask a person
    Ask,
    /// Allow everything
    Allow,
    /// Refuse everything
    Deny,
}

/// Why the prompt could not be sent or the turn not be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Prompt(#[from] PromptError),
    #[error("with --session, --budget is for one turn; raise caps of the session with `turnstream budget`")]
    SessionBudget,
    #[error("cannot use {} as working directory: {error}", path.display())]
    Directory {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Choose(#[from] ChooseError),
    #[error("cannot read the keyboard: {0}")]
    Keyboard(#[source] io::Error),
    #[error("cannot handle signals: {0}")]
    Signals(#[source] io::Error),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, RunError> {
    if args.session.is_some() && budget::is_for_session(&args.budget) {
        return Err(RunError::SessionBudget);
    }
    let asked = args.cwd.clone().unwrap_or_else(|| PathBuf::from("."));
    let cwd = asked.canonicalize().map_err(|error| RunError::Directory { path: asked.clone(), error })?;
    let prompt = prompt::read(&args.prompt)?;
    let mut interrupts = Interrupts::take().map_err(RunError::Signals)?;
    let mut connected = open_unless(&args.reach, Some(cwd.clone()), interrupts.reach(1)).await?;
    let mut hosted = connected.hosted.take();
    let done = turn(&connected.client, &mut hosted, &args, &cwd, &prompt, interrupts).await;
    // An error before the session was created may come from the wrong gateway, so it is named.
    if let Some(hosted) = hosted {
        out::note(escape::text(&hosted));
    }
    connected.end().await;
    match done {
        // The reader closed the pipe, for example `head`.
        Err(RunError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(Exit::ReaderGone.into())
        }
        done => Ok(done?.into()),
    }
}

async fn turn(
    client: &Client,
    hosted: &mut Option<String>,
    args: &Args,
    cwd: &Path,
    prompt: &str,
    mut interrupts: Interrupts,
) -> Result<Exit, RunError> {
    let is_terminal = person_can_answer();
    let chosen = args.permissions;
    let session = async {
        match &args.session {
            Some(id) => existing(client, id, args).await,
            None => {
                let otherwise = if is_terminal { Permissions::Ask } else { Permissions::Deny };
                fresh(client, args, cwd, chosen.unwrap_or(otherwise)).await
            }
        }
    };
    let session = tokio::select! {
        biased;
        () = interrupts.reach(1) => return Ok(Exit::Cancelled),
        session = session => session?,
    };
    let session = Record(&session);
    introduce(session, hosted.take().as_deref());
    let id = session.text("id").exact().to_owned();
    let after = match &args.session {
        Some(_) => format!("{}:{}", session.text("generation").exact(), session.number("head").unwrap_or(0)),
        None => "0".to_owned(),
    };
    // Read before our prompt is sent, so none of them belongs to our turn.
    let open = tokio::select! {
        biased;
        () = interrupts.reach(1) => return Ok(Exit::Cancelled),
        open = open_asks(client, session) => open?,
    };
    let events = client.events(&id, &after);
    let content = json!([{"type": "text", "text": prompt}]);
    // A new session has its caps already.
    let turn_caps =
        args.session.as_ref().and_then(|_| budget::body(&args.budget)).map(|caps| caps["turn"].clone());
    // After one interrupt the prompt is still sent, and then cancelled.
    let prompt = tokio::select! {
        biased;
        () = interrupts.reach(2) => return Ok(Exit::Cancelled),
        prompt = send(client, &id, &content, turn_caps) => prompt?,
    };
    let answerer = match (is_terminal, chosen) {
        (true, _) => Answerer::Person,
        (false, Some(Permissions::Ask)) => Answerer::Others,
        (false, Some(Permissions::Allow | Permissions::Deny) | None) => Answerer::Nobody,
    };
    let form = if args.json { Form::Json } else { Form::Text };
    let (goal, asks) = (Goal::Turn { prompt, turn: None }, asks(session));
    let may_continue = unattended::may_continue(session);
    let following =
        Following { client, reach: &args.reach, session: id, goal, answerer, asks, form, may_continue };
    let mut follower = Follower::new(following);
    for ask in &open {
        follower.before_us(Record(ask))?;
    }
    follower.follow(events, interrupts).await
}

/// The open asks of the session.
async fn open_asks(client: &Client, session: Record<'_>) -> Result<Vec<Value>, ClientError> {
    if !session.is("status", "waiting") {
        return Ok(Vec::new());
    }
    let snapshot =
        client.get(&format!("/v1/sessions/{}/snapshot", segment(session.text("id").exact()))).await?;
    let asks = ["approvals", "questions"].into_iter().flat_map(|list| Record(&snapshot).list(list));
    Ok(asks.filter(|ask| !ask.has("outcome")).map(|ask| ask.0.clone()).collect())
}

/// Whether a person can be asked here.
pub(crate) fn person_can_answer() -> bool {
    io::stdin().is_terminal() && out::errors_are_terminal()
}

/// The first line on standard error: the session and the agent.
fn introduce(session: Record<'_>, hosted: Option<&str>) {
    let mut line = safe!["session ", session.text("id"), ", agent ", session.text("agent")];
    if let Some(hosted) = hosted {
        line = safe![line, "; ", escape::text(hosted)];
    }
    out::note(line);
}

/// Creates a session.
async fn fresh(
    client: &Client,
    args: &Args,
    cwd: &Path,
    permissions: Permissions,
) -> Result<Value, RunError> {
    let agent = match &args.agent {
        Some(agent) => agent.clone(),
        None => agent_choice::agent(client).await?,
    };
    let from = match &args.from {
        Some(beginning) => Some(client.session_id(beginning).await?),
        None => None,
    };
    // A session that goes on from another one works where that one did, unless a directory is given.
    let cwd = (from.is_none() || args.cwd.is_some()).then_some(cwd);
    let mut body = json!({
        "agent": agent,
        "cwd": cwd,
        "model": args.model,
        "title": args.title,
        "permissions": permissions.word(),
        "redact_prompts": args.keep_secrets.then_some(false),
        "key": key(),
    });
    // Only where they are given: an older gateway does not know them.
    for (member, value) in [("from", from.map(Value::from)), ("budget", budget::body(&args.budget))] {
        if let Some(value) = value {
            body[member] = value;
        }
    }
    for (member, value) in args.unattended.members() {
        body[member.as_str()] = value;
    }
    let made = client.create_session(&body).await?;
    match &args.mode {
        None => Ok(made),
        Some(mode) => change(client, Record(&made).text("id").exact(), &json!({"mode": mode})).await,
    }
}

/// Looks a session up and applies the flags that change it.
async fn existing(client: &Client, beginning: &str, args: &Args) -> Result<Value, RunError> {
    let changes = [
        ("permissions", args.permissions.map(Permissions::word)),
        ("model", args.model.as_deref()),
        ("mode", args.mode.as_deref()),
        ("title", args.title.as_deref()),
    ];
    let changes = changes.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
    let changes: Map<String, Value> = changes.chain(args.unattended.members()).collect();
    let session = client.find_session(beginning).await?;
    if changes.is_empty() {
        return Ok(session);
    }
    change(client, Record(&session).text("id").exact(), &Value::Object(changes)).await
}

async fn change(client: &Client, id: &str, changes: &Value) -> Result<Value, RunError> {
    Ok(client.change_session(id, changes).await?)
}

async fn send(
    client: &Client,
    session: &str,
    content: &Value,
    caps: Option<Value>,
) -> Result<String, RunError> {
    let mut body = json!({"content": content, "key": key()});
    if let Some(caps) = caps {
        body["budget"] = caps;
    }
    let accepted = client.queue_prompt(session, &body).await?;
    Ok(accepted["prompt"].as_str().unwrap_or_default().to_owned())
}

fn key() -> String {
    turnstream_client::new_key("run")
}

impl Permissions {
    fn word(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}
