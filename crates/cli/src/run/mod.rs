//! `turnstream run "prompt"`: one turn, streamed to the terminal.

mod ask;
mod turn;

pub(crate) use ask::choice;

use crate::choose::{self, ChooseError};
use crate::client::{Client, ClientError, FindError, Reach, open, segment};
use crate::escape;
use crate::signals::Signals;
use serde_json::{Value, json};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use turn::Turn;

/// How often a prompt is sent again when the gateway does not answer. Its key makes it one prompt all the same.
const TRIES: u32 = 5;

/// Send a prompt and show the turn it becomes. The answer goes to standard output, everything else to standard error.
///
/// Exit code: 0 completed, 1 failed, 2 the prompt was not accepted or the command line is wrong, 3 lost, 130 cancelled.
/// Ctrl-C cancels the turn; a second one leaves at once.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to ask
    prompt: String,
    /// The agent of a new session [default: default_agent of the configuration, else the only one that can be
    /// used]
    #[arg(long, conflicts_with = "session")]
    agent: Option<String>,
    /// Where a new session works [default: the current directory]
    #[arg(long, value_name = "DIR", conflicts_with = "session")]
    cwd: Option<PathBuf>,
    /// Go on with this session instead of making one; as much of its id as tells it from the others
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// What becomes of the agent's asks [default: ask on a terminal, else deny]
    #[arg(long, value_enum)]
    permissions: Option<Permissions>,
    /// Hand over secrets in prompts as they are; they are kept in the log then
    #[arg(long, conflicts_with = "session")]
    keep_secrets: bool,
    /// The session's events as JSON lines instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Permissions {
    /// A person decides
    Ask,
    /// Everything is allowed
    Allow,
    /// Everything is refused
    Deny,
}

/// Why there was no turn.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("the prompt is empty; say what the agent is to do")]
    Empty,
    #[error("cannot use {} as working directory: {error}", path.display())]
    Directory { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Choose(#[from] ChooseError),
    #[error("cannot take over the signals: {0}")]
    Signals(io::Error),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, RunError> {
    if args.prompt.trim().is_empty() {
        return Err(RunError::Empty);
    }
    let asked = args.cwd.clone().unwrap_or_else(|| PathBuf::from("."));
    let cwd = asked.canonicalize().map_err(|error| RunError::Directory { path: asked.clone(), error })?;
    let signals = Signals::take().map_err(RunError::Signals)?;
    let mut connected = open(&args.reach, Some(cwd.clone())).await?;
    let mut hosted = connected.hosted.take();
    let done = prompt(&connected.client, &mut hosted, &args, cwd, signals).await;
    // What went wrong before there was a session may be the wrong gateway.
    if let Some(hosted) = hosted {
        eprintln!("{}", escape::text(&hosted));
    }
    connected.end().await;
    match done {
        // A reader that goes away has seen enough.
        Err(RunError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        done => done,
    }
}

async fn prompt(
    client: &Client,
    hosted: &mut Option<String>,
    args: &Args,
    cwd: PathBuf,
    signals: Signals,
) -> Result<ExitCode, RunError> {
    let terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    let chosen = args.permissions;
    let permissions = chosen.unwrap_or(if terminal { Permissions::Ask } else { Permissions::Deny });
    let (found, after) = match &args.session {
        Some(id) => existing(client, id, chosen).await?,
        None => (fresh(client, args, &cwd, permissions).await?, "0".to_owned()),
    };
    let session = found["id"].as_str().unwrap_or_default().to_owned();
    introduce(&session, &found, hosted.take().as_deref());
    let events = client.events(&session, &after);
    let content = json!([{"type": "text", "text": args.prompt}]);
    let prompt = send(client, &session, &content).await?;
    let who = match (terminal, permissions) {
        (true, _) => ask::Who::Person,
        (false, Permissions::Ask) => ask::Who::Others,
        (false, Permissions::Allow | Permissions::Deny) => ask::Who::Nobody,
    };
    Turn::new(client, session, prompt, who, args.json).follow(events, signals).await
}

/// The first line beside the answer: who works on it, and where it is kept.
fn introduce(session: &str, found: &Value, hosted: Option<&str>) {
    let agent = found["agent"].as_str().unwrap_or_default();
    let hosted = hosted.map_or_else(String::new, |hosted| format!("; {hosted}"));
    eprintln!("{}", escape::text(&format!("session {session}, agent {agent}{hosted}")));
}

/// Makes a session.
async fn fresh(
    client: &Client,
    args: &Args,
    cwd: &std::path::Path,
    permissions: Permissions,
) -> Result<Value, RunError> {
    let agent = match &args.agent {
        Some(agent) => agent.clone(),
        None => choose::agent(client).await?,
    };
    let body = json!({
        "agent": agent,
        "cwd": cwd,
        "permissions": permissions.word(),
        "redact_prompts": args.keep_secrets.then_some(false),
        "key": key(),
    });
    Ok(patiently(|| client.post("/v1/sessions", &body)).await?)
}

/// Looks a session up; the turn is followed from its head.
async fn existing(
    client: &Client,
    id: &str,
    permissions: Option<Permissions>,
) -> Result<(Value, String), RunError> {
    let mut session = client.find_session(id).await?;
    if let Some(permissions) = permissions {
        let path = format!("/v1/sessions/{}", segment(session["id"].as_str().unwrap_or_default()));
        let body = json!({"permissions": permissions.word()});
        session = patiently(|| client.patch(&path, &body)).await?;
    }
    let generation = session["generation"].as_str().unwrap_or_default();
    let head = format!("{generation}:{}", session["head"]);
    Ok((session, head))
}

async fn send(client: &Client, session: &str, content: &Value) -> Result<String, RunError> {
    let path = format!("/v1/sessions/{}/prompts", segment(session));
    let body = json!({"content": content, "key": key()});
    let accepted = patiently(|| client.post(&path, &body)).await?;
    Ok(accepted["prompt"].as_str().unwrap_or_default().to_owned())
}

/// Asks again while it may help. Only for requests with a key, or that may be repeated.
pub(crate) async fn patiently<F: Future<Output = Result<Value, ClientError>>>(
    request: impl Fn() -> F,
) -> Result<Value, ClientError> {
    let mut pause = Duration::from_millis(100);
    for _ in 1..TRIES {
        match request().await {
            Err(error) if error.may_pass() => tokio::time::sleep(pause).await,
            done => return done,
        }
        pause *= 2;
    }
    request().await
}

fn key() -> String {
    format!("run-{:032x}", fastrand::u128(..))
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
