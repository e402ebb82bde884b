//! A running child in its own process group.

use super::output::{Output, Waited};
use super::{CrashError, Ended, KillPoint, Seen};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the pipes may stay open after the kill.
const DRAIN: Duration = Duration::from_secs(60);

/// How long a child may take to end after it closed its output.
const EXIT: Duration = Duration::from_secs(10);

/// How long other members of the killed group may take to end.
const DESCENDANTS: Duration = Duration::from_millis(200);

/// A started child. Dropping it kills its whole process group.
pub struct Running {
    child: Child,
    output: Arc<Output>,
    program: String,
    started: Instant,
    deadline: Duration,
    stdout_cap: usize,
    /// Whether the leader is reaped. Then its id may be reused and must not be signalled.
    reaped: bool,
}

// === impl Running ===

impl Running {
    pub(crate) fn start(
        command: &mut Command,
        deadline: Duration,
        stdout_cap: usize,
    ) -> Result<Self, CrashError> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |source| CrashError::Start { program: program.clone(), source };
        let mut child = command.spawn().map_err(failed)?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(failed(std::io::Error::other("the standard output is not a pipe")));
        };
        let output = Output::gather(stdout, stderr, stdout_cap);
        let started = Instant::now();
        Ok(Self { child, output, program, started, deadline, stdout_cap, reaped: false })
    }

    /// The process id, which is also the id of its group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the child reaches `point`, and leaves it running.
    pub fn wait_for(&mut self, point: &KillPoint) -> Result<(), CrashError> {
        let by = self.started + self.deadline;
        let waited = match point {
            KillPoint::Line { prefix, nth } => {
                let mut watch = LineWatch::new(prefix, *nth);
                self.output.wait(by, |stdout| watch.reached(stdout))
            }
            KillPoint::Failpoint { name, nth: _ } => {
                let marker = format!("{}{name}", turnstream_failpoint::MARKER);
                let mut watch = LineWatch::new(&marker, 1);
                self.output.wait(by, |stdout| watch.reached(stdout))
            }
            KillPoint::Bytes(bytes) => self.output.wait(by, |stdout| stdout.len() as u64 >= *bytes),
            KillPoint::After(time) => match self.output.wait((self.started + *time).min(by), |_| false) {
                Waited::Deadline if *time <= self.deadline => Waited::Reached,
                other => other,
            },
            KillPoint::Exit => match self.output.wait(by, |_| false) {
                Waited::Closed => self.wait_exit(by)?,
                other => other,
            },
        };
        match waited {
            Waited::Reached => Ok(()),
            Waited::Overflow => {
                Err(CrashError::TooMuchOutput { program: self.program.clone(), cap: self.stdout_cap })
            }
            Waited::Closed => {
                // Standard output closes shortly before the process ends. Without this pause its own end
                // would be reported as a kill.
                self.wait_exit(by.min(Instant::now() + EXIT))?;
                let (program, point) = (self.program.clone(), point.clone());
                Err(CrashError::EndedEarly { program, point, seen: Box::new(self.stop()?) })
            }
            Waited::Deadline => {
                let (program, point, deadline) = (self.program.clone(), point.clone(), self.deadline);
                Err(CrashError::Deadline { program, point, deadline, seen: Box::new(self.stop()?) })
            }
        }
    }

    /// Waits for `point`, kills the process group, and returns everything that was delivered.
    pub fn finish(mut self, point: &KillPoint) -> Result<Seen, CrashError> {
        self.wait_for(point)?;
        self.stop()
    }

    /// Kills the process group now, and returns everything that was delivered.
    pub fn kill(mut self) -> Result<Seen, CrashError> {
        self.stop()
    }

    fn stop(&mut self) -> Result<Seen, CrashError> {
        let exited = self.exited()?;
        self.kill_group();
        let status = self.child.wait().map_err(|source| self.failed("wait for", source))?;
        self.reaped = true;
        self.wait_for_group();
        if !self.output.wait_closed(Instant::now() + DRAIN) {
            return Err(CrashError::PipesHeldOpen { program: self.program.clone(), waited: DRAIN });
        }
        let mut state = self.output.lock();
        let ended = if exited { Ended::Exited(status) } else { Ended::Killed };
        Ok(Seen {
            stdout: std::mem::take(&mut state.stdout),
            stderr: std::mem::take(&mut state.stderr),
            ended,
        })
    }

    /// Whether the leader has ended. It is not reaped, so that the id of the group is not reused.
    fn exited(&self) -> Result<bool, CrashError> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(Pid::from_child(&self.child)), options)
            .map_err(|error| self.failed("look at", error.into()))?;
        Ok(status.is_some())
    }

    fn wait_exit(&self, by: Instant) -> Result<Waited, CrashError> {
        while !self.exited()? {
            if Instant::now() >= by {
                return Ok(Waited::Deadline);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Waited::Reached)
    }

    fn kill_group(&self) {
        if !self.reaped {
            // The only possible error is that every member has ended, which is the goal.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
    }

    /// Waits a moment for descendants without a pipe to end too.
    ///
    /// Not longer: in containers that reap no orphans they stay as zombies, which do no harm.
    fn wait_for_group(&self) {
        let by = Instant::now() + DESCENDANTS;
        while test_kill_process_group(Pid::from_child(&self.child)).is_ok() && Instant::now() < by {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn failed(&self, action: &'static str, source: std::io::Error) -> CrashError {
        CrashError::Process { action, pid: self.child.id(), source }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill_group();
        if !self.reaped {
            // It was killed above, so this returns at once.
            let _ = self.child.wait();
        }
    }
}

/// Counts complete lines with a prefix. Every byte is read once.
struct LineWatch<'a> {
    prefix: &'a [u8],
    missing: u64,
    line_start: usize,
    scanned: usize,
}

// === impl LineWatch ===

impl<'a> LineWatch<'a> {
    fn new(prefix: &'a str, nth: u64) -> Self {
        Self { prefix: prefix.as_bytes(), missing: nth, line_start: 0, scanned: 0 }
    }

    fn reached(&mut self, stdout: &[u8]) -> bool {
        while self.missing > 0 {
            let Some(length) = stdout[self.scanned..].iter().position(|byte| *byte == b'\n') else {
                self.scanned = stdout.len();
                return false;
            };
            let end = self.scanned + length;
            if stdout[self.line_start..end].starts_with(self.prefix) {
                self.missing -= 1;
            }
            self.line_start = end + 1;
            self.scanned = self.line_start;
        }
        true
    }
}
