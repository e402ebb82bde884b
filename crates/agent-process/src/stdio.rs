//! A process that speaks lines over its standard input and output: its start, its lines in both directions,
//! and its end.

use crate::error::ProcessError;
use crate::lines::{Line, LineReader};
use crate::output::Output;
use crate::process::Process;
use crate::record::Record;
use crate::spawn::{KillOnDrop, NotStarted, ProcessSpec, end};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

/// The longest line that is read. A longer one is skipped, and reported.
const LINE_LIMIT: usize = 64 << 20;
/// How long a process may take to end after its input or its output has ended.
const LAST_WORDS: Duration = Duration::from_millis(400);
/// The time between SIGTERM and SIGKILL for what is left then.
const GRACE: Duration = Duration::from_millis(200);
/// How many lines of the output an error shows.
const SHOWN_LINES: usize = 5;

/// A running process. Dropping it kills it with everything it started.
pub struct StdioProcess<A> {
    // Dropped before the child, whose id is its own until then.
    guard: KillOnDrop,
    child: Child,
    /// `None` once it is closed.
    stdin: Option<ChildStdin>,
    lines: LineReader<ChildStdout>,
    unwritten: Unwritten,
    output: Output,
    record: Record<A>,
    /// The file of the record.
    path: PathBuf,
    kind: &'static str,
}

/// Bytes for the input of a process.
#[derive(Default)]
struct Unwritten {
    bytes: Vec<u8>,
    /// How many of them were written.
    written: usize,
    /// Where a prompt begins that is among them.
    prompt: Option<usize>,
}

impl<A: Serialize + DeserializeOwned> StdioProcess<A> {
    /// Starts a process with these arguments. The record in `path` names it, and what it prints to standard
    /// error goes to `output`.
    pub async fn start(
        spec: &ProcessSpec,
        arguments: &[String],
        agent: A,
        path: &Path,
        output: Output,
    ) -> Result<Self, NotStarted> {
        let mut record = Record::new(agent).map_err(NotStarted::Failed)?;
        let pipe = |error| NotStarted::Failed(ProcessError::Pipe(error));
        let stderr = output.begin(&record.mark).map_err(pipe)?;
        let mut command = spec.command();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let (mut child, _process, guard) = spec.spawn(command, &mut record, path).await?.keep();
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(pipe(io::ErrorKind::BrokenPipe.into()));
        };
        Ok(Self {
            guard,
            child,
            stdin: Some(stdin),
            lines: LineReader::new(stdout, LINE_LIMIT),
            unwritten: Unwritten::default(),
            output,
            record,
            path: path.to_owned(),
            kind: spec.kind,
        })
    }
}

impl<A: Serialize + DeserializeOwned> StdioProcess<A> {
    /// Notes a process that was started for it here, in a group of its own. It ends with it, also after a
    /// crash of this owner.
    pub fn add_other(&mut self, pid: u32) -> Result<(), ProcessError> {
        // One that has ended by itself is nobody's.
        let Some(other) = i32::try_from(pid).ok().and_then(Process::find) else { return Ok(()) };
        if let Some(cgroup) = self.record.family().cgroup
            && let Err(error) = cgroup.add(other.id)
        {
            tracing::debug!(pid, %error, "cannot move a process into the control group");
        }
        self.record.others.retain(Process::is_alive);
        self.record.others.push(other);
        self.guard.guard(self.record.family());
        self.record.write(&self.path)
    }
}

impl<A> StdioProcess<A> {
    /// The process id.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// The mark of its processes.
    pub fn mark(&self) -> &str {
        &self.record.mark
    }

    /// Takes a line for its input.
    pub fn say(&mut self, line: &str) {
        self.unwritten.bytes.extend_from_slice(line.as_bytes());
        self.unwritten.bytes.push(b'\n');
    }

    /// How many bytes wait to be written.
    pub fn unwritten(&self) -> usize {
        self.unwritten.bytes.len() - self.unwritten.written
    }

    /// The next lines for its input hold a prompt.
    pub fn begin_prompt(&mut self) {
        self.unwritten.prompt = Some(self.unwritten.bytes.len());
    }

    /// True if the last prompt waits, and no byte of it was written: nobody has read it.
    pub fn holds_prompt(&self) -> bool {
        self.unwritten.prompt.is_some_and(|begin| self.unwritten.written <= begin)
    }

    /// Writes the lines that wait. Never returns if none wait. Safe to drop and call again.
    pub async fn write(&mut self) -> io::Result<()> {
        write(self.stdin.as_mut(), &mut self.unwritten).await
    }

    /// The next line of its output; `None` when that has ended. Safe to drop and call again.
    pub async fn line(&mut self) -> io::Result<Option<Line<'_>>> {
        self.lines.next().await
    }

    /// What it may do next. All three are safe to drop and call again.
    ///
    /// 1. The next line of its output; `None` when that has ended.
    /// 2. The end of writing the lines that wait, which never comes while none wait.
    /// 3. It has ended, and its output is silent: something that it started holds the pipe.
    pub fn both_directions(
        &mut self,
    ) -> (
        impl Future<Output = io::Result<Option<Line<'_>>>>,
        impl Future<Output = io::Result<()>>,
        impl Future<Output = ()>,
    ) {
        (self.lines.next(), write(self.stdin.as_mut(), &mut self.unwritten), silent_exit(&mut self.child))
    }

    /// It does not read its input any more. What it has printed is still to be read.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Its output has ended: waits for its exit.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// The end of what it has printed to standard error.
    pub fn output_tail(&self) -> String {
        self.output.tail()
    }

    /// Its output has ended: waits a moment for its exit, and says how it ended.
    pub async fn exit(&mut self) -> String {
        let kind = self.kind;
        let how = match timeout(LAST_WORDS, self.child.wait()).await {
            Ok(Ok(status)) => format!("{kind} ended with {status}"),
            Ok(Err(error)) => format!("{kind} ended, and cannot be waited for: {error}"),
            Err(_) => format!("{kind} closed its output"),
        };
        how + &printed(&self.output.tail())
    }

    /// Ends it: closes its input, waits a moment for its exit, ends everything it has started, and removes
    /// its record.
    pub async fn stop(mut self) -> Result<(), ProcessError> {
        if self.stdin.is_some() && !self.unwritten.bytes.is_empty() {
            let written = timeout(LAST_WORDS, self.write()).await;
            if !matches!(written, Ok(Ok(()))) {
                tracing::debug!("{} did not read its last lines", self.kind);
            }
        }
        self.stdin = None;
        if timeout(LAST_WORDS, self.child.wait()).await.is_err() {
            tracing::debug!("{} does not end by itself", self.kind);
        }
        end(&self.record, GRACE).await?;
        self.guard.disarm();
        Record::<A>::remove(&self.path)
    }
}

/// The end of what a process printed, for an error.
pub fn printed(output: &str) -> String {
    let lines: Vec<&str> = output.lines().rev().take(SHOWN_LINES).collect();
    let lines = lines.into_iter().rev().collect::<Vec<_>>().join("\n");
    if lines.is_empty() { String::new() } else { format!("; it printed:\n{lines}") }
}

/// Writes bytes, from the first that was not written. Safe to drop and call again.
async fn write(stdin: Option<&mut ChildStdin>, unwritten: &mut Unwritten) -> io::Result<()> {
    let Some(stdin) = stdin.filter(|_| !unwritten.bytes.is_empty()) else {
        return std::future::pending().await;
    };
    while unwritten.written < unwritten.bytes.len() {
        unwritten.written += stdin.write(&unwritten.bytes[unwritten.written..]).await?;
    }
    *unwritten = Unwritten::default();
    Ok(())
}

/// Returns a moment after the end of a process.
async fn silent_exit(child: &mut Child) {
    if let Err(error) = child.wait().await {
        tracing::warn!(%error, "cannot wait for the process of an agent");
        return std::future::pending().await;
    }
    tokio::time::sleep(LAST_WORDS).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnstream_redact::Rules;

    async fn start(home: &Path, script: &str) -> StdioProcess<()> {
        let spec = ProcessSpec {
            kind: "The program",
            name: "test".to_owned(),
            command: "/bin/sh".into(),
            cwd: home.to_owned(),
            env: Vec::new(),
            exit_status: None,
        };
        let output = Output::new(home.join("printed.log"), Rules::default());
        let arguments = ["-c".to_owned(), script.to_owned()];
        StdioProcess::start(&spec, &arguments, (), &home.join("record.json"), output).await.unwrap()
    }

    #[tokio::test]
    async fn lines_go_in_and_come_out_and_the_end_is_told() {
        let home = tempfile::tempdir().unwrap();
        let mut process = start(home.path(), "read line; echo \"got $line\"; echo why >&2; exit 3").await;
        process.begin_prompt();
        process.say("hello");
        assert!(process.holds_prompt());
        process.write().await.unwrap();
        assert!(!process.holds_prompt());
        let Some(Line::Whole(line)) = process.line().await.unwrap() else { panic!("no line") };
        assert_eq!(line, b"got hello");
        assert!(process.line().await.unwrap().is_none());
        assert_eq!(process.exit().await, "The program ended with exit status: 3; it printed:\nwhy");
        process.stop().await.unwrap();
        assert!(!home.path().join("record.json").exists());
    }

    #[tokio::test]
    async fn a_prompt_for_a_process_that_has_ended_is_read_by_nobody() {
        let home = tempfile::tempdir().unwrap();
        // It lives until it is told to end: a start that is over too soon is an error.
        let mut process = start(home.path(), "read line").await;
        process.say("end");
        process.write().await.unwrap();
        process.wait().await.unwrap();
        process.begin_prompt();
        process.say("hello");
        assert!(process.write().await.is_err());
        process.close_input();
        assert!(process.holds_prompt());
        process.stop().await.unwrap();
    }
}
