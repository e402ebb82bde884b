//! The gateway over HTTP. Routes are thin: read the request, ask the gateway, answer. What is more than that is in
//! [`stream`]: how one session's log reaches many readers, each at its own pace, encoded once.

mod access;
mod app;
mod body;
mod closing;
mod gateway_problems;
mod json_errors;
mod metrics;
mod options;
mod params;
mod problem;
mod query;
mod routes;
mod server;
mod stream;

pub use options::{Options, Token, TokenError};
pub use problem::Kind;
pub use server::{ListenError, Server, serve};
