//! The gateway over HTTP. Routes are thin: they read the request, call the gateway and answer. The rest is in
//! [`stream`]: how one session's log reaches many readers, encoded once and each at its own pace.

mod access;
mod ag_ui;
mod ai;
mod app;
mod body;
mod caller;
mod chat;
mod closing;
mod gateway_problems;
mod json_errors;
mod limits;
mod metrics;
mod opencode;
mod options;
mod page;
mod params;
mod problem;
mod query;
mod request_span;
mod routes;
mod server;
mod stream;

pub use access::{Auth, NoRandomness, Origin, OriginError, Token, TokenError, TokenFile, TokenFileError};
pub use limits::Limits;
pub use options::{ChatDefaults, Options};
pub use problem::Kind;
pub use server::{ListenError, Server, serve};
