//! The seam between a keeper and its agents: what an adapter has to implement, and what it may use.
//!
//! An *adapter* is the code for one kind of agent. It knows how its agent is started and what its messages
//! mean. It never decides what they mean for a turn: that is the turn machine's task.
//!
//! # What an adapter implements
//!
//! [`Agent`], once per configured agent. Its main duty is [`Agent::connect`]: make a [`Link`] for one
//! session. A link is a task and two bounded queues:
//!
//! ```text
//!            Command  ──►
//!  keeper                   adapter task  ◄──►  agent process or server
//!            ◄──  Observed
//! ```
//!
//! - The keeper sends [`Command`]s: run a prompt, cancel, answer, fetch a fact.
//! - The adapter reports what it sees as [`Observed`]. Nearly all of it are
//!   [`Signal`](turnstream_model::signal::Signal)s: evidence, in the order in which the agent showed it.
//! - The link ends when the keeper drops it, or when the agent is gone for good. Before the latter the
//!   adapter reports [`Signal::LinkLost`](turnstream_model::signal::Signal::LinkLost).
//!
//! # What an adapter owes
//!
//! 1. **No decision.** Report an idle as an idle, also if it looks stale. The machine compares it with the
//!    turn.
//! 2. **Stable names.** Every item, model call, permission and question has a key that survives a reconnect
//!    and a restart. The log stores it as `native_id`.
//! 3. **Recovery.** With [`Start::open_work`], report first how that work ended or goes on, in the order that
//!    [`OpenWork`] states.
//! 4. **Idempotent commands.** After a crash the keeper repeats commands that it had stored as sent. A
//!    repeated prompt must not run twice; a repeated answer is ignored.
//! 5. **Gaps are reported.** When events may have been missed, send
//!    [`Signal::Gap`](turnstream_model::signal::Signal::Gap) and then the state as snapshots.
//! 6. **No process is left behind.** A dropped `connect` future or a dropped link ends what was started for
//!    it. `turnstream_agent_process` does that for agents that are child processes.
//! 7. **Log lines without content.** Text of prompts, models and tools is not logged at info or above.
//!
//! The folders of `crates/agents` are examples: `opencode` for an agent behind a server, `demo` for one
//! that is played.

mod agent;
mod clock;
mod counts;
mod description;
mod error;
mod link;
mod logged_part;
mod mcp;
mod process_usage;
mod session_file;
mod tool_title;
mod working_directory;

pub use agent::{
    ACP_CONTENT, Agent, CheckingModel, Connecting, LoggedWork, OpenWork, Probing, Remembering, Start,
    Stopping, UnknownModel, may_be_command,
};
pub use clock::Clock;
pub use counts::{Counted, Counters, Counts};
pub use description::{Choice, Description, Login};
pub use error::{AdapterFailed, AgentError, ConnectError, RefusedBlock, StopError};
pub use link::{Command, Fate, Link, LinkEnd, Observed, Observer};
pub use logged_part::{Comparison, LoggedKind, LoggedPart, LoggedText};
pub use mcp::{BadMcp, MOST_MCP_BYTES, MOST_MCP_SERVERS, McpServer, McpTransport, NamedValue, RefusedMcp};
pub use process_usage::ProcessUsage;
pub use session_file::session_file;
pub use tool_title::{file_name, one_line};
pub use working_directory::WorkingDirectory;
