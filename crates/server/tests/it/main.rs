//! The server over real sockets, on a real data directory.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod access;
mod alive;
mod board;
mod documented;
mod long;
mod problems;
mod readers;
mod removal;
mod resume;
mod routes;
mod shutdown;
mod storm;
mod support;
mod websocket;
