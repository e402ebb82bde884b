//! Test tools that all crates share. Nothing of this is shipped.
//!
//! - [`proxy`]: a TCP/HTTP proxy on loopback that cuts, delays, drops, doubles and reorders on command.
//! - [`crash`]: child processes killed with SIGKILL at a chosen point, restarted and compared.
//! - [`diagnostics`]: the lines that the code under test logs, as values.
//! - `disk` (Linux): a disk that fills up, fails, slows down and forgets what was not synced.
//! - [`agents`]: real opencode, Claude Code and Codex in a temporary home.
//! - [`soak`]: turns of a running gateway beside idle, slow and hostile connections.
//! - [`lawful`]: the law checker as an assertion. Every integration test that makes a log ends with it.
//! - [`leaks`]: planted secrets that must not be found in bytes or in files.

pub mod agents;
pub mod crash;
pub mod diagnostics;
#[cfg(target_os = "linux")]
pub mod disk;
pub mod lawful;
pub mod leaks;
pub mod proxy;
pub mod soak;
