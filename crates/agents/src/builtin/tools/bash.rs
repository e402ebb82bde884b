//! The tool bash: a command in a process group of its own, with a timeout and bounded output.
//!
//! The command is not confined: it can do what the user of the gateway can do. What it leaves in the
//! background is ended when the call ends.

use super::{Bash, Stopped, ToolResult};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use turnstream_agent_process::{NotStarted, ProcessError, ProcessSpec, Record, Started, end};
use turnstream_model::Chain;

/// The time of a command that names none, and the longest one.
const TIMEOUT: u64 = 120;
const MOST_TIMEOUT: u64 = 3_600;
/// Output is kept from the beginning and from the end, so many bytes each.
const KEPT: usize = 24 << 10;
/// How long a command may take to end after SIGTERM.
const GRACE: Duration = Duration::from_millis(500);
/// How long the last output may take to arrive once all processes have ended.
const LAST_OUTPUT: Duration = Duration::from_secs(5);

/// Runs a command when a line has come, so that the record of its process is complete before.
const WHEN_ON_RECORD: &str = r#"read -r _ && exec "$0" -c "$1" < /dev/null"#;

/// What the record of a command has to say: nothing beyond the process.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Command {}

/// Where commands run.
#[derive(Clone, Debug)]
pub(crate) struct Shell {
    /// The configured name of the agent.
    pub(crate) agent: String,
    /// The working directory.
    pub(crate) cwd: PathBuf,
    /// Variables besides PATH, HOME, LANG and TMPDIR.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// The record of the running command.
    pub(crate) record: PathBuf,
}

/// Why a command ended before its own end.
enum Interrupted {
    Timeout,
    Stopped,
}

/// The beginning and the end of what a command prints.
#[derive(Default)]
struct Output {
    head: Vec<u8>,
    tail: Vec<u8>,
    left_out: usize,
}

/// Ends a command that an earlier gateway left behind.
pub(crate) async fn end_leftover(record: &Path) -> Result<(), ProcessError> {
    if let Some(found) = Record::<Command>::read(record)? {
        end(&found, GRACE).await?;
        Record::<Command>::remove(record)?;
    }
    Ok(())
}

impl Shell {
    /// Runs a command to its end. `shown` gets the output as it comes.
    pub(super) async fn run(
        &self,
        call: &Bash,
        shown: mpsc::Sender<String>,
        stopped: &mut Stopped,
    ) -> ToolResult {
        let limit = call.timeout_seconds.unwrap_or(TIMEOUT).clamp(1, MOST_TIMEOUT);
        let (mut started, record) = match self.start(&call.command).await {
            Ok(started) => started,
            Err(problem) => return ToolResult::failed(problem),
        };
        let output = Arc::new(Mutex::new(Output::default()));
        let pipes = (started.child.stdout.take(), started.child.stderr.take());
        let mut reader = tokio::spawn(read_to_end(pipes, Arc::clone(&output), shown));
        let until = Instant::now() + Duration::from_secs(limit);
        let ended = tokio::select! {
            status = started.child.wait() => Ok(status),
            () = sleep_until(until) => Err(Interrupted::Timeout),
            () = stopped.wait() => Err(Interrupted::Stopped),
        };
        // Also after its own end: what it has left in the background holds its output open.
        let left = end(&record, GRACE).await;
        let (_, _, mut guard) = started.keep();
        if left.is_ok() {
            // Everything has ended, so nothing is looked for again.
            guard.disarm();
        }
        drop(guard);
        if let Err(error) = left.and_then(|()| Record::<Command>::remove(&self.record)) {
            tracing::warn!(agent = %self.agent, error = %Chain(&error), "a command cannot be ended");
        }
        if timeout(LAST_OUTPUT, &mut reader).await.is_err() {
            tracing::warn!(agent = %self.agent, "something holds the output of a command");
            reader.abort();
        }
        let (note, is_failed) = match ended {
            Ok(Ok(status)) => (exit_note(status), !status.success()),
            Ok(Err(error)) => (Some(format!("its exit code is not known: {error}")), true),
            Err(Interrupted::Timeout) => (Some(format!("killed after {limit} seconds")), true),
            Err(Interrupted::Stopped) => (Some("killed: the turn was stopped".to_owned()), true),
        };
        let mut text = lock(&output).text();
        if let Some(note) = note {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&format!("[{note}]"));
        } else if text.is_empty() {
            text.push_str("[no output]");
        }
        ToolResult { is_failed, text }
    }

    async fn start(&self, command: &str) -> Result<(Started, Record<Command>), String> {
        let program = ["/bin/bash", "/usr/bin/bash"].iter().map(Path::new).find(|path| path.exists());
        let spec = ProcessSpec {
            kind: "bash",
            name: self.agent.clone(),
            command: program.unwrap_or(Path::new("/bin/sh")).to_owned(),
            cwd: self.cwd.clone(),
            env: self.env.clone(),
            exit_status: None,
        };
        let mut line = spec.command();
        line.args(["-c", WHEN_ON_RECORD]).arg(&spec.command).arg(command);
        line.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // One that could not be ended before is still on record.
        let left = end_leftover(&self.record).await;
        left.map_err(|error| format!("the command before this one cannot be ended: {error}"))?;
        let mut record = Record::new(Command {}).map_err(|error| error.to_string())?;
        match spec.spawn(line, &mut record, &self.record).await {
            Ok(mut started) => {
                if let Some(mut input) = started.child.stdin.take() {
                    let begun = input.write_all(b"\n").await;
                    begun.map_err(|error| format!("the command cannot be started: {error}"))?;
                }
                Ok((started, record))
            }
            Err(NotStarted::Failed(error)) => Err(format!("the command cannot be started: {error}")),
            Err(NotStarted::Ended(status)) => Err(format!("the shell ended at once: {status}")),
        }
    }
}

/// What a person has to know of an exit.
fn exit_note(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit code {code}")),
        (None, Some(signal)) => Some(format!("killed by signal {signal}")),
        (None, None) => Some(status.to_string()),
    }
}

/// Reads what a command prints, until nobody can print any more.
async fn read_to_end(
    (out, err): (Option<ChildStdout>, Option<ChildStderr>),
    output: Arc<Mutex<Output>>,
    shown: mpsc::Sender<String>,
) {
    tokio::join!(read_pipe(out, &output, &shown), read_pipe(err, &output, &shown));
}

async fn read_pipe<R: AsyncRead + Unpin>(
    pipe: Option<R>,
    output: &Mutex<Output>,
    shown: &mpsc::Sender<String>,
) {
    let Some(mut pipe) = pipe else { return };
    // The beginning of a character that a read has cut.
    let mut half = Vec::new();
    let mut buffer = vec![0; 8_192];
    loop {
        // A pipe that cannot be read any more is at its end.
        let read = pipe.read(&mut buffer).await.unwrap_or(0);
        half.extend_from_slice(&buffer[..lock(output).push(&buffer[..read])]);
        let whole = if read == 0 { half.len() } else { whole_characters(&half) };
        let text = String::from_utf8_lossy(&half[..whole]).into_owned();
        half.drain(..whole);
        if !text.is_empty() && shown.send(text).await.is_err() {
            tracing::debug!("nobody looks at the output of a command");
        }
        if read == 0 {
            return;
        }
    }
}

fn lock(output: &Mutex<Output>) -> MutexGuard<'_, Output> {
    // It is whole also after a panic of its holder.
    output.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Output {
    /// Adds output. Returns how many of the bytes are shown at once.
    fn push(&mut self, bytes: &[u8]) -> usize {
        let first = bytes.len().min(KEPT - self.head.len());
        self.head.extend_from_slice(&bytes[..first]);
        self.tail.extend_from_slice(&bytes[first..]);
        let more = self.tail.len().saturating_sub(KEPT);
        // In large pieces: one at a time would move the rest each time.
        if more > KEPT {
            self.tail.drain(..more);
            self.left_out += more;
        }
        first
    }

    fn text(&mut self) -> String {
        let more = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..more);
        let left_out = self.left_out + more;
        if left_out > 0 {
            self.head.extend_from_slice(format!("\n[{left_out} bytes are left out]\n").as_bytes());
        }
        self.head.extend_from_slice(&self.tail);
        String::from_utf8_lossy(&self.head).into_owned()
    }
}

/// The bytes before a character that is cut off at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        // Only the end is incomplete; anything else is shown as it is.
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bash, Stopper, ToolResult, stopper};
    use super::{KEPT, Shell, end_leftover};
    use std::path::Path;
    use tokio::sync::mpsc;

    fn shell(home: &Path) -> Shell {
        let env = vec![("GREETING".into(), "hello".into())];
        Shell { agent: "builtin".to_owned(), cwd: home.to_owned(), env, record: home.join("bash.json") }
    }

    /// The result, and what was shown while the command ran.
    async fn run(home: &Path, command: &str, seconds: Option<u64>) -> (ToolResult, String) {
        let (sender, mut receiver) = mpsc::channel::<String>(64);
        let (_stopper, mut stopped) = stopper();
        let call = Bash { command: command.to_owned(), timeout_seconds: seconds };
        let shell = shell(home);
        let shown = async {
            let mut shown = String::new();
            while let Some(text) = receiver.recv().await {
                shown.push_str(&text);
            }
            shown
        };
        let result = tokio::join!(shell.run(&call, sender, &mut stopped), shown);
        assert!(!home.join("bash.json").exists(), "the record is removed");
        result
    }

    #[tokio::test]
    async fn a_command_runs_in_its_directory_with_a_clean_environment() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().canonicalize().unwrap();
        let (result, shown) = run(&path, "pwd; echo $GREETING$CARGO; echo no >&2; exit 3", None).await;
        assert!(result.is_failed);
        assert!(result.text.contains(&path.display().to_string()), "{}", result.text);
        assert!(result.text.contains("hello\n") && result.text.contains("no\n"), "{}", result.text);
        assert!(result.text.ends_with("[exit code 3]"), "{}", result.text);
        assert!(shown.contains("hello\n"), "{shown}");
        let (result, _) = run(&path, "true", None).await;
        assert_eq!(result, ToolResult { is_failed: false, text: "[no output]".to_owned() });
    }

    #[tokio::test]
    async fn long_output_keeps_its_beginning_and_its_end() {
        let home = tempfile::tempdir().unwrap();
        let command = "echo begin; i=0; while [ $i -lt 20000 ]; do echo é1234567; i=$((i+1)); done; echo end";
        let (result, shown) = run(home.path(), command, None).await;
        assert!(result.text.starts_with("begin\n") && result.text.ends_with("end\n"));
        assert!(result.text.contains(" bytes are left out]\n"));
        assert!(result.text.len() < 3 * KEPT && shown.len() <= KEPT + 4, "{}", result.text.len());
    }

    #[tokio::test]
    async fn what_a_command_leaves_in_the_background_ends_with_it() {
        let home = tempfile::tempdir().unwrap();
        // In a session of its own, with the output open.
        let command =
            "setsid sh -c 'echo $$ > pid; exec sleep 3600' & while ! [ -s pid ]; do :; done; echo ok";
        let (result, _) = run(home.path(), command, None).await;
        assert_eq!(result, ToolResult { is_failed: false, text: "ok\n".to_owned() });
        assert_ended(home.path());
    }

    #[tokio::test]
    async fn a_timeout_kills_the_command_and_its_children() {
        let home = tempfile::tempdir().unwrap();
        let command = "setsid sh -c 'echo $$ > pid; exec sleep 3600' & echo begun; wait";
        let (result, _) = run(home.path(), command, Some(1)).await;
        assert!(result.is_failed && result.text.ends_with("[killed after 1 seconds]"), "{}", result.text);
        if home.path().join("pid").exists() {
            assert_ended(home.path());
        }
    }

    #[tokio::test]
    async fn a_stop_kills_the_command_and_tells_what_it_has_printed() {
        let home = tempfile::tempdir().unwrap();
        let (sender, mut receiver) = mpsc::channel::<String>(64);
        let (stopper, mut stopped) = stopper();
        let call = Bash {
            command: "trap '' TERM; echo begun; sleep 3600 & wait; wait".to_owned(),
            timeout_seconds: None,
        };
        let shell = shell(home.path());
        let stop = async move {
            assert_eq!(receiver.recv().await.unwrap(), "begun\n");
            Stopper::stop(&stopper);
            while receiver.recv().await.is_some() {}
        };
        let (result, ()) = tokio::join!(shell.run(&call, sender, &mut stopped), stop);
        assert_eq!(result, ToolResult::failed("begun\n[killed: the turn was stopped]"));
    }

    #[tokio::test]
    async fn a_command_whose_call_is_dropped_is_killed_and_stays_on_record() {
        let home = tempfile::tempdir().unwrap();
        let (sender, mut receiver) = mpsc::channel::<String>(64);
        let (_stopper, mut stopped) = stopper();
        let call =
            Bash { command: "echo $$ > pid; echo begun; sleep 3600".to_owned(), timeout_seconds: None };
        let shell = shell(home.path());
        tokio::select! {
            _ = shell.run(&call, sender, &mut stopped) => panic!("it ended"),
            begun = receiver.recv() => assert_eq!(begun.unwrap(), "begun\n"),
        }
        assert!(home.path().join("bash.json").exists());
        end_leftover(&home.path().join("bash.json")).await.unwrap();
        assert_ended(home.path());
        assert!(!home.path().join("bash.json").exists());
    }

    /// The process in the file `pid` has ended.
    fn assert_ended(home: &Path) {
        let id = std::fs::read_to_string(home.join("pid")).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z "), "it still runs: {stat}");
    }
}
