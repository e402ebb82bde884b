//! A configured agent: what it is, and how a link to it is made.

use crate::counts::Counts;
use crate::link::Link;
use serde::Serialize;
use serde_json::Value;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use tokio::time::Instant;
use turnstream_model::event::Permissions;
use turnstream_model::fold::{PromptStage, State, Turn};
use turnstream_model::id::{Key, PromptId, SessionId, TurnId};

/// A link that is being made.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Link, ConnectError>> + Send + 'a>>;

/// An agent that is being stopped; an error names what is left.
pub type Stopping<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// An agent that is being looked at.
pub type Probing<'a> = Pin<Box<dyn Future<Output = Description> + Send + 'a>>;

/// A model that is being looked for.
pub type CheckingModel<'a> = Pin<Box<dyn Future<Output = Result<(), UnknownModel>> + Send + 'a>>;

/// The types of content blocks that ACP has.
pub const ACP_CONTENT: &[&str] = &["text", "image", "audio", "resource_link", "resource"];

/// An agent that sessions can be made with.
pub trait Agent: Send + Sync {
    /// What it is, for people who choose one, and whether it can be used.
    fn describe(&self) -> Description;

    /// The same after a look at what is outside, for example whether its server answers. Takes a few seconds
    /// at most.
    fn probe(&self) -> Probing<'_> {
        Box::pin(std::future::ready(self.describe()))
    }

    /// Refuses a content block of a prompt that the agent cannot take, with what it takes.
    fn check_block(&self, block: &Value) -> Result<(), String> {
        let kind = block["type"].as_str().unwrap_or_default();
        if ACP_CONTENT.contains(&kind) {
            return Ok(());
        }
        Err(format!("the type {kind:?} is not known; the agent takes {}", ACP_CONTENT.join(", ")))
    }

    /// Refuses a model that the agent does not have in this directory, where that can be known at once.
    /// Nothing is started for it, and an agent that does not answer within a few seconds refuses nothing.
    fn check_model<'a>(&'a self, model: &'a str, cwd: &'a Path) -> CheckingModel<'a> {
        let _ = (model, cwd);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Makes a link for one session. With [`Start::left`] it first tells what became of that (see [`Left`]).
    /// The caller gives up after a deadline by dropping the future: nothing may be left running then.
    fn connect(&self, start: Start) -> Connecting<'_>;

    /// The name under which a prompt is sent, asked for once: it is in the log before the prompt leaves, and the agent is
    /// asked about it by that name after a crash.
    fn name_prompt(&self, session: &SessionId, prompt: &PromptId) -> String {
        format!("{session}.{prompt}")
    }

    /// True when the agent goes on without the gateway: an open turn is then left open at shutdown, and reconciled with
    /// the agent's own truth at the next start. Else it ends with its link.
    fn outlives_gateway(&self) -> bool {
        false
    }

    /// What was counted of it since it was made; nothing for one that counts nothing.
    fn counts(&self) -> Option<Counts> {
        None
    }

    /// Removes what the agent keeps of a session in the gateway's own files. Its link has ended, and there will be no other
    /// for this session; another one may be made under the same id.
    fn forget(&self, session: &SessionId) -> Stopping<'_> {
        let _ = session;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Ends what the agent runs for all its sessions together, after their links have ended.
    fn stop(&self) -> Stopping<'_> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// One agent in the list of agents.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// `scripted`, `opencode` and so on.
    pub kind: &'static str,
    /// One line for a person.
    pub about: String,
    /// Its version, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Nothing behind it thinks: it plays what it was given.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub scripted: bool,
}

/// A model that an agent does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownModel {
    /// What is wrong with it, and what there is.
    pub problem: String,
    /// The models there are, where they are known.
    pub known: Vec<String>,
}

/// What a link is made for.
#[derive(Clone, Debug)]
pub struct Start {
    /// Our name of the session.
    pub session: SessionId,
    /// Where the agent works. It exists.
    pub cwd: PathBuf,
    /// The agent's name of the session, if it had one before.
    pub native_id: Option<String>,
    /// The model to use, where one was chosen.
    pub model: Option<String>,
    /// The mode to use, where one was chosen.
    pub mode: Option<String>,
    /// What becomes of asks.
    pub permissions: Permissions,
    /// What the last owner left open.
    pub left: Option<Left>,
    /// What the log has of the session that the agent had before.
    pub known: Known,
    /// Until when the caller waits. An agent that is starting again is waited for; then the error says why
    /// there is none.
    pub until: Instant,
}

/// What the log has of an agent's session, by the agent's own names. What the agent has beyond that, others
/// did.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Prompts that were sent.
    pub prompts: Vec<String>,
    /// Those of them that were cancelled before they had a turn, and that the log has no work for. They are to stop if they
    /// begin after all.
    pub unwanted: Vec<String>,
    /// Model calls.
    pub calls: Vec<Key>,
}

impl Known {
    /// What the log of that session has.
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
        }
    }
}

/// What an owner that is gone left open. A link that is made with it sends, in this order: what the agent has said that the
/// log may lack (as snapshots), the asks and questions that are still open, a [`crate::Fate`] for every prompt,
/// [`turnstream_model::signal::Signal::Truth`] for the turn, and last [`crate::Observed::CaughtUp`].
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// The open turn.
    pub turn: Option<TurnId>,
    /// The agent's name of that turn, where it has one.
    pub turn_native_id: Option<String>,
    /// The names under which that turn's prompts were sent.
    pub taken: Vec<String>,
    /// The agent's names of the model calls of that turn, in order.
    pub calls: Vec<Key>,
    /// Prompts that were sent, or were about to be, and have no turn; by the names they were sent under.
    pub prompts: Vec<String>,
    /// Asks without an answer.
    pub asks: Vec<Key>,
    /// Questions without an answer.
    pub questions: Vec<Key>,
}

impl Left {
    /// What is open by the log alone. Prompts that were sent without a name cannot be asked about and are not here.
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

/// Why there is no link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// It may work later or after a change outside: not installed, not reachable, not logged in.
    #[error("agent {agent} cannot be started: {problem}")]
    Unavailable {
        /// The agent.
        agent: String,
        /// What went wrong and what to do.
        problem: String,
    },
    /// It is there and refuses us.
    #[error("agent {agent} cannot be used: {problem}")]
    Unauthorized {
        /// The agent.
        agent: String,
        /// What it refused and what to do.
        problem: String,
        /// The HTTP status it refused with, where it answered.
        status: Option<u16>,
    },
    /// The agent no longer has this session.
    #[error("agent {agent} no longer has session {native_id}: {problem}")]
    Forgotten {
        /// The agent.
        agent: String,
        /// Its name of the session.
        native_id: String,
        /// What it said.
        problem: String,
    },
}
