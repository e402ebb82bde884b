//! A running agent: lines in, lines out, the end of its stderr, and its process tree, which ends on drop.

use super::process_tree::{self, Process};
use super::{Agent, AgentError, PATIENCE};
use serde_json::Value;
use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

/// Unread lines of stdout. With more the agent blocks.
const LINES: usize = 1024;
/// The longest line, in bytes.
const LINE_CAP: u64 = 64 * 1024 * 1024;
/// The kept lines of stderr.
const LAST_WORDS: usize = 40;

#[derive(Debug)]
pub(super) struct AgentProcess {
    agent: Agent,
    child: Child,
    leader: i32,
    stdin: ChildStdin,
    lines: mpsc::Receiver<String>,
    stderr: Arc<Mutex<VecDeque<String>>>,
}

impl AgentProcess {
    /// Starts the command as the leader of a new process group.
    pub(super) fn spawn(agent: Agent, mut command: Command) -> Result<Self, AgentError> {
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let what = format!("start {:?}", command.as_std().get_program());
        let mut child = command.spawn().map_err(agent.io(what))?;
        let leader = child.id().and_then(|id| i32::try_from(id).ok());
        let pipes = (leader, child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(leader), Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            unreachable!("a child that was just started has an id and the three pipes asked for");
        };
        let (sender, lines) = mpsc::channel(LINES);
        tokio::spawn(each_line(stdout, async move |line| sender.send(line).await.is_ok()));
        let last_words = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&last_words);
        tokio::spawn(each_line(stderr, async move |line| {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push_back(line);
            while kept.len() > LAST_WORDS {
                kept.pop_front();
            }
            true
        }));
        Ok(Self { agent, child, leader, stdin, lines, stderr: last_words })
    }

    /// Writes one JSON line.
    pub(super) async fn say(&mut self, line: &Value) -> Result<(), AgentError> {
        self.say_within(line, PATIENCE).await
    }

    async fn say_within(&mut self, line: &Value, patience: Duration) -> Result<(), AgentError> {
        let line = format!("{line}\n");
        let agent = self.agent;
        match tokio::time::timeout(patience, self.stdin.write_all(line.as_bytes())).await {
            Ok(written) => written.map_err(agent.io("write to its stdin")),
            Err(_) => {
                Err(AgentError::Late { agent, wanted: "read of its stdin".into(), stderr: self.last_words() })
            }
        }
    }

    /// The next line. `wanted` is the expectation, for error messages.
    pub(super) async fn line(&mut self, wanted: &str) -> Result<String, AgentError> {
        let agent = self.agent;
        match tokio::time::timeout(PATIENCE, self.lines.recv()).await {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err(AgentError::Ended { agent, wanted: wanted.into(), stderr: self.last_words() }),
            Err(_) => Err(AgentError::Late { agent, wanted: wanted.into(), stderr: self.last_words() }),
        }
    }

    /// The next line as JSON.
    pub(super) async fn json(&mut self, wanted: &str) -> Result<Value, AgentError> {
        let line = self.line(wanted).await?;
        let agent = self.agent;
        turnstream_json::from_str(&line).map_err(|_| AgentError::Unexpected {
            agent,
            wanted: "a line of JSON".into(),
            said: line,
        })
    }

    /// The lines up to and including the last one.
    pub(super) async fn json_until(
        &mut self,
        wanted: &str,
        is_end: impl Fn(&Value) -> bool,
    ) -> Result<Vec<Value>, AgentError> {
        let mut lines = Vec::new();
        loop {
            lines.push(self.json(wanted).await?);
            if lines.last().is_some_and(&is_end) {
                return Ok(lines);
            }
        }
    }

    /// The end of its stderr.
    pub(super) fn last_words(&self) -> String {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        Vec::from_iter(kept.iter().map(String::as_str)).join("\n")
    }

    /// Its running processes: the agent and everything it started.
    pub(super) fn family(&self) -> Vec<Process> {
        process_tree::family(self.leader)
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        process_tree::end(&mut self.child, self.leader);
    }
}

/// Sends every line of a pipe until the pipe or the receiver ends.
async fn each_line(pipe: impl AsyncRead + Unpin, mut receive: impl AsyncFnMut(String) -> bool) {
    let mut pipe = BufReader::new(pipe);
    loop {
        let mut line = Vec::new();
        match (&mut pipe).take(LINE_CAP).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if !receive(String::from_utf8_lossy(&line).trim_end().to_owned()).await {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> AgentProcess {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        AgentProcess::spawn(Agent::Claude, command).unwrap()
    }

    #[tokio::test]
    async fn a_drop_ends_a_process_that_moved_to_another_session_and_ignores_sigterm() {
        let script = "setsid sh -c 'trap \"\" TERM; sleep 300 & echo ready; wait' & wait";
        let mut process = shell(script);
        assert_eq!(process.line("ready").await.unwrap(), "ready");
        let family = process.family();
        assert!(family.len() >= 3, "two shells and a sleep, not {family:?}");
        drop(process);
        assert_eq!(process_tree::living(&family), []);
    }

    #[tokio::test]
    async fn an_agent_that_does_not_read_is_not_written_to_for_ever() {
        let mut process = shell("sleep 300");
        let more_than_a_pipe_holds = Value::String("x".repeat(1 << 20));
        let said = process.say_within(&more_than_a_pipe_holds, Duration::from_millis(100)).await;
        assert!(matches!(said, Err(AgentError::Late { .. })), "{said:?}");
    }

    #[tokio::test]
    async fn an_agent_that_ends_is_quoted_with_its_last_words() {
        let mut process = shell("echo 'no such model' >&2; exit 3");
        let error = process.line("listening line").await.unwrap_err().to_string();
        assert!(error.contains("claude ended while the test waited for listening line"), "{error}");
        assert!(error.ends_with("no such model"), "{error}");
    }
}
