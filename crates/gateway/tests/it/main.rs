//! The gateway with the scripted agent, on a real data directory. Every log is judged by the law checker.
#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod actors;
mod approvals;
mod away;
mod budget;
mod cancel;
mod clock;
mod crash;
mod deadlines;
mod diagnostics;
mod directories;
mod edges;
mod faults;
mod forgetful;
mod forgotten;
mod handed_over;
mod imported;
mod keyed;
mod large;
mod limits;
mod mcp;
mod outage;
mod prompts;
mod puppet;
mod quiet;
mod recovery;
mod removal;
mod secrets;
mod sent;
mod sessions;
mod support;
mod transfer;
mod trimmed;
mod unattended;
