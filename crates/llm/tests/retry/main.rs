//! Failures of providers: what they are called, what is done about them, and what is written down.
#![allow(clippy::unwrap_used, reason = "helpers of a test panic as the test itself does")]

mod classify;
mod delays;
mod engine;
mod waits;
