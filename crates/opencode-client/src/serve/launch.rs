//! Starts a server: command, environment, port, and the wait until it is ready.

use super::output::{FILE, Output};
use super::processes::{MARK, Process, ServerProcesses};
use super::record::Record;
use super::{Launch, NotReady, ServeError, enter_cgroup, pipe};
use crate::client::Client;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};
use turnstream_adapter::{ControlGroup, ControlGroups, Counted, with_user_umask};
use turnstream_model::Chain;

/// The line that a ready server prints. Before it, the server accepts requests and never answers them.
const READY: &str = "listening on ";
/// The variables of this process that a server inherits.
const INHERITED: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];
const POLL: Duration = Duration::from_millis(50);
/// How many lines of the output a log line for debugging shows.
const LOGGED_LINES: usize = 5;

/// A process that was started here.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) process: Process,
}

/// Starts the server of this record and waits until it answers. If it does not, or if the caller drops the
/// future, all processes that were started are killed.
pub(super) async fn launch(
    launch: &Launch,
    record: &mut Record,
    client: &Client,
    output: &Output,
) -> Result<Started, ServeError> {
    let stdout = output.begin(&record.mark)?;
    let stderr = stdout.try_clone().map_err(ServeError::Pipe)?;
    record.process = None;
    record.cgroup = cgroup(launch, &record.mark);
    record.write(&launch.state)?;
    create_cgroup(launch, record);
    let mut command = command(launch, record);
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0);
    let not_started = |error: io::Error| ServeError::Command { command: launch.command.clone(), error };
    let mut child = with_user_umask(|| command.spawn()).map_err(not_started)?;
    // The command holds ends of the pipe. The output ends only when all ends are closed.
    drop(command);
    client.counters().count(Counted::ServerStart);
    let mut unready = KillOnDrop { processes: Some(record.processes()) };
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    // The id of a child stays its own until it is waited for. So if no process is found, it has ended.
    let Some(process) = id.and_then(Process::find) else {
        let status = child.wait().await.map_err(not_started)?;
        client.counters().count(Counted::ServerExit);
        log_exit(launch, id, Some(status), output);
        return Err(not_ready(NotReady::Exited(status), output));
    };
    record.process = Some(process.clone());
    unready.processes = Some(record.processes());
    // Before it can have a session, and so before it can run a tool.
    enter_cgroup(record, &launch.name);
    record.write(&launch.state)?;
    let mut started = Started { child, process };
    let ready = match wait_for_ready_line(&mut started, output, launch.ready).await {
        Ok(()) => client.health_check().await.map_err(|error| not_ready(NotReady::Unhealthy(error), output)),
        Err(error) => {
            client.counters().count(Counted::ServerExit);
            Err(error)
        }
    };
    let pid = started.process.id;
    match ready {
        Ok(_) => {
            unready.processes = None;
            tracing::info!(agent = %launch.name, pid, port = record.port, "opencode started");
            Ok(started)
        }
        Err(error) => {
            let status = started.child.try_wait().ok().flatten();
            log_exit(launch, Some(pid), status, output);
            Err(error)
        }
    }
}

/// The path of the control group for the server with this mark, if groups can be used. Nobody can guess the
/// mark, so the name is free.
fn cgroup(launch: &Launch, mark: &str) -> Option<PathBuf> {
    match ControlGroups::find() {
        Ok(groups) => Some(groups.group(&format!("turnstream-{mark}")).path().to_owned()),
        Err(error) => {
            let error = Chain(&error);
            tracing::debug!(
                agent = %launch.name, %error,
                "no control group: finding processes by their group and mark"
            );
            None
        }
    }
}

/// Creates the control group. If the system refuses, for example because of a limit, the server runs
/// without one.
fn create_cgroup(launch: &Launch, record: &mut Record) {
    if let Some(path) = &record.cgroup
        && let Err(error) = ControlGroup::at(path.clone()).create()
    {
        tracing::warn!(agent = %launch.name, path = %path.display(), %error, "cannot create a control group");
        record.cgroup = None;
    }
}

/// One line for a server that ended or did not become ready. Its output may have text of models and tools,
/// also after redaction, so the end of it is only in a line for debugging.
pub(super) fn log_exit(launch: &Launch, pid: Option<i32>, status: Option<ExitStatus>, output: &Output) {
    let status = status.map_or_else(|| "unknown".to_owned(), |status| status.to_string());
    tracing::warn!(agent = %launch.name, pid, %status, "opencode ended; its output is in {FILE}");
    let output = last_lines(&output.tail());
    tracing::debug!(agent = %launch.name, pid, %output, "the last output of opencode");
}

/// The last lines of a text in one line.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().rev().take(LOGGED_LINES).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}

fn command(launch: &Launch, record: &Record) -> Command {
    let mut command = Command::new(&launch.command);
    command.args(["serve", "--hostname", "127.0.0.1", "--port", &record.port.to_string()]);
    command.env_clear().current_dir(&launch.cwd);
    for name in INHERITED {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(launch.env.iter().map(|(name, value)| (name, value)));
    command.env("OPENCODE_SERVER_PASSWORD", &record.password).env(MARK, &record.mark);
    command.env_remove("OPENCODE_SERVER_USERNAME");
    command
}

/// Kills a server that does not become ready.
struct KillOnDrop {
    processes: Option<ServerProcesses>,
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(processes) = &self.processes {
            processes.kill();
            pipe::remove(&processes.mark);
        }
    }
}

async fn wait_for_ready_line(
    started: &mut Started,
    output: &Output,
    ready: Duration,
) -> Result<(), ServeError> {
    let start = Instant::now();
    loop {
        if output.tail().contains(READY) {
            return Ok(());
        }
        if let Ok(Some(status)) = started.child.try_wait() {
            return Err(not_ready(NotReady::Exited(status), output));
        }
        if start.elapsed() > ready {
            return Err(not_ready(NotReady::Silent(ready), output));
        }
        tokio::time::sleep(POLL).await;
    }
}

fn not_ready(reason: NotReady, output: &Output) -> ServeError {
    ServeError::NotReady { reason, output: output.tail() }
}

/// A port that is free at this moment.
pub(super) fn free_port() -> Result<u16, ServeError> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(ServeError::Port)
}

/// Whether another program uses the port.
pub(super) fn is_taken(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err()
}

/// Random hex digits.
pub(super) fn random() -> Result<String, ServeError> {
    let mut bytes = [0; 24];
    let filled = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    filled.map_err(ServeError::Random)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
