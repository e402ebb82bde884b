//! Starts a server: command, environment, port, and the wait until it is ready.

use super::{Launch, NotReady, OUTPUT, Record, ServeError};
use crate::client::Client;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tokio::process::Command;
use turnstream_adapter::Counted;
use turnstream_agent_process::{NotStarted, Output, ProcessError, ProcessSpec, Started};

/// The line that a ready server prints. Before it, the server accepts requests and never answers them.
const READY: &str = "listening on ";
const POLL: Duration = Duration::from_millis(50);
/// How many lines of the output a log line for debugging shows.
const LOGGED_LINES: usize = 5;

/// Starts the server of this record and waits until it answers. If it does not, or if the caller drops the
/// future, all processes that were started are killed.
pub(super) async fn launch(
    launch: &Launch,
    record: &mut Record,
    client: &Client,
    output: &Output,
) -> Result<Started, ServeError> {
    let stdout = output.begin(&record.mark).map_err(ProcessError::Pipe)?;
    let stderr = stdout.try_clone().map_err(ProcessError::Pipe)?;
    let spec = launch.spec();
    let mut command = command(&spec, record);
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    let mut started = match spec.spawn(command, record, &launch.record()).await {
        Ok(started) => started,
        Err(NotStarted::Failed(error)) => return Err(error.into()),
        Err(NotStarted::Ended(status)) => {
            client.counters().count(Counted::ServerStart);
            client.counters().count(Counted::ServerExit);
            log_exit(launch, None, Some(status), output);
            return Err(not_ready(NotReady::Exited(status), output));
        }
    };
    client.counters().count(Counted::ServerStart);
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
            tracing::info!(agent = %launch.name, pid, port = record.agent.port, "opencode started");
            Ok(started)
        }
        Err(error) => {
            let status = started.child.try_wait().ok().flatten();
            log_exit(launch, Some(pid), status, output);
            Err(error)
        }
    }
}

/// One line for a server that ended or did not become ready. Its output may have text of models and tools,
/// also after redaction, so the end of it is only in a line for debugging.
pub(super) fn log_exit(launch: &Launch, pid: Option<i32>, status: Option<ExitStatus>, output: &Output) {
    let status = status.map_or_else(|| "unknown".to_owned(), |status| status.to_string());
    tracing::warn!(agent = %launch.name, pid, %status, "opencode ended; its output is in {OUTPUT}");
    let output = last_lines(&output.tail());
    tracing::debug!(agent = %launch.name, pid, %output, "the last output of opencode");
}

/// The last lines of a text in one line.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().rev().take(LOGGED_LINES).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}

fn command(spec: &ProcessSpec, record: &Record) -> Command {
    let mut command = spec.command();
    let port = record.agent.port.to_string();
    command.args(["serve", "--hostname", "127.0.0.1", "--port", &port]);
    command.env("OPENCODE_SERVER_PASSWORD", &record.agent.password);
    command.env_remove("OPENCODE_SERVER_USERNAME");
    command
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
