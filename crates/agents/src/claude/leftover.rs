//! A process that a gateway left when it was killed. Claude Code finishes its turn without its pipes, stores
//! the answer, and exits.

use super::files::{SessionFiles, records, remove_mcp};
use super::process::{Record, SessionOfProcess};
use crate::state_files;
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;
use tokio::sync::mpsc;
use turnstream_adapter::{Command, LinkEnd, Observer};
use turnstream_agent_process::ProcessError;
use turnstream_model::Chain;

/// How often a process that is not a child of this one is looked at.
const CHECK: Duration = Duration::from_millis(100);
/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(500);

/// What became of the process that an earlier gateway has left.
pub(super) enum Leftover {
    /// It has ended, with everything it had started.
    Ended,
    /// It was ended by a cancel.
    Cancelled,
    /// Whether something still runs cannot be told.
    Unknown(ProcessError),
}

/// Waits until the process of a session has finished its turn and ended. The keeper bounds the time: it
/// drops the link. A cancel ends the process at once. Commands that come meanwhile are kept for later.
pub(super) async fn wait(
    agent: &str,
    files: &SessionFiles,
    commands: &mut mpsc::Receiver<Command>,
    early: &mut VecDeque<Command>,
    observer: &Observer,
) -> Result<Leftover, LinkEnd> {
    let record = match Record::read(&files.record) {
        Ok(Some(record)) => record,
        Ok(None) => return Ok(Leftover::Ended),
        Err(error) => return Ok(Leftover::Unknown(error)),
    };
    let mut ended = Leftover::Ended;
    if let Some(process) = record.family().find_leader() {
        tracing::info!(agent, pid = process.id, "waiting for a leftover Claude Code to finish its turn");
        // A stopped process would never finish.
        record.family().resume();
        while process.is_alive() {
            tokio::select! {
                () = tokio::time::sleep(CHECK) => {}
                command = commands.recv() => match command {
                    Some(Command::Cancel | Command::CancelPrompt(_)) => {
                        ended = Leftover::Cancelled;
                        break;
                    }
                    Some(command) => early.push_back(command),
                    None => {
                        end_or_log(&record, &files.record).await;
                        return Err(LinkEnd);
                    }
                },
                () = observer.gone() => {
                    // The keeper has given up: the turn is lost, so nothing of it may go on.
                    end_or_log(&record, &files.record).await;
                    return Err(LinkEnd);
                }
            }
        }
    }
    Ok(match end(&record, &files.record).await {
        Ok(()) => ended,
        Err(error) => Leftover::Unknown(error),
    })
}

/// Ends what an earlier gateway has left of a session.
pub(super) async fn end_of_session(files: &SessionFiles) -> Result<(), ProcessError> {
    match Record::read(&files.record)? {
        Some(record) => end(&record, &files.record).await,
        None => Ok(()),
    }
}

/// Ends what an earlier gateway has left of all sessions. With `Which::Orphans`, a process that still works
/// for its session is left alone: its session waits for it.
pub(super) async fn end_of_agent(state: &Path, which: Which) -> Result<(), ProcessError> {
    let mut result = Ok(());
    for path in records(state) {
        let record = match Record::read(&path) {
            Ok(Some(record)) => record,
            Ok(None) => continue,
            Err(error) => {
                result = Err(error);
                continue;
            }
        };
        if which == Which::Orphans && record.family().find_leader().is_some() {
            continue;
        }
        if let Err(error) = end(&record, &path).await {
            result = Err(error);
        }
    }
    result
}

/// The ids of all processes of all sessions.
pub(super) fn process_ids(state: &Path) -> Vec<u32> {
    state_files::process_ids::<SessionOfProcess>(records(state))
}

/// Which processes are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// All.
    All,
    /// Those whose Claude Code has ended.
    Orphans,
}

async fn end(record: &Record, path: &Path) -> Result<(), ProcessError> {
    turnstream_agent_process::end(record, GRACE).await?;
    remove_mcp(path);
    Record::remove(path)
}

async fn end_or_log(record: &Record, path: &Path) {
    if let Err(error) = end(record, path).await {
        tracing::warn!(error = %Chain(&error), "what an earlier gateway left cannot be ended");
    }
}
