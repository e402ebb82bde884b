//! The server over real sockets, on a real data directory.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod access;
mod actors;
mod ag_ui;
mod ai;
mod alive;
mod budget;
mod dialects;
mod documented;
mod forgotten;
mod gateway_limits;
mod halves;
mod history;
mod limits;
mod listing;
mod long;
mod malformed;
mod mcp;
mod metrics;
mod multiplex;
mod opencode;
mod opencode_files;
mod opencode_keys;
mod opencode_listen;
mod opencode_refusals;
mod problems;
mod readers;
mod removal;
mod request_span;
mod resume;
mod routes;
mod search;
mod session_states;
mod shutdown;
mod storm;
mod support;
mod transfer;
mod unattended;
mod websocket;
