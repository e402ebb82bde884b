//! Agents, as a keeper sees them: one link per live session. Commands go one way, observations come back.
//!
//! Each kind of agent is a folder of its own. A folder knows how its agent is started and what its words mean; it
//! never decides what they mean for a turn, which is the turn machine's.

mod agent;
mod counts;
mod link;
pub mod opencode;
mod process;
pub mod scripted;

pub use agent::{
    ACP_CONTENT, Agent, CheckingModel, ConnectError, Connecting, Description, Known, Left, Probing, Start,
    Stopping, UnknownModel,
};
pub use counts::{Counters, Counts};
pub use link::{Command, Fate, Link, LinkEnd, Observed, Observer};
pub use process::{NoProcessGroups, ProcessGroup, ProcessGroups};
