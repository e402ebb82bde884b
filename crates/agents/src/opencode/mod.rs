//! opencode as an agent of the gateway: [`Opencode`] owns one server for all its sessions, and each link is a
//! conversation of `turnstream_opencode_client` with the keeper on the other side.

mod adapter;
mod agent;
mod commands;
mod probe;

pub use agent::{Opencode, OpencodeConfig, Source};
/// What a configuration of opencode is made of.
pub use turnstream_opencode_client::{
    Budget, Configured, FromEnv, FromFile, Launch, Pace, Secret, Timeouts, check_url,
};
