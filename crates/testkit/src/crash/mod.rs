//! The crash harness: start a real process, kill it with SIGKILL at a chosen point, restart it, compare.
//!
//! A [`Program`] is something that can be started again and again; [`KillPoint`] says when it dies;
//! [`Seen`] is everything it had delivered by then; [`Rounds`] repeats the whole with a seed.
//! A test can be its own child: see [`Program::this_test`].

mod output;
mod program;
mod rounds;
mod running;

pub use program::{Ended, KillPoint, Program, Seen, role};
pub use rounds::{Round, RoundFailed, Rounds};
pub use running::Running;

use std::time::Duration;

/// What can go wrong while a child is run; every variant shows what the child had printed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CrashError {
    /// The child could not be started.
    #[error("cannot start {program}: {source}; check that the file exists and is executable")]
    Start {
        /// The program as it was given.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The child ended by itself before the point at which it was to be killed.
    #[error("{program} ended ({seen_end}) before {point}; {seen}", seen_end = .seen.ended)]
    EndedEarly {
        /// The program as it was given.
        program: String,
        /// The point that was never reached.
        point: KillPoint,
        /// What it delivered.
        seen: Box<Seen>,
    },
    /// The deadline passed first. The child has been killed.
    #[error("{program} did not come to {point} within {deadline:?}; {seen}")]
    Deadline {
        /// The program as it was given.
        program: String,
        /// The point that was never reached.
        point: KillPoint,
        /// The deadline of the program.
        deadline: Duration,
        /// What it delivered.
        seen: Box<Seen>,
    },
    /// The child printed more than the harness keeps. It has been killed.
    #[error("{program} printed more than {cap} bytes on its standard output; raise the cap or print less")]
    TooMuchOutput {
        /// The program as it was given.
        program: String,
        /// How much is kept.
        cap: usize,
    },
    /// A process outside the child's group holds its pipes open after the kill.
    #[error(
        "the pipes of {program} are still open {waited:?} after its process group was killed: it started a \
         process that left the group (setsid), which the harness cannot find"
    )]
    PipesHeldOpen {
        /// The program as it was given.
        program: String,
        /// How long the harness waited.
        waited: Duration,
    },
    /// A system call on the child failed.
    #[error("cannot {action} process {pid}: {source}")]
    Process {
        /// What was tried.
        action: &'static str,
        /// The process.
        pid: u32,
        /// What the system said.
        source: std::io::Error,
    },
}
