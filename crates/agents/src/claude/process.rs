//! A running Claude Code: its start, its lines in both directions, and its end.

use super::files::{SessionFiles, remove_mcp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::{Instant, timeout, timeout_at};
use turnstream_adapter::AgentError;
use turnstream_agent_process::{
    KillOnDrop, Line, LineReader, NotStarted, Output, ProcessError, ProcessSpec, Record as ProcessRecord,
    Started,
};

/// The longest line that is read. A longer one is skipped, and reported as a gap.
const LINE_LIMIT: usize = 64 << 20;
/// How long a process may take to end after its input has ended.
const LAST_WORDS: Duration = Duration::from_millis(400);
/// The time between SIGTERM and SIGKILL for what is left then.
const GRACE: Duration = Duration::from_millis(200);
/// The id of the first request, whose answer shows that the process is ready.
const FIRST_REQUEST: &str = "turnstream-start";
/// How many lines of the output an error shows.
const SHOWN_LINES: usize = 5;

/// What is on record of a process.
pub(super) type Record = ProcessRecord<SessionOfProcess>;

/// The session that a process works for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SessionOfProcess {
    /// Claude Code's id of the session.
    pub(super) native_id: String,
}

/// A process that has answered its first request. Dropping it kills it with everything it started.
pub(super) struct Running {
    // Dropped before the child, whose id is its own until then.
    guard: KillOnDrop,
    child: Child,
    /// `None` once it is closed.
    stdin: Option<ChildStdin>,
    lines: LineReader<ChildStdout>,
    /// Bytes for its input, and how many of them were written.
    unwritten: (Vec<u8>, usize),
    output: Output,
    record: Record,
    files: SessionFiles,
}

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("it ended with {status} before its first answer{}", printed(output))]
    Ended { status: ExitStatus, output: String },
    #[error("it did not answer within {0:?}")]
    Silent(Duration),
    #[error("its pipes broke: {0}")]
    Pipes(#[source] io::Error),
    #[error("it refuses the first request: {0}")]
    Refused(String),
    #[error("cannot write its MCP servers to a file: {0}")]
    Mcp(#[source] io::Error),
    #[error("cannot note its session in a file: {0}")]
    Note(#[source] io::Error),
}

impl StartError {
    /// Whether another try may succeed.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Ended { .. } | Self::Silent(_) | Self::Pipes(_) => true,
            Self::Process(_) | Self::Refused(_) | Self::Mcp(_) | Self::Note(_) => false,
        }
    }
}

impl AgentError for StartError {
    fn for_log(&self) -> String {
        match self {
            Self::Ended { status, output: _ } => format!("it ended with {status} before its first answer"),
            Self::Refused(_) => "it refuses the first request".to_owned(),
            Self::Process(_) | Self::Silent(_) | Self::Pipes(_) | Self::Mcp(_) | Self::Note(_) => {
                self.to_string()
            }
        }
    }
}

/// The end of what a process printed, for an error.
fn printed(output: &str) -> String {
    let lines: Vec<&str> = output.lines().rev().take(SHOWN_LINES).collect();
    let lines = lines.into_iter().rev().collect::<Vec<_>>().join("\n");
    if lines.is_empty() { String::new() } else { format!("; it printed:\n{lines}") }
}

// === impl Running ===

impl Running {
    /// Starts a process with these arguments, and waits for its first answer, which is returned.
    pub(super) async fn start(
        spec: &ProcessSpec,
        arguments: &[String],
        native_id: &str,
        files: &SessionFiles,
        output: Output,
        until: Instant,
    ) -> Result<(Self, Value), StartError> {
        let begun = Instant::now();
        let mut record = Record::new(SessionOfProcess { native_id: native_id.to_owned() })?;
        let stderr = output.begin(&record.mark).map_err(ProcessError::Pipe)?;
        let mut command = spec.command();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let ended = |status| StartError::Ended { status, output: output.tail() };
        let started = match spec.spawn(command, &mut record, &files.record).await {
            Ok(started) => started,
            Err(NotStarted::Failed(error)) => return Err(error.into()),
            Err(NotStarted::Ended(status)) => return Err(ended(status)),
        };
        let mut running = Self::new(started, output.clone(), record, files.clone())?;
        let greeting = timeout_at(until, running.greet()).await;
        match greeting {
            Err(_) => Err(StartError::Silent(begun.elapsed())),
            Ok(Ok(greeting)) => Ok((running, greeting)),
            Ok(Err(Greeting::Error(error))) => Err(error),
            Ok(Err(Greeting::Ended)) => match timeout_at(until, running.child.wait()).await {
                Ok(Ok(status)) => Err(ended(status)),
                Ok(Err(error)) => Err(StartError::Pipes(error)),
                Err(_) => Err(StartError::Silent(begun.elapsed())),
            },
        }
    }

    fn new(
        started: Started,
        output: Output,
        record: Record,
        files: SessionFiles,
    ) -> Result<Self, StartError> {
        let (mut child, _process, guard) = started.keep();
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(StartError::Pipes(io::ErrorKind::BrokenPipe.into()));
        };
        let lines = LineReader::new(stdout, LINE_LIMIT);
        let unwritten = (Vec::new(), 0);
        Ok(Self { guard, child, stdin: Some(stdin), lines, unwritten, output, record, files })
    }

    /// Sends the first request and waits for its answer. Before it nothing else is of interest.
    async fn greet(&mut self) -> Result<Value, Greeting> {
        let request = json!({"type": "control_request", "request_id": FIRST_REQUEST, "request": {"subtype": "initialize"}});
        self.say(&request.to_string());
        // A process that has ended does not read. Its output has then ended too, and its exit says more.
        if let Err(error) = write(self.stdin.as_mut(), &mut self.unwritten).await {
            tracing::debug!(%error, "Claude Code does not read its first request");
        }
        loop {
            let line = self.lines.next().await.map_err(|error| Greeting::Error(StartError::Pipes(error)))?;
            let Some(line) = line else { return Err(Greeting::Ended) };
            let Line::Whole(line) = line else { continue };
            let Ok(mut said) = serde_json::from_slice::<Value>(line) else { continue };
            let response = said["response"].take();
            if said["type"] != "control_response" || response["request_id"] != FIRST_REQUEST {
                continue;
            }
            return match response["error"].as_str() {
                None => Ok(response["response"].clone()),
                Some(error) => Err(Greeting::Error(StartError::Refused(error.to_owned()))),
            };
        }
    }

    /// The process id.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Takes a line for its input.
    pub(super) fn say(&mut self, line: &str) {
        self.unwritten.0.extend_from_slice(line.as_bytes());
        self.unwritten.0.push(b'\n');
    }

    /// What it may do next. All three are safe to drop and call again.
    ///
    /// 1. The next line of its output; `None` when that has ended.
    /// 2. The end of writing the lines that wait, which never comes while none wait.
    /// 3. It has ended, and its output is silent: something that it started holds the pipe.
    pub(super) fn next(
        &mut self,
    ) -> (
        impl Future<Output = io::Result<Option<Line<'_>>>>,
        impl Future<Output = io::Result<()>>,
        impl Future<Output = ()>,
    ) {
        (self.lines.next(), write(self.stdin.as_mut(), &mut self.unwritten), silent_exit(&mut self.child))
    }

    /// It does not read its input any more. What it has printed is still to be read.
    pub(super) fn close_input(&mut self) {
        self.stdin = None;
        self.unwritten = (Vec::new(), 0);
    }

    /// Its output has ended: waits for its exit, and says how it ended.
    pub(super) async fn exit(&mut self) -> String {
        let how = match timeout(LAST_WORDS, self.child.wait()).await {
            Ok(Ok(status)) => format!("Claude Code ended with {status}"),
            Ok(Err(error)) => format!("Claude Code ended, and cannot be waited for: {error}"),
            Err(_) => "Claude Code closed its output".to_owned(),
        };
        how + &printed(&self.output.tail())
    }

    /// Ends it: closes its input, waits a moment for its exit, and ends everything it has started.
    pub(super) async fn stop(mut self) -> Result<(), ProcessError> {
        if !self.unwritten.0.is_empty() {
            let written = timeout(LAST_WORDS, write(self.stdin.as_mut(), &mut self.unwritten)).await;
            if !matches!(written, Ok(Ok(()))) {
                tracing::debug!("Claude Code did not read its last lines");
            }
        }
        self.stdin = None;
        let waited = timeout(LAST_WORDS, self.child.wait()).await;
        if waited.is_err() {
            tracing::debug!("Claude Code does not end by itself");
        }
        turnstream_agent_process::end(&self.record, GRACE).await?;
        self.guard.disarm();
        remove_mcp(&self.files.record);
        Record::remove(&self.files.record)
    }
}

/// Writes bytes, from the first that was not written. Safe to drop and call again.
async fn write(stdin: Option<&mut ChildStdin>, unwritten: &mut (Vec<u8>, usize)) -> io::Result<()> {
    let (bytes, written) = unwritten;
    let Some(stdin) = stdin.filter(|_| !bytes.is_empty()) else {
        return std::future::pending().await;
    };
    while *written < bytes.len() {
        *written += stdin.write(&bytes[*written..]).await?;
    }
    *bytes = Vec::new();
    *written = 0;
    Ok(())
}

/// Returns a moment after the end of a process.
async fn silent_exit(child: &mut Child) {
    if let Err(error) = child.wait().await {
        tracing::warn!(%error, "cannot wait for Claude Code");
        return std::future::pending().await;
    }
    tokio::time::sleep(LAST_WORDS).await;
}

/// Why there is no first answer.
enum Greeting {
    Ended,
    Error(StartError),
}
