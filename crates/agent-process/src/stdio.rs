//! A process that speaks lines over its standard input and output: its start, its lines, and its end.

use crate::error::ProcessError;
use crate::lines::{Line, LineReader};
use crate::output::Output;
use crate::record::Record;
use crate::spawn::{self, KillOnDrop, NotStarted, ProcessSpec};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

/// The longest line that is read. A longer one is skipped.
const LINE_LIMIT: usize = 64 << 20;
/// How long a process may take to end after its input has ended.
const LAST_WORDS: Duration = Duration::from_millis(400);
/// The time between SIGTERM and SIGKILL for what is left then.
const GRACE: Duration = Duration::from_millis(200);
/// How many lines of the output an error shows.
const SHOWN_LINES: usize = 5;

/// A running process. Dropping it kills it with everything it started.
#[derive(Debug)]
pub struct StdioProcess<A> {
    // Dropped before the child, whose id is its own until then.
    guard: KillOnDrop,
    child: Child,
    /// `None` once it is closed.
    stdin: Option<ChildStdin>,
    lines: LineReader<ChildStdout>,
    /// Bytes for its input, and how many of them were written.
    unwritten: (Vec<u8>, usize),
    output: Output,
    record: Record<A>,
    /// The file of the record.
    path: PathBuf,
    /// The kind of the agent, for errors.
    kind: &'static str,
}

impl<A: Serialize + DeserializeOwned> StdioProcess<A> {
    /// Starts a process with these arguments. The record in `path` names it before it exists. What it prints
    /// to standard error goes to `output`.
    pub async fn start(
        spec: &ProcessSpec,
        arguments: &[String],
        agent: A,
        path: &Path,
        output: Output,
    ) -> Result<Self, NotStarted> {
        let mut record = Record::new(agent).map_err(NotStarted::Failed)?;
        let stderr =
            output.begin(&record.mark).map_err(|error| NotStarted::Failed(ProcessError::Pipe(error)))?;
        let mut command = spec.command();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let started = spec.spawn(command, &mut record, path).await?;
        let (mut child, _process, guard) = started.keep();
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("a child that was just started has the pipes asked for");
        };
        let lines = LineReader::new(stdout, LINE_LIMIT);
        let (path, kind, unwritten) = (path.to_owned(), spec.kind, (Vec::new(), 0));
        Ok(Self { guard, child, stdin: Some(stdin), lines, unwritten, output, record, path, kind })
    }

    /// Ends it: closes its input, waits a moment for its exit, and ends everything it has started.
    pub async fn stop(mut self) -> Result<(), ProcessError> {
        let Self { kind, .. } = self;
        if !self.unwritten.0.is_empty() {
            let written = timeout(LAST_WORDS, write(self.stdin.as_mut(), &mut self.unwritten)).await;
            if !matches!(written, Ok(Ok(()))) {
                tracing::debug!("{kind} did not read its last lines");
            }
        }
        self.stdin = None;
        let waited = timeout(LAST_WORDS, self.child.wait()).await;
        if waited.is_err() {
            tracing::debug!("{kind} does not end by itself");
        }
        spawn::end(&self.record, GRACE).await?;
        self.guard.disarm();
        Record::<A>::remove(&self.path)
    }
}

impl<A> StdioProcess<A> {
    /// The process id.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// The mark in the environment of all its processes.
    pub fn mark(&self) -> &str {
        &self.record.mark
    }

    /// Takes a line for its input.
    pub fn say(&mut self, line: &str) {
        self.unwritten.0.extend_from_slice(line.as_bytes());
        self.unwritten.0.push(b'\n');
    }

    /// What it may do next. All three are safe to drop and call again.
    ///
    /// 1. The next line of its output; `None` when that has ended.
    /// 2. The end of writing the lines that wait, which never comes while none wait.
    /// 3. It has ended, and its output is silent: something that it started holds the pipe.
    pub fn activity(
        &mut self,
    ) -> (
        impl Future<Output = io::Result<Option<Line<'_>>>>,
        impl Future<Output = io::Result<()>>,
        impl Future<Output = ()>,
    ) {
        (
            self.lines.next(),
            write(self.stdin.as_mut(), &mut self.unwritten),
            silent_exit(&mut self.child, self.kind),
        )
    }

    /// It does not read its input any more. What it has printed is still to be read.
    pub fn close_input(&mut self) {
        self.stdin = None;
        self.unwritten = (Vec::new(), 0);
    }

    /// Waits until it has ended. Its output may be read later.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// The end of what it has printed to standard error.
    pub fn last_words(&self) -> String {
        self.output.tail()
    }

    /// Its output has ended: waits for its exit, and says how it ended.
    pub async fn exit(&mut self) -> String {
        let kind = self.kind;
        let how = match timeout(LAST_WORDS, self.child.wait()).await {
            Ok(Ok(status)) => format!("{kind} ended with {status}"),
            Ok(Err(error)) => format!("{kind} ended, and cannot be waited for: {error}"),
            Err(_) => format!("{kind} closed its output"),
        };
        how + &printed(&self.output.tail())
    }
}

/// The end of what a process printed, for an error.
pub fn printed(output: &str) -> String {
    let lines: Vec<&str> = output.lines().rev().take(SHOWN_LINES).collect();
    let lines = lines.into_iter().rev().collect::<Vec<_>>().join("\n");
    if lines.is_empty() { String::new() } else { format!("; it printed:\n{lines}") }
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
async fn silent_exit(child: &mut Child, kind: &'static str) {
    if let Err(error) = child.wait().await {
        tracing::warn!(%error, "cannot wait for {kind}");
        return std::future::pending().await;
    }
    tokio::time::sleep(LAST_WORDS).await;
}
