//! Test tools that all crates share. Nothing of this is shipped.
//!
//! - [`proxy`]: a fault proxy on loopback. It cuts connections, and delays, drops, doubles and reorders
//!   events.
//! - [`crash`]: a crash harness. It kills child processes with SIGKILL at a chosen point and restarts them.
//! - [`diagnostics`]: the lines that the code under test logs, as values.
//! - `disk` (Linux): a fault disk. It fills up, fails, slows down, and forgets what was not synced.
//! - [`agents`]: launchers of opencode, Claude Code and Codex in a temporary home.
//! - [`lawful`]: the law checker as an assertion. Every integration test that makes a log ends with it.

pub mod agents;
pub mod crash;
pub mod diagnostics;
#[cfg(target_os = "linux")]
pub mod disk;
pub mod lawful;
pub mod proxy;
