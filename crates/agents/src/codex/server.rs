//! A running `codex app-server`: its start, its adoption after a crash of the gateway, and its end.

use super::conversation::OpeningError;
use super::files::{SessionFiles, records};
use super::socket::{Socket, SocketError};
use crate::state_files;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::Child;
use tokio::time::Instant;
use turnstream_adapter::AgentError;
use turnstream_agent_process::{
    KillOnDrop, NotStarted, Output, Process, ProcessError, ProcessSpec, Record as ProcessRecord, random_mark,
};

/// What a server prints before the port on which it listens.
const LISTENING: &str = "ws://127.0.0.1:";
/// How often a server that starts or ends is looked at.
const POLL: Duration = Duration::from_millis(20);
/// How long a server may take to end after its connection.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(500);
/// How many lines of the output an error shows.
const SHOWN_LINES: usize = 5;

/// What is on record of a server.
pub(super) type Record = ProcessRecord<Listener>;

/// Where a server listens, and the token for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listener {
    /// `None` until the server has chosen one.
    port: Option<u16>,
    token: String,
}

/// A server. Dropping it kills it with everything it started.
pub(super) struct Server {
    // Dropped before the child, whose id is its own until then.
    guard: KillOnDrop,
    /// `None` for a server that an earlier gateway has started.
    child: Option<Child>,
    process: Process,
    port: u16,
    output: Output,
    record: Record,
    files: SessionFiles,
}

/// Why there is no server, or no thread on it.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("it ended with {status} before its first answer{}", printed(output))]
    Ended { status: ExitStatus, output: String },
    #[error("it did not answer within {waited:?}{}", printed(output))]
    Silent { waited: Duration, output: String },
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("its connection broke before its first answer: {0}")]
    Broken(String),
    #[error(transparent)]
    Opening(#[from] OpeningError),
    #[error("cannot note its thread in a file: {0}")]
    Note(#[source] io::Error),
}

impl StartError {
    /// Whether another try may succeed.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Ended { .. } | Self::Silent { .. } | Self::Socket(_) | Self::Broken(_) => true,
            Self::Process(_) | Self::Opening(_) | Self::Note(_) => false,
        }
    }
}

impl AgentError for StartError {
    fn for_log(&self) -> String {
        match self {
            Self::Ended { status, output: _ } => format!("it ended with {status} before its first answer"),
            Self::Silent { waited, output: _ } => format!("it did not answer within {waited:?}"),
            Self::Opening(OpeningError::Refused { method, message: _ }) => format!("it refuses {method}"),
            Self::Process(_) | Self::Socket(_) | Self::Broken(_) | Self::Note(_) => self.to_string(),
        }
    }
}

/// The end of what a server printed, for an error.
fn printed(output: &str) -> String {
    let lines: Vec<&str> = output.lines().rev().take(SHOWN_LINES).collect();
    let lines = lines.into_iter().rev().collect::<Vec<_>>().join("\n");
    if lines.is_empty() { String::new() } else { format!("; it printed:\n{lines}") }
}

// === impl Server ===

impl Server {
    /// Starts a server with these arguments of Codex, and waits until it listens.
    pub(super) async fn start(
        spec: &ProcessSpec,
        arguments: &[String],
        files: &SessionFiles,
        output: Output,
        until: Instant,
    ) -> Result<Self, StartError> {
        let begun = Instant::now();
        let mut record = Record::new(Listener { port: None, token: random_mark()? })?;
        let stdout = output.begin(&record.mark).map_err(ProcessError::Pipe)?;
        let stderr = stdout.try_clone().map_err(ProcessError::Pipe)?;
        let mut command = spec.command();
        // The arguments of a process can be read by everybody, so they have only a digest of the token.
        let digest: String =
            Sha256::digest(&record.agent.token).iter().map(|byte| format!("{byte:02x}")).collect();
        command.args(arguments);
        command.args(["app-server", "--listen", "ws://127.0.0.1:0"]);
        command.args(["--ws-auth", "capability-token", "--ws-token-sha256", &digest]);
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let ended = |status| StartError::Ended { status, output: output.tail() };
        let started = match spec.spawn(command, &mut record, &files.record).await {
            Ok(started) => started,
            Err(NotStarted::Failed(error)) => return Err(error.into()),
            Err(NotStarted::Ended(status)) => return Err(ended(status)),
        };
        let (mut child, process, guard) = started.keep();
        let port = loop {
            if let Some(port) = port_in(&output.tail()) {
                break port;
            }
            if let Ok(Some(status)) = child.try_wait() {
                return Err(ended(status));
            }
            if Instant::now() >= until {
                return Err(StartError::Silent { waited: begun.elapsed(), output: output.tail() });
            }
            tokio::time::sleep(POLL).await;
        };
        record.agent.port = Some(port);
        record.write(&files.record)?;
        Ok(Self { guard, child: Some(child), process, port, output, record, files: files.clone() })
    }

    /// The server that an earlier gateway has left for this session, if it listens. One that was stopped
    /// (SIGSTOP) is continued.
    pub(super) fn adopt(files: &SessionFiles, output: Output) -> Result<Option<Self>, ProcessError> {
        let Some(record) = Record::read(&files.record)? else { return Ok(None) };
        let (Some(process), Some(port)) = (record.family().find_leader(), record.agent.port) else {
            return Ok(None);
        };
        let pid = process.id;
        if let Err(error) = output.resume(&record.mark, pid) {
            tracing::warn!(pid, %error, "cannot read the output of a leftover Codex; not adopted");
            return Ok(None);
        }
        record.family().resume();
        let guard = KillOnDrop::new(record.family());
        Ok(Some(Self { guard, child: None, process, port, output, record, files: files.clone() }))
    }

    /// A new connection to it.
    pub(super) async fn connect(&self) -> Result<Socket, SocketError> {
        Socket::connect(self.port, &self.record.agent.token).await
    }

    /// The process id.
    pub(super) fn pid(&self) -> i32 {
        self.process.id
    }

    /// How it ended, if it ends within a moment.
    pub(super) async fn exit(&mut self) -> Option<String> {
        let until = Instant::now() + LAST_WORDS;
        while self.process.is_alive() {
            if Instant::now() >= until {
                return None;
            }
            tokio::time::sleep(POLL).await;
        }
        let status = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
        let how = match status {
            Some(status) => format!("Codex ended with {status}"),
            None => "Codex ended".to_owned(),
        };
        Some(how + &printed(&self.output.tail()))
    }

    /// The end of what it printed, for an error.
    pub(super) fn printed(&self) -> String {
        printed(&self.output.tail())
    }

    /// Ends it, and everything it has started.
    pub(super) async fn stop(mut self) -> Result<(), ProcessError> {
        turnstream_agent_process::end(&self.record, GRACE).await?;
        self.guard.disarm();
        Record::remove(&self.files.record)
    }
}

/// The port in the line that says where a server listens.
fn port_in(output: &str) -> Option<u16> {
    let (_, rest) = output.split_once(LISTENING)?;
    let digits = rest.split(|char: char| !char.is_ascii_digit()).next()?;
    // The rest of the number may not be printed yet.
    if digits.len() == rest.len() { None } else { digits.parse().ok() }
}

/// Ends what an earlier gateway has left of a session.
pub(super) async fn end_of_session(files: &SessionFiles) -> Result<(), ProcessError> {
    match Record::read(&files.record)? {
        Some(record) => end(&record, &files.record).await,
        None => Ok(()),
    }
}

/// Which servers are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// All.
    All,
    /// Those that have ended and left processes behind. A server that runs is adopted by its session.
    Orphans,
}

/// Ends what an earlier gateway has left of all sessions.
pub(super) async fn end_of_agent(state: &Path, which: Which) -> Result<(), ProcessError> {
    let mut result = Ok(());
    for path in records(state) {
        let ended = match Record::read(&path) {
            Ok(Some(record)) if which == Which::All || record.family().find_leader().is_none() => {
                end(&record, &path).await
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        if ended.is_err() {
            result = ended;
        }
    }
    result
}

/// The ids of all processes of all sessions.
pub(super) fn process_ids(state: &Path) -> Vec<u32> {
    state_files::process_ids::<Listener>(records(state))
}

async fn end(record: &Record, path: &Path) -> Result<(), ProcessError> {
    turnstream_agent_process::end(record, GRACE).await?;
    Record::remove(path)
}

#[cfg(test)]
mod tests {
    use super::port_in;

    #[test]
    fn a_port_is_read_when_its_number_is_complete() {
        assert_eq!(port_in("  listening on: ws://127.0.0.1:4711\n  readyz"), Some(4711));
        assert_eq!(port_in("  listening on: \u{1b}[36mws://127.0.0.1:4711\u{1b}[0m"), Some(4711));
        for early in ["", "  listening on: ws://127.0.0.1:", "  listening on: ws://127.0.0.1:47"] {
            assert_eq!(port_in(early), None, "{early:?}");
        }
    }
}
