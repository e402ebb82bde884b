//! Starts a process of an agent: in its own process group and control group, with a mark, and on record.

use crate::cgroup::{ControlGroup, ControlGroups};
use crate::error::ProcessError;
use crate::family::ProcessFamily;
use crate::pipe;
use crate::process::{MARK, Process};
use crate::record::Record;
use crate::umask::with_user_umask;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;
use tokio::process::{Child, Command};

/// The variables of this process that an agent inherits.
pub const INHERITED: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// Runs a command and writes its exit status to a file: after a crash of its owner, a later one can read it.
const REPORT_EXIT: &str =
    r#"file=$1; shift; "$@"; status=$?; echo $status > "$file.new" && mv "$file.new" "$file"; exit $status"#;

/// A program to start as an agent.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    /// The kind of the agent, for errors.
    pub kind: &'static str,
    /// The configured name of the agent, for log lines.
    pub name: String,
    /// The program; a bare name is searched on `PATH`.
    pub command: PathBuf,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its environment, besides [`INHERITED`] variables of this process. Its tools see all of it.
    pub env: Vec<(OsString, OsString)>,
    /// A file for its exit status, if a later owner has to know how it ended. A shell starts the program
    /// then, and writes the file.
    pub exit_status: Option<PathBuf>,
}

/// A process that was started here. Unless it is [kept](Started::keep), dropping it kills it with everything
/// it started.
#[derive(Debug)]
pub struct Started {
    /// The child.
    pub child: Child,
    /// Its identity.
    pub process: Process,
    guard: KillOnDrop,
}

/// Kills a family of processes when it is dropped.
#[derive(Debug)]
pub struct KillOnDrop {
    family: Option<ProcessFamily>,
}

/// Why a process is not there after its start.
#[derive(Debug)]
pub enum NotStarted {
    /// It could not be started.
    Failed(ProcessError),
    /// It ended at once.
    Ended(ExitStatus),
}

// === impl ProcessSpec ===

impl ProcessSpec {
    /// The command with a clean environment.
    pub fn command(&self) -> Command {
        let mut command = match &self.exit_status {
            None => Command::new(&self.command),
            Some(file) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", REPORT_EXIT, "sh"]).arg(file).arg(&self.command);
                shell
            }
        };
        command.env_clear().current_dir(&self.cwd);
        for name in INHERITED {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts this command of the program. The record in `path` names the process before it exists, and
    /// after.
    pub async fn spawn<A: Serialize + DeserializeOwned>(
        &self,
        mut command: Command,
        record: &mut Record<A>,
        path: &Path,
    ) -> Result<Started, NotStarted> {
        record.process = None;
        record.cgroup = self.cgroup(&record.mark);
        record.write(path).map_err(NotStarted::Failed)?;
        self.create_cgroup(record);
        command.env(MARK, &record.mark).process_group(0);
        let failed = |error| {
            let (agent, command) = (self.kind, self.command.clone());
            NotStarted::Failed(ProcessError::Command { agent, command, error })
        };
        let mut child = with_user_umask(|| command.spawn()).map_err(failed)?;
        // The command holds ends of pipes. What the agent prints ends only when all ends are closed.
        drop(command);
        let mut guard = KillOnDrop::new(record.family());
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        // The id of a child stays its own until it is waited for. So if no process is found, it has ended.
        let Some(process) = id.and_then(Process::find) else {
            let status = child.wait().await.map_err(failed)?;
            return Err(NotStarted::Ended(status));
        };
        record.process = Some(process.clone());
        guard.guard(record.family());
        // Before it can run a tool.
        self.enter_cgroup(record);
        record.write(path).map_err(NotStarted::Failed)?;
        Ok(Started { child, process, guard })
    }

    /// Moves a process into its control group. If that fails, its processes are found in the other ways.
    pub fn enter_cgroup<A>(&self, record: &Record<A>) {
        if let Err(error) = record.family().enter_cgroup() {
            let pid = record.process.as_ref().map(|process| process.id);
            tracing::warn!(
                agent = %self.name, pid, %error,
                "cannot move {} into a control group; its tools may leave processes", self.kind
            );
        }
    }

    /// The path of the control group for the processes with this mark, if groups can be used. Nobody can
    /// guess the mark, so the name is free.
    fn cgroup(&self, mark: &str) -> Option<PathBuf> {
        match ControlGroups::find() {
            Ok(groups) => Some(groups.group(&format!("turnstream-{mark}")).path().to_owned()),
            Err(error) => {
                tracing::debug!(
                    agent = %self.name, %error,
                    "no control group: finding processes by their group and mark"
                );
                None
            }
        }
    }

    /// Creates the control group. If the system refuses, for example because of a limit, the agent runs
    /// without one.
    fn create_cgroup<A>(&self, record: &mut Record<A>) {
        if let Some(path) = &record.cgroup
            && let Err(error) = ControlGroup::at(path.clone()).create()
        {
            tracing::warn!(agent = %self.name, path = %path.display(), %error, "cannot create a control group");
            record.cgroup = None;
        }
    }
}

// === impl Started ===

impl Started {
    /// Leaves the process running when this is dropped. The caller has to end it.
    pub fn keep(self) -> (Child, Process, KillOnDrop) {
        (self.child, self.process, self.guard)
    }
}

// === impl KillOnDrop ===

impl KillOnDrop {
    /// Kills these processes when it is dropped.
    pub fn new(family: ProcessFamily) -> Self {
        Self { family: Some(family) }
    }

    /// Guards these processes from now on.
    pub fn guard(&mut self, family: ProcessFamily) {
        self.family = Some(family);
    }

    /// Kills nothing any more: the processes have ended, or are left to a later owner.
    pub fn disarm(&mut self) {
        self.family = None;
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(family) = &self.family {
            family.kill();
            pipe::remove(&family.mark);
        }
    }
}

/// Ends all processes of a record, on a blocking thread: SIGTERM, and SIGKILL after `grace`.
pub async fn end<A>(record: &Record<A>, grace: Duration) -> Result<(), ProcessError> {
    let family = record.family();
    let remaining = tokio::task::spawn_blocking(move || family.end(grace)).await;
    let remaining = remaining.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        // The runtime is shutting down. The guards of running processes kill them.
        Err(_) => Vec::new(),
    });
    if remaining.is_empty() {
        pipe::remove(&record.mark);
        return Ok(());
    }
    Err(ProcessError::Undying(remaining.iter().map(|process| process.id).collect()))
}
