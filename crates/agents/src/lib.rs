//! The agents that a gateway can use. Each kind of agent is a folder that implements [`Agent`].
//!
//! `turnstream_adapter` documents what an adapter owes. Its types are re-exported here for the gateway.

pub mod acp;
pub mod builtin;
pub mod claude;
pub mod codex;
pub mod demo;
#[cfg(test)]
mod desk;
mod foreign_error;
mod form;
pub mod opencode;
pub mod program;
mod state_files;
mod unknown;

pub use turnstream_adapter::{
    ACP_CONTENT, AdapterFailed, Agent, AgentError, CheckingModel, Choice, Command, ConnectError, Connecting,
    Counters, Counts, Description, Fate, Link, LinkEnd, LoggedWork, Login, McpServer, McpTransport,
    NamedValue, Observed, Observer, OpenWork, Probing, ProcessUsage, RefusedBlock, RefusedMcp, Remembering,
    Start, StopError, Stopping, UnknownModel, WorkingDirectory,
};
pub use turnstream_agent_process::{ControlGroups, NoControlGroups, restrict_umask};
