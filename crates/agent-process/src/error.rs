//! Why a process of an agent could not be started or ended.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a process of an agent could not be started or ended.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// The program could not be started.
    #[error("cannot start {}: {error}; install {agent}, or set the command to where it is", command.display())]
    Command {
        /// The kind of the agent.
        agent: &'static str,
        /// The program.
        command: PathBuf,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// A file of the state directory could not be used.
    #[error("cannot {what} {}: {error}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The record of the process cannot be read.
    #[error("{} is not a record of an agent's process; if that agent runs no more, remove it", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// The pipe for its output could not be created.
    #[error("cannot make a pipe for what an agent prints: {0}; is the limit of open files reached?")]
    Pipe(#[source] io::Error),
    /// The system has no random bytes.
    #[error("the system has no random bytes: {0}")]
    Random(#[source] io::Error),
    /// Some processes did not end.
    #[error("processes {0:?} of the agent do not end, not even by SIGKILL")]
    Undying(Vec<i32>),
}
