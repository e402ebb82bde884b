//! A program that can be started many times, its kill points, and what it delivered.

use super::{CrashError, Running};
use std::ffi::OsStr;
use std::fmt;
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// The variable with the role of a re-executed test; see [`Program::this_test`].
const ROLE: &str = "TURNSTREAM_TEST_ROLE";

/// A command line that can be started many times, each time in a process group of its own.
#[derive(Debug)]
pub struct Program {
    command: Command,
    deadline: Duration,
    stdout_cap: usize,
}

/// The point at which a child is killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KillPoint {
    /// When the `nth` complete line (from 1) of standard output that starts with `prefix` has arrived.
    Line {
        /// How the line starts.
        prefix: String,
        /// Which of them, counted from 1.
        nth: u64,
    },
    /// When at least this many bytes of standard output have arrived.
    Bytes(u64),
    /// This long after the start.
    After(Duration),
    /// When the child stops at this failpoint for the `nth` time (from 1); see `turnstream_failpoint`.
    Failpoint {
        /// The name given to `turnstream_failpoint::reach`.
        name: String,
        /// Which time, counted from 1.
        nth: u64,
    },
    /// Never: the child ends by itself.
    Exit,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By the harness, with SIGKILL.
    Killed,
    /// By itself.
    Exited(ExitStatus),
}

/// What a child delivered. Bytes that are in the pipe at the kill count as delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// All of standard output.
    pub stdout: Vec<u8>,
    /// The last 64 KiB of standard error.
    pub stderr: Vec<u8>,
    /// How it ended.
    pub ended: Ended,
}

/// The role of a test that [`Program::this_test`] started; `None` in an ordinary run.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

// === impl Program ===

impl Program {
    /// A program with a deadline of 300 s for each run and a cap of 64 MiB on its output.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self { command: Command::new(program), deadline: Duration::from_secs(300), stdout_cap: 64 << 20 }
    }

    /// The running test binary, with only the test `name` (its full path).
    ///
    /// The test gets its role from [`role`]. Without a role it returns at once, and so passes in an
    /// ordinary run. The test library prints lines of its own, so give your lines a prefix.
    pub fn this_test(name: &str, role: &str) -> Result<Self, CrashError> {
        let path = std::env::current_exe()
            .map_err(|source| CrashError::Start { program: "the running test binary".to_owned(), source })?;
        let mut program = Self::new(path);
        // With one thread the test library first prints the name of the test without a line feed.
        program.command.args([name, "--exact", "--nocapture", "--test-threads=2"]).env(ROLE, role);
        Ok(program)
    }

    /// Runs the program under another one, such as a tracer: `wrapper ARGS... program args...`. Both are
    /// killed together.
    #[must_use]
    pub fn under(self, wrapper: impl AsRef<OsStr>, args: &[&OsStr]) -> Self {
        let mut command = Command::new(wrapper);
        command.args(args).arg(self.command.get_program()).args(self.command.get_args());
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Self { command, ..self }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets how long one run may take.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets how many bytes of standard output are kept; more is an error.
    pub fn stdout_cap(mut self, cap: usize) -> Self {
        self.stdout_cap = cap;
        self
    }

    /// The underlying command, for example to arm a fault disk.
    pub fn command_mut(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Starts it, waits for the point, kills the process group, and returns what was delivered.
    pub fn run(&mut self, point: &KillPoint) -> Result<Seen, CrashError> {
        self.start(point)?.finish(point)
    }

    /// Starts it without waiting. A failpoint in `point` is armed.
    pub fn start(&mut self, point: &KillPoint) -> Result<Running, CrashError> {
        match point {
            KillPoint::Failpoint { name, nth } => {
                self.command.env(turnstream_failpoint::VARIABLE, format!("{name}:{nth}"));
            }
            KillPoint::Line { .. } | KillPoint::Bytes(_) | KillPoint::After(_) | KillPoint::Exit => {
                self.command.env_remove(turnstream_failpoint::VARIABLE);
            }
        }
        Running::start(&mut self.command, self.deadline, self.stdout_cap)
    }
}

// === impl KillPoint ===

impl KillPoint {
    /// After the `nth` line that starts with `prefix`, counted from 1.
    pub fn line(prefix: impl Into<String>, nth: u64) -> Self {
        Self::Line { prefix: prefix.into(), nth }
    }

    /// At the `nth` stop at a failpoint, counted from 1.
    pub fn failpoint(name: impl Into<String>, nth: u64) -> Self {
        Self::Failpoint { name: name.into(), nth }
    }

    /// At a time drawn from `range`.
    pub fn random_time(rng: &mut fastrand::Rng, range: std::ops::Range<Duration>) -> Self {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self::After(Duration::from_micros(rng.u64(micros(range.start)..micros(range.end))))
    }
}

impl fmt::Display for KillPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { prefix, nth } => write!(f, "line {nth} starting with {prefix:?}"),
            Self::Bytes(bytes) => write!(f, "byte {bytes} of standard output"),
            Self::After(time) => write!(f, "{time:?} after the start"),
            Self::Failpoint { name, nth } => write!(f, "failpoint {name} for the time {nth}"),
            Self::Exit => write!(f, "its own end"),
        }
    }
}

// === impl Seen ===

impl Seen {
    /// The complete lines that start with `prefix`, without the prefix.
    pub fn lines(&self, prefix: &str) -> Vec<String> {
        let complete = self.stdout.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        self.stdout[..complete]
            .split(|byte| *byte == b'\n')
            .filter_map(|line| line.strip_prefix(prefix.as_bytes()))
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .collect()
    }
}

impl fmt::Display for Seen {
    /// The end of both outputs, which shows what the child did last.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |bytes: &[u8]| {
            String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(4096)..]).trim_end().to_owned()
        };
        write!(f, "{} bytes on standard output, which ends:\n{}\n", self.stdout.len(), end(&self.stdout))?;
        write!(f, "standard error ends:\n{}", end(&self.stderr))
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed => write!(f, "killed"),
            Self::Exited(status) => write!(f, "{status}"),
        }
    }
}
