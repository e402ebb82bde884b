//! What agents that run as child processes have in common.
//!
//! | part | what it does |
//! |---|---|
//! | [`ProcessSpec`] | starts a process in its own process group and control group, with a mark in its environment |
//! | [`Record`] | names a process on disk before it exists, for the owner after a crash |
//! | [`ProcessFamily`] | finds and ends the process and everything it started |
//! | [`Output`] | keeps the end of what it prints, redacted |
//! | [`LineReader`] | reads its lines, with a bounded length |
//! | [`StdioProcess`] | a process that speaks lines over its standard input and output |
//!
//! An adapter adds its decoder, its commands and its recovery.

mod cgroup;
mod error;
mod family;
mod lines;
mod output;
mod pipe;
mod process;
mod record;
mod spawn;
mod stdio;
mod umask;

pub use cgroup::{ControlGroup, ControlGroups, NoControlGroups};
pub use error::ProcessError;
pub use family::ProcessFamily;
pub use lines::{Line, LineReader};
pub use output::Output;
pub use process::{MARK, Process};
pub use record::Record;
pub use spawn::{INHERITED, KillOnDrop, NotStarted, ProcessSpec, Started, end};
pub use stdio::{StdioProcess, printed};
pub use umask::{restrict_umask, with_user_umask};

/// Random hex digits that nobody can guess: a mark, or a password.
pub fn random_mark() -> Result<String, ProcessError> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).map_err(|error| ProcessError::Random(std::io::Error::other(error)))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
