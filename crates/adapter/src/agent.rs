//! The [`Agent`] trait: one configured agent, and how links to it are made.

use crate::counts::Counts;
use crate::description::Description;
use crate::error::{ConnectError, RefusedBlock, StopError};
use crate::link::Link;
use crate::logged_part::LoggedPart;
use crate::mcp::{McpServer, RefusedMcp};
use crate::process_usage::ProcessUsage;
use crate::working_directory::WorkingDirectory;
use serde_json::Value;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use tokio::time::Instant;
use turnstream_model::event::Permissions;
use turnstream_model::fold::{PromptStage, State, Turn};
use turnstream_model::id::{Key, PromptId, SessionId, TurnId};

/// The future of [`Agent::connect`].
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Link, ConnectError>> + Send + 'a>>;

/// The future of [`Agent::stop`] and [`Agent::forget`]. The error says what is left.
pub type Stopping<'a> = Pin<Box<dyn Future<Output = Result<(), StopError>> + Send + 'a>>;

/// The future of [`Agent::probe`].
pub type Probing<'a> = Pin<Box<dyn Future<Output = Description> + Send + 'a>>;

/// The future of [`Agent::check_model`].
pub type CheckingModel<'a> = Pin<Box<dyn Future<Output = Result<(), UnknownModel>> + Send + 'a>>;

/// The future of [`Agent::remembers`].
pub type Remembering<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// The types of ACP content blocks.
pub const ACP_CONTENT: &[&str] = &["text", "image", "audio", "resource_link", "resource"];

/// Whether a prompt may be a command of the agent's program: its first block is a text that begins with a
/// slash.
pub fn may_be_command(content: &[Value]) -> bool {
    let first = content.first().filter(|block| block["type"] == "text");
    first.and_then(|block| block["text"].as_str()).is_some_and(|text| text.starts_with('/'))
}

/// A configured agent that sessions can be created with. One value serves all its sessions, for as long as
/// the gateway runs.
///
/// Only [`describe`](Agent::describe) and [`connect`](Agent::connect) are required. The defaults are right
/// for an agent that runs inside its link, takes every ACP content block, and keeps nothing between
/// sessions.
pub trait Agent: Send + Sync {
    /// Describes the agent for the list of agents: its kind, and why it cannot be used, if that is known.
    ///
    /// Must return at once, without I/O on the network. May tell what an earlier probe has found.
    fn describe(&self) -> Description;

    /// Like [`Agent::describe`], after a check of the outside: whether its server answers, and with which
    /// version.
    ///
    /// Takes a few seconds at most. May start a command that prints a version, and nothing else.
    fn probe(&self) -> Probing<'_> {
        Box::pin(std::future::ready(self.describe()))
    }

    /// Refuses a content block that the agent cannot take. The error says what it takes.
    ///
    /// Called before a prompt is accepted, so that a user learns of it at once.
    fn check_block(&self, block: &Value) -> Result<(), RefusedBlock> {
        let kind = block["type"].as_str().unwrap_or_default();
        if ACP_CONTENT.contains(&kind) {
            return Ok(());
        }
        Err(RefusedBlock::UnknownType { kind: kind.to_owned() })
    }

    /// Whether a text that stands before this prompt reaches the model. A prompt that the agent's program
    /// handles itself, such as a shell command, is sent alone, and the text waits for the next one.
    ///
    /// Must return at once.
    fn takes_context(&self, content: &[Value]) -> bool {
        // The default gives every prompt to the model.
        let _content = content;
        true
    }

    /// Refuses a model that the agent does not have in this directory.
    ///
    /// Must start nothing. An agent that cannot tell within a few seconds refuses nothing.
    fn check_model<'a>(&'a self, model: &'a str, cwd: &'a Path) -> CheckingModel<'a> {
        // The default takes every model.
        let (_model, _cwd) = (model, cwd);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Refuses the MCP servers of a new session. The error says why, without a value of them.
    ///
    /// An agent that accepts them gets them in [`Start::mcp`].
    fn check_mcp(&self, servers: &[McpServer]) -> Result<(), RefusedMcp> {
        // The default takes none.
        let _servers = servers;
        Err(RefusedMcp(
            "it takes no MCP servers from a session; configure them in the agent itself".to_owned(),
        ))
    }

    /// Whether the agent still has the conversation that it calls `native_id`.
    ///
    /// Asked before a prompt is accepted, if no link is up. After a no, prompts are refused until a client
    /// chooses how the session goes on. Must start nothing, and take a few seconds at most. An agent that
    /// cannot tell says yes: [`connect`](Agent::connect) then finds out.
    fn remembers<'a>(&'a self, session: &'a SessionId, native_id: &'a str, cwd: &'a Path) -> Remembering<'a> {
        // The default forgets nothing, or handles it in its link.
        let (_session, _native_id, _cwd) = (session, native_id, cwd);
        Box::pin(std::future::ready(true))
    }

    /// Makes a link for one session.
    ///
    /// - If the agent has its own id of the session, the link reports it first, as `native_id` of a session
    ///   patch.
    /// - With [`Start::open_work`] it then reports how each piece of that work ended or goes on, in the
    ///   order that [`OpenWork`] states.
    /// - The caller enforces its deadline by dropping the future. Nothing that was started may then go on.
    /// - A failure that may pass is waited for until [`Start::until`]; see [`ConnectError`] for the others.
    fn connect(&self, start: Start) -> Connecting<'_>;

    /// The id under which a prompt is sent.
    ///
    /// Called once per prompt. The id is in the log before the prompt is sent: after a crash the agent is
    /// asked by this id whether it has the prompt.
    fn name_prompt(&self, session: &SessionId, prompt: &PromptId) -> String {
        format!("{session}.{prompt}")
    }

    /// True when the agent goes on without the gateway.
    ///
    /// An open turn then stays open at shutdown, and the next gateway asks the agent about it. Otherwise
    /// the turn ends with its link.
    fn outlives_gateway(&self) -> bool {
        false
    }

    /// True when the agent asks for every permission, whatever `permissions` of the session says. The
    /// gateway then applies that rule to each request.
    fn leaves_permissions_to_gateway(&self) -> bool {
        false
    }

    /// True when a link that still recovers open work takes a cancel: it then ends what an earlier gateway
    /// has left. The cancel is repeated after the recovery.
    fn takes_cancel_in_recovery(&self) -> bool {
        false
    }

    /// The counters of the agent, for `/metrics`; `None` for an agent that counts nothing.
    fn counts(&self) -> Option<Counts> {
        None
    }

    /// What the processes of the agent use at the moment, for `/metrics`; `None` for an agent without any.
    ///
    /// May read files. It is called on a thread for blocking work.
    fn process_usage(&self) -> Option<ProcessUsage> {
        None
    }

    /// Removes what the agent keeps of a deleted session below the gateway's data directory.
    ///
    /// The link of the session has ended. A later session may have the same id.
    fn forget(&self, session: &SessionId) -> Stopping<'_> {
        // The default keeps nothing.
        let _session = session;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Ends what the agent runs for all its sessions together, for example its server.
    ///
    /// Called at shutdown, after all links have ended.
    fn stop(&self) -> Stopping<'_> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A model that an agent does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownModel {
    /// What is wrong, and which models there are.
    pub problem: String,
    /// The models that exist, if known.
    pub known: Vec<String>,
}

/// The session that a link is made for.
#[derive(Clone, Debug)]
pub struct Start {
    /// The gateway's id of the session.
    pub session: SessionId,
    /// The working directory. Sessions may work there.
    pub cwd: WorkingDirectory,
    /// The agent's id of the session, if it had one before. Absent also after a client chose to go on
    /// without a conversation that the agent had forgotten.
    pub native_id: Option<String>,
    /// The model to use, if one was chosen.
    pub model: Option<String>,
    /// The mode to use, if one was chosen.
    pub mode: Option<String>,
    /// How permissions are answered.
    pub permissions: Permissions,
    /// The session's own MCP servers. They may hold secrets.
    pub mcp: Vec<McpServer>,
    /// What was open when the last link ended.
    pub open_work: Option<OpenWork>,
    /// What the log already has of the agent's session.
    pub known: LoggedWork,
    /// The caller's deadline. An agent that is restarting is waited for until then.
    pub until: Instant,
}

/// What the log has of an agent's session, by the agent's own ids. Anything else in that session was done
/// by other clients of the agent.
#[derive(Clone, Debug, Default)]
pub struct LoggedWork {
    /// The prompts that were sent.
    pub prompts: Vec<String>,
    /// Prompts that were cancelled before they had a turn, and for which the log has no work. If one of
    /// them starts after all, it is to be stopped.
    pub unwanted: Vec<String>,
    /// The model calls.
    pub calls: Vec<Key>,
    /// The conversation, in its order.
    pub parts: Vec<LoggedPart>,
}

impl LoggedWork {
    /// Reads it from the fold of a session.
    pub fn of(state: &State) -> Self {
        let prompts = state.prompts.iter().chain(&state.queue);
        let calls = state.turns.iter().flat_map(|turn| &turn.attempts);
        let worked = |turn: &Turn| !turn.attempts.is_empty();
        let cancelled = state.prompts.iter().filter(|prompt| prompt.cancelling.is_some());
        let unwanted = cancelled.filter(|prompt| {
            !state.turns.iter().any(|turn| turn.prompts.contains(&prompt.prompt) && worked(turn))
        });
        Self {
            prompts: prompts.filter_map(|prompt| prompt.native_id.clone()).collect(),
            unwanted: unwanted.filter_map(|prompt| prompt.native_id.clone()).collect(),
            calls: calls.filter_map(|call| call.native_id.as_deref().map(Key::from)).collect(),
            parts: LoggedPart::of(state),
        }
    }
}

/// What was open in a session when its last link ended, by a crash or a shutdown.
///
/// A link that is made with it reports, in this order:
///
/// 1. the content that the log may lack, as snapshots;
/// 2. the permissions and questions that are still open;
/// 3. a [`Fate`](crate::Fate) for every prompt in `prompts`;
/// 4. [`Signal::StatusProbed`](turnstream_model::signal::Signal::StatusProbed) for the turn;
/// 5. [`Observed::CaughtUp`](crate::Observed::CaughtUp).
#[derive(Clone, Debug, Default)]
pub struct OpenWork {
    /// The open turn.
    pub turn: Option<TurnId>,
    /// The agent's id of that turn, if it has one.
    pub turn_native_id: Option<String>,
    /// The ids under which the prompts of that turn were sent.
    pub taken: Vec<String>,
    /// The agent's ids of the model calls of that turn, in order.
    pub calls: Vec<Key>,
    /// The ids of prompts that have no turn, and that were sent or were about to be sent.
    pub prompts: Vec<String>,
    /// Permissions without an answer.
    pub asks: Vec<Key>,
    /// Questions without an answer.
    pub questions: Vec<Key>,
}

impl OpenWork {
    /// Reads it from the fold of a session. Prompts that were sent without an id are left out: the agent
    /// cannot be asked about them.
    pub fn of(state: &State) -> Self {
        let open = state.open();
        let turn = open.turn;
        let key = |native: &Option<String>| native.as_deref().map(Key::from);
        let calls = turn.iter().flat_map(|turn| &turn.attempts);
        let of_turn = turn.map(|turn| &turn.turn);
        let taken =
            state.prompts.iter().filter(|prompt| of_turn.is_some() && prompt.turn.as_ref() == of_turn);
        let sent = open.prompts.iter().filter(|prompt| prompt.state == PromptStage::Sent);
        Self {
            turn: turn.map(|turn| turn.turn.clone()),
            turn_native_id: turn.and_then(|turn| turn.native_id.clone()),
            taken: taken.filter_map(|prompt| prompt.native_id.clone()).collect(),
            calls: calls.filter_map(|call| key(&call.native_id)).collect(),
            prompts: sent.filter_map(|prompt| prompt.native_id.clone()).collect(),
            asks: open.approvals.iter().filter_map(|ask| key(&ask.native_id)).collect(),
            questions: open.questions.iter().filter_map(|asked| key(&asked.native_id)).collect(),
        }
    }

    /// True when nothing is open.
    pub fn is_empty(&self) -> bool {
        let Self { turn, turn_native_id: _, taken: _, calls: _, prompts, asks, questions } = self;
        turn.is_none() && prompts.is_empty() && asks.is_empty() && questions.is_empty()
    }
}
