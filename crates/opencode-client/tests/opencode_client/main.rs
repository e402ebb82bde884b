//! The opencode client against a small server whose every byte the test decides, over real sockets. What it
//! says was captured from opencode 1.18.33.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod bus;
mod counts;
mod diagnostics;
mod fake;
mod password;
mod reconnect;
mod rest;
mod serve;
