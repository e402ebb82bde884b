//! The log on a real directory, with real threads, kills and power cuts.
#![allow(clippy::unwrap_used, reason = "helpers of a test panic as the test itself does")]

mod append;
mod attempts;
mod crash;
mod damage;
mod diagnostics;
mod faults;
mod follow;
mod import;
mod messages;
mod open;
mod power_cut;
mod read;
mod removal;
mod residue;
mod restore;
mod resume;
mod search;
mod slow;
mod snapshot;
mod support;
mod trace;
