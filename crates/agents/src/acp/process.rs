//! A running agent with its session: its start until it can be prompted, its lines, and what a killed gateway
//! has left of it.

use super::conversation::{Conversation, Refusal, SessionState};
use super::files::{SessionFiles, records};
use crate::state_files;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use turnstream_adapter::{AgentError, Clock};
use turnstream_agent_process::{
    Line, NotStarted, Output, ProcessError, ProcessSpec, Record as ProcessRecord, StdioProcess, printed,
};
use turnstream_model::Chain;

/// The time between SIGTERM and SIGKILL for what an earlier gateway has left.
const GRACE: Duration = Duration::from_millis(500);

/// What is on record of a process.
type Record = ProcessRecord<Empty>;

/// Nothing is to be known of a process, except which one it is: it ends with its gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Empty {}

/// The process of one session.
pub(super) type Process = StdioProcess<Empty>;

/// Why there is no process that can be prompted.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("it ended with {status} before it had a session{}", printed(output))]
    Ended { status: ExitStatus, output: String },
    #[error("it had no session within {after:?}{}", printed(output))]
    Silent { after: Duration, output: String },
    #[error("its pipes broke: {0}")]
    Pipes(#[source] io::Error),
    #[error("{0}")]
    Refused(#[source] Refusal),
    #[error("cannot note its session in a file: {0}")]
    Note(#[source] io::Error),
}

impl StartError {
    /// Whether another try may succeed.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            // Several processes of codex-acp that start at once refuse their sessions: they share a database.
            Self::Ended { .. } | Self::Pipes(_) | Self::Refused(Refusal::Error { .. }) => true,
            Self::Refused(Refusal::Forgotten { reason: _, may_pass }) => *may_pass,
            Self::Refused(Refusal::Protocol(_) | Refusal::Auth(_)) => false,
            Self::Process(_) | Self::Silent { .. } | Self::Note(_) => false,
        }
    }
}

impl AgentError for StartError {
    fn for_log(&self) -> String {
        match self {
            Self::Ended { status, output: _ } => format!("it ended with {status} before it had a session"),
            Self::Silent { after, output: _ } => format!("it had no session within {after:?}"),
            Self::Refused(Refusal::Auth(_)) => "it needs a login".to_owned(),
            Self::Refused(Refusal::Forgotten { .. }) => "it no longer has the session".to_owned(),
            Self::Refused(Refusal::Error { method, message: _ }) => format!("it refuses {method}"),
            Self::Process(_) | Self::Pipes(_) | Self::Refused(Refusal::Protocol(_)) | Self::Note(_) => {
                self.to_string()
            }
        }
    }
}

/// Starts a process, and drives the conversation until it has a session.
pub(super) async fn start(
    spec: &ProcessSpec,
    arguments: &[String],
    files: &SessionFiles,
    output: Output,
    conversation: &mut Conversation,
    until: Instant,
) -> Result<Process, StartError> {
    let begun = Instant::now();
    let ended = |status| StartError::Ended { status, output: output.tail() };
    let silent = || StartError::Silent { after: begun.elapsed(), output: output.tail() };
    let started = StdioProcess::start(spec, arguments, Empty {}, &files.record, output.clone()).await;
    let mut process = match started {
        Ok(process) => process,
        Err(NotStarted::Failed(error)) => return Err(error.into()),
        Err(NotStarted::Ended(status)) => return Err(ended(status)),
    };
    match timeout_at(until, open(&mut process, conversation)).await {
        Err(_) => Err(silent()),
        Ok(Err(error)) => Err(StartError::Pipes(error)),
        Ok(Ok(Opened::Yes)) => Ok(process),
        Ok(Ok(Opened::Refused(refusal))) => {
            if let Err(error) = process.stop().await {
                tracing::warn!(error = %Chain(&error), "an agent without a session cannot be ended");
            }
            Err(StartError::Refused(refusal))
        }
        Ok(Ok(Opened::Ended)) => match timeout_at(until, process.wait()).await {
            Ok(Ok(status)) => Err(ended(status)),
            Ok(Err(error)) => Err(StartError::Pipes(error)),
            Err(_) => Err(silent()),
        },
    }
}

/// What became of the start.
enum Opened {
    Yes,
    Refused(Refusal),
    /// The output has ended.
    Ended,
}

async fn open(process: &mut Process, conversation: &mut Conversation) -> io::Result<Opened> {
    let clock = Clock::new();
    loop {
        match conversation.session() {
            SessionState::Opening => {}
            SessionState::Open => return Ok(Opened::Yes),
            SessionState::Refused(refusal) => return Ok(Opened::Refused(refusal.clone())),
        }
        while let Some(line) = conversation.next_line() {
            process.say(&line);
        }
        let (lines, written, exit) = process.both_directions();
        tokio::select! {
            line = lines => match line? {
                Some(Line::Whole(line)) => conversation.line(line, clock.now()),
                Some(Line::Oversized(bytes)) => conversation.oversized(bytes, clock.now()),
                None => return Ok(Opened::Ended),
            },
            // The end of its output follows, and says more.
            written = written => if written.is_err() {
                return Ok(Opened::Ended);
            },
            () = exit => return Ok(Opened::Ended),
        }
    }
}

// === what an earlier gateway has left ===

/// Ends what an earlier gateway has left of a session. Without its pipes, an agent cannot go on.
pub(super) async fn end_leftover(record: &Path) -> Result<(), ProcessError> {
    if let Some(found) = Record::read(record)? {
        turnstream_agent_process::end(&found, GRACE).await?;
        Record::remove(record)?;
    }
    Ok(())
}

/// The same for all sessions of an agent.
pub(super) async fn end_leftovers(state: &Path) -> Result<(), ProcessError> {
    let mut result = Ok(());
    for record in records(state) {
        if let Err(error) = end_leftover(&record).await {
            result = Err(error);
        }
    }
    result
}

/// The ids of all processes of all sessions.
pub(super) fn process_ids(state: &Path) -> Vec<u32> {
    state_files::process_ids::<Empty>(records(state))
}
