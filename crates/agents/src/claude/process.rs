//! The start of a Claude Code, until its first answer.

use super::files::SessionFiles;
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
pub(super) type Running = StdioProcess<SessionOfProcess>;

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

/// Starts a process with these arguments, and waits for its first answer, which is returned.
pub(super) async fn start(
    spec: &ProcessSpec,
    arguments: &[String],
    native_id: &str,
    files: &SessionFiles,
    until: Instant,
    output: Output,
) -> Result<(Running, Value), StartError> {
    let begun = Instant::now();
    let ended = |status, output: &Output| StartError::Ended { status, output: output.tail() };
    let session = SessionOfProcess { native_id: native_id.to_owned() };
    let started = StdioProcess::start(spec, arguments, session, &files.record, output.clone()).await;
    let mut running = match started {
        Ok(running) => running,
        Err(NotStarted::Failed(error)) => return Err(error.into()),
        Err(NotStarted::Ended(status)) => return Err(ended(status, &output)),
    };
    match timeout_at(until, greet(&mut running)).await {
        Err(_) => Err(StartError::Silent(begun.elapsed())),
        Ok(Ok(Some(greeting))) => Ok((running, greeting)),
        Ok(Err(error)) => Err(error),
        Ok(Ok(None)) => match timeout_at(until, running.wait()).await {
            Ok(Ok(status)) => Err(ended(status, &output)),
            Ok(Err(error)) => Err(StartError::Pipes(error)),
            Err(_) => Err(StartError::Silent(begun.elapsed())),
        },
    }
}

/// Sends the first request and waits for its answer; `None` if the output ends before. Nothing else is of
/// interest before it.
async fn greet(running: &mut Running) -> Result<Option<Value>, StartError> {
    let request =
        json!({"type": "control_request", "request_id": FIRST_REQUEST, "request": {"subtype": "initialize"}});
    running.say(&request.to_string());
    // A process that has ended does not read. Its output has then ended too, and its exit says more.
    if let Err(error) = running.write().await {
        tracing::debug!(%error, "Claude Code does not read its first request");
    }
    loop {
        let Some(line) = running.line().await.map_err(StartError::Pipes)? else { return Ok(None) };
        let Line::Whole(line) = line else { continue };
        let Ok(mut said) = serde_json::from_slice::<Value>(line) else { continue };
        let response = said["response"].take();
        if said["type"] != "control_response" || response["request_id"] != FIRST_REQUEST {
            continue;
        }
        return match response["error"].as_str() {
            None => Ok(Some(response["response"].clone())),
            Some(error) => Err(StartError::Refused(error.to_owned())),
        };
    }
}
