//! Failures of providers: their classes, retries, waits and ledger rows.
#![allow(clippy::unwrap_used, reason = "helpers of a test panic as the test itself does")]

mod classify;
#[cfg(feature = "client")]
mod clocks;
#[cfg(feature = "client")]
mod crash;
mod delays;
mod engine;
mod evidence;
#[cfg(feature = "client")]
mod fold;
#[cfg(feature = "client")]
mod parked;
#[cfg(feature = "client")]
mod scenarios;
#[cfg(feature = "client")]
mod socket;
#[cfg(feature = "client")]
mod support;
#[cfg(feature = "client")]
mod tls;
#[cfg(feature = "client")]
mod visible;
#[cfg(feature = "client")]
mod waits;
