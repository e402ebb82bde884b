//! The crash harness: starts a real process, kills it with SIGKILL at a chosen point, and restarts it.
//!
//! - [`Program`]: a command that can be started many times.
//! - [`KillPoint`]: when it is killed.
//! - [`Seen`]: everything that it delivered before.
//! - [`Rounds`]: repeats this with a seed.
//!
//! A test can be its own child: see [`Program::this_test`].

mod output;
mod program;
mod rounds;
mod running;

pub use program::{Ended, KillPoint, Program, Seen, role};
pub use rounds::{Round, RoundFailed, Rounds};
pub use running::Running;

use std::time::Duration;

/// An error of a child. Every variant shows what the child printed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CrashError {
    /// The child could not be started.
    #[error("cannot start {program}: {source}; check that the file exists and is executable")]
    Start {
        /// The program.
        program: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The child ended by itself before its kill point.
    #[error("{program} ended ({seen_end}) before {point}; {seen}", seen_end = .seen.ended)]
    EndedEarly {
        /// The program.
        program: String,
        /// The point that was never reached.
        point: KillPoint,
        /// What it delivered.
        seen: Box<Seen>,
    },
    /// The deadline passed. The child was killed.
    #[error("{program} did not come to {point} within {deadline:?}; {seen}")]
    Deadline {
        /// The program.
        program: String,
        /// The point that was never reached.
        point: KillPoint,
        /// The deadline of the program.
        deadline: Duration,
        /// What it delivered.
        seen: Box<Seen>,
    },
    /// The child printed more than the cap. It was killed.
    #[error("{program} printed more than {cap} bytes on its standard output; raise the cap or print less")]
    TooMuchOutput {
        /// The program.
        program: String,
        /// The cap.
        cap: usize,
    },
    /// A process outside the child's group holds its pipes open after the kill.
    #[error(
        "the pipes of {program} are still open {waited:?} after its process group was killed: it started a \
         process that left the group (setsid), which the harness cannot find"
    )]
    PipesHeldOpen {
        /// The program.
        program: String,
        /// How long the harness waited.
        waited: Duration,
    },
    /// A system call on the child failed.
    #[error("cannot {action} process {pid}: {source}")]
    Process {
        /// The operation.
        action: &'static str,
        /// The process.
        pid: u32,
        /// The cause.
        source: std::io::Error,
    },
}
