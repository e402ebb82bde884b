//! The scripted provider over real sockets.
#![allow(clippy::unwrap_used, reason = "all of it is tests")]

mod client;
mod faults;
mod formats;
mod grammar;
mod lanes;
mod limits;
