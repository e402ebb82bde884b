//! The agents that a gateway can use. Each kind of agent is a folder that implements [`Agent`].
//!
//! `turnstream_adapter` documents what an adapter owes. Its types are re-exported here for the gateway.

pub mod demo;
pub mod opencode;

pub use turnstream_adapter::{
    ACP_CONTENT, Agent, CheckingModel, Command, ConnectError, Connecting, Counters, Counts, Description,
    Fate, Known, Link, LinkEnd, NoProcessGroups, Observed, Observer, OpenWork, Probing, ProcessGroup,
    ProcessGroups, Start, Stopping, UnknownModel,
};
