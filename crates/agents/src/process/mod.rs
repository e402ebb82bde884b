//! Processes of agents, whatever the agent is.

mod cgroup;

pub use cgroup::{NoProcessGroups, ProcessGroup, ProcessGroups};
