//! A running Claude Code: its start, its lines in both directions, and its end.

use super::files::{SessionFiles, remove_mcp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use turnstream_adapter::AgentError;
use turnstream_agent_process::{
    Line, NotStarted, Output, ProcessError, ProcessSpec, Record as ProcessRecord, StdioProcess, printed,
};

/// The id of the first request, whose answer shows that the process is ready.
const FIRST_REQUEST: &str = "turnstream-start";

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
    process: StdioProcess<SessionOfProcess>,
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
        let session = SessionOfProcess { native_id: native_id.to_owned() };
        let ended = |status| StartError::Ended { status, output: output.tail() };
        let started = StdioProcess::start(spec, arguments, session, &files.record, output.clone()).await;
        let process = match started {
            Ok(process) => process,
            Err(NotStarted::Failed(error)) => return Err(error.into()),
            Err(NotStarted::Ended(status)) => return Err(ended(status)),
        };
        let mut running = Self { process, files: files.clone() };
        let greeting = timeout_at(until, running.greet()).await;
        match greeting {
            Err(_) => Err(StartError::Silent(begun.elapsed())),
            Ok(Ok(greeting)) => Ok((running, greeting)),
            Ok(Err(Greeting::Error(error))) => Err(error),
            Ok(Err(Greeting::Ended)) => match timeout_at(until, running.process.wait()).await {
                Ok(Ok(status)) => Err(ended(status)),
                Ok(Err(error)) => Err(StartError::Pipes(error)),
                Err(_) => Err(StartError::Silent(begun.elapsed())),
            },
        }
    }

    /// Sends the first request and waits for its answer. Before it nothing else is of interest.
    async fn greet(&mut self) -> Result<Value, Greeting> {
        let request = json!({"type": "control_request", "request_id": FIRST_REQUEST, "request": {"subtype": "initialize"}});
        self.say(&request.to_string());
        loop {
            let (lines, written, exit) = self.process.activity();
            drop(exit);
            let line = tokio::select! {
                line = lines => line.map_err(|error| Greeting::Error(StartError::Pipes(error)))?,
                // A process that has ended does not read. Its output has then ended too, and its exit says
                // more.
                written = written => {
                    if let Err(error) = written {
                        tracing::debug!(%error, "Claude Code does not read its first request");
                        self.process.close_input();
                    }
                    continue;
                }
            };
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
        self.process.pid()
    }

    /// Takes a line for its input.
    pub(super) fn say(&mut self, line: &str) {
        self.process.say(line);
    }

    /// What it may do next, as [`StdioProcess::activity`].
    pub(super) fn next(
        &mut self,
    ) -> (
        impl Future<Output = io::Result<Option<Line<'_>>>>,
        impl Future<Output = io::Result<()>>,
        impl Future<Output = ()>,
    ) {
        self.process.activity()
    }

    /// It does not read its input any more. What it has printed is still to be read.
    pub(super) fn close_input(&mut self) {
        self.process.close_input();
    }

    /// Its output has ended: waits for its exit, and says how it ended.
    pub(super) async fn exit(&mut self) -> String {
        self.process.exit().await
    }

    /// Ends it: closes its input, waits a moment for its exit, and ends everything it has started.
    pub(super) async fn stop(self) -> Result<(), ProcessError> {
        self.process.stop().await?;
        remove_mcp(&self.files.record);
        Ok(())
    }
}

/// Why there is no first answer.
enum Greeting {
    Ended,
    Error(StartError),
}
