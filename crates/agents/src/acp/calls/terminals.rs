//! `terminal/*`: commands that the agent lets the gateway run. They end with the agent's process.

use super::{NOT_FOUND, bad_params, done, failed, files, path_error, required};
use crate::acp::wire::{RpcError, text};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use turnstream_adapter::WorkingDirectory;
use turnstream_agent_process::{INHERITED, MARK, with_user_umask};

/// The most output that is kept, if the agent names no limit or a larger one.
const MOST_OUTPUT: usize = 1 << 20;
/// The most terminals at the same time.
const MOST_TERMINALS: usize = 64;
/// How long the output of a command may come after its end.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// The terminals of one agent. Dropping it kills their commands.
pub(super) struct Terminals {
    root: WorkingDirectory,
    env: Vec<(OsString, OsString)>,
    mark: String,
    made: u64,
    open: HashMap<String, Terminal>,
    /// The commands that were started since the last look.
    started: Vec<u32>,
}

/// One command.
struct Terminal {
    group: Option<Pid>,
    output: Arc<Mutex<Output>>,
    exit: watch::Receiver<Option<ExitStatus>>,
}

/// The end of what a command has printed.
struct Output {
    bytes: Vec<u8>,
    limit: usize,
    truncated: bool,
}

// === impl Terminals ===

impl Terminals {
    pub(super) fn new(root: WorkingDirectory, env: Vec<(OsString, OsString)>, mark: &str) -> Self {
        Self { root, env, mark: mark.to_owned(), made: 0, open: HashMap::new(), started: Vec::new() }
    }

    pub(super) fn create(&mut self, params: &Map<String, Value>) -> Result<Value, RpcError> {
        if self.open.len() >= MOST_TERMINALS {
            return Err(bad_params(format!("{MOST_TERMINALS} terminals are open; release one first")));
        }
        let mut command = self.command(params)?;
        let mut child = with_user_umask(|| command.spawn()).map_err(|error| failed(&error))?;
        let limit = params.get("outputByteLimit").and_then(Value::as_u64).unwrap_or(u64::MAX);
        let limit = usize::try_from(limit).map_or(MOST_OUTPUT, |limit| limit.min(MOST_OUTPUT));
        let output = Arc::new(Mutex::new(Output { bytes: Vec::new(), limit, truncated: false }));
        let (sender, exit) = watch::channel(None);
        self.started.extend(child.id());
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        tokio::spawn(run(child_pipes(&mut child), child, Arc::clone(&output), sender));
        self.made += 1;
        let id = format!("terminal-{}", self.made);
        self.open.insert(id.clone(), Terminal { group, output, exit });
        Ok(json!({"terminalId": id}))
    }

    /// The process ids of the commands that were started since the last call.
    pub(super) fn take_started(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.started)
    }

    /// The command of a request. Without arguments it is a line for a shell: agents send both.
    fn command(&self, params: &Map<String, Value>) -> Result<Command, RpcError> {
        let program = required(params, "command")?;
        let list = |name: &str| params.get(name).and_then(Value::as_array).into_iter().flatten();
        let args: Vec<&str> = list("args").filter_map(Value::as_str).collect();
        let mut command = if args.is_empty() {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", program]);
            shell
        } else {
            let mut command = Command::new(program);
            command.args(args);
            command
        };
        let cwd = text(params, "cwd").map_or(self.root.path(), Path::new);
        let at = |error| path_error("work in", &cwd.display().to_string(), &error);
        let directory = WorkingDirectory::open(cwd).map_err(at)?;
        files::check(&self.root, &directory).map_err(at)?;
        command.current_dir(directory.path()).env_clear();
        let inherited = INHERITED.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.envs(inherited).envs(self.env.iter().map(|(name, value)| (name, value)));
        for variable in list("env") {
            if let (Some(name), Some(value)) = (variable["name"].as_str(), variable["value"].as_str()) {
                if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                    return Err(bad_params("a member of \"env\" names no variable"));
                }
                command.env(name, value);
            }
        }
        command.env(MARK, &self.mark).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    pub(super) fn output(&self, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let terminal = self.find(params)?;
        let exit = *terminal.exit.borrow();
        let output = terminal.output();
        let mut answer = json!({"output": output.text(), "truncated": output.truncated});
        if let (Some(members), Some(status)) = (answer.as_object_mut(), exit) {
            members.insert("exitStatus".to_owned(), exit_status(status));
        }
        Ok(answer)
    }

    /// Waits for the end of a command.
    pub(super) fn exit(
        &self,
        params: &Map<String, Value>,
    ) -> Result<impl Future<Output = Value> + use<>, RpcError> {
        let mut exit = self.find(params)?.exit.clone();
        Ok(async move {
            // The task that waits for the command may have ended with its runtime.
            let status = exit.wait_for(Option::is_some).await.ok().and_then(|status| *status);
            status.map_or_else(|| json!({"exitCode": null, "signal": "KILL"}), exit_status)
        })
    }

    pub(super) fn kill(&self, params: &Map<String, Value>) -> Result<Value, RpcError> {
        self.find(params)?.kill();
        Ok(done())
    }

    pub(super) fn release(&mut self, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let id = required(params, "terminalId")?;
        // Dropping it kills its command.
        self.open.remove(id).map(|_| done()).ok_or_else(|| unknown(id))
    }

    fn find(&self, params: &Map<String, Value>) -> Result<&Terminal, RpcError> {
        let id = required(params, "terminalId")?;
        self.open.get(id).ok_or_else(|| unknown(id))
    }
}

fn unknown(id: &str) -> RpcError {
    RpcError { code: NOT_FOUND, message: format!("there is no terminal {id:?}"), data: None }
}

// === impl Terminal ===

impl Terminal {
    fn output(&self) -> MutexGuard<'_, Output> {
        // The bytes are whole also after a panic of their holder.
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills the command with its group, unless it has ended: then its id may be another process's.
    fn kill(&self) {
        if let Some(group) = self.group.filter(|_| self.exit.borrow().is_none())
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            tracing::debug!(%error, "a terminal's command has ended by itself");
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.kill();
    }
}

// === impl Output ===

impl Output {
    fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        let more = self.bytes.len().saturating_sub(self.limit);
        if more > 0 {
            // From the beginning, and not inside of a character.
            let is_inside = |byte: &u8| byte & 0xC0 == 0x80;
            let inside = self.bytes[more..].iter().take_while(|byte| is_inside(byte)).count();
            self.bytes.drain(..more + inside);
            self.truncated = true;
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

type Pipe = Box<dyn AsyncRead + Send + Unpin>;

fn child_pipes(child: &mut Child) -> Vec<Pipe> {
    let out = child.stdout.take().map(|pipe| Box::new(pipe) as Pipe);
    let err = child.stderr.take().map(|pipe| Box::new(pipe) as Pipe);
    out.into_iter().chain(err).collect()
}

/// Reads what a command prints until it has ended.
async fn run(
    pipes: Vec<Pipe>,
    mut child: Child,
    output: Arc<Mutex<Output>>,
    exit: watch::Sender<Option<ExitStatus>>,
) {
    let readers: Vec<_> = pipes
        .into_iter()
        .map(|mut pipe| {
            let output = Arc::clone(&output);
            tokio::spawn(async move {
                let mut piece = [0; 8192];
                while let Ok(bytes @ 1..) = pipe.read(&mut piece).await {
                    output.lock().unwrap_or_else(PoisonError::into_inner).push(&piece[..bytes]);
                }
            })
        })
        .collect();
    let status = child.wait().await.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot wait for a terminal's command");
        ExitStatus::from_raw(1 << 8)
    });
    let all = async {
        for reader in readers {
            // A reader does not panic, and is not aborted.
            let _ended = reader.await;
        }
    };
    if tokio::time::timeout(LAST_WORDS, all).await.is_err() {
        tracing::debug!("something holds the output of a terminal's command");
    }
    exit.send_replace(Some(status));
}

fn exit_status(status: ExitStatus) -> Value {
    let signal = status.signal().map(|signal| signal.to_string());
    json!({"exitCode": status.code(), "signal": signal})
}

#[cfg(test)]
mod tests {
    use super::Terminals;
    use serde_json::{Map, Value, json};
    use turnstream_adapter::WorkingDirectory;

    fn params(params: Value) -> Map<String, Value> {
        params.as_object().unwrap().clone()
    }

    #[tokio::test]
    async fn a_command_runs_in_the_working_directory_and_its_output_and_exit_are_told() {
        let home = tempfile::tempdir().unwrap();
        let root = WorkingDirectory::open(home.path()).unwrap();
        let mut terminals = Terminals::new(root.clone(), vec![("FROM_AGENT".into(), "a".into())], "mark");
        let env = json!([{"name": "MORE", "value": "b"}]);
        let line = "pwd; echo $FROM_AGENT$MORE$TURNSTREAM_AGENT; echo wrong >&2; exit 3";
        let made = terminals.create(&params(json!({"command": line, "env": env}))).unwrap();
        let exit = terminals.exit(&params(made.clone())).unwrap().await;
        assert_eq!(exit, json!({"exitCode": 3, "signal": null}));
        let answer = terminals.output(&params(made.clone())).unwrap();
        let output = answer["output"].as_str().unwrap();
        let path = root.path().display().to_string();
        assert!(output.contains(&path) && output.contains("abmark\n") && output.contains("wrong\n"));
        assert_eq!(answer["truncated"], false);
        assert_eq!(answer["exitStatus"]["exitCode"], 3);
        terminals.release(&params(made.clone())).unwrap();
        assert_eq!(terminals.output(&params(made)).unwrap_err().code, -32002);
    }

    #[tokio::test]
    async fn a_command_with_arguments_is_no_shell_line_and_its_output_is_bounded() {
        let home = tempfile::tempdir().unwrap();
        let mut terminals = Terminals::new(WorkingDirectory::open(home.path()).unwrap(), Vec::new(), "mark");
        let made = terminals
            .create(&params(json!({"command": "echo", "args": ["$HOME ééé"], "outputByteLimit": 4})))
            .unwrap();
        terminals.exit(&params(made.clone())).unwrap().await;
        let answer = terminals.output(&params(made)).unwrap();
        assert_eq!((answer["output"].as_str(), answer["truncated"].as_bool()), (Some("é\n"), Some(true)));
    }

    #[tokio::test]
    async fn a_killed_command_and_one_outside_of_the_root() {
        let home = tempfile::tempdir().unwrap();
        let mut terminals = Terminals::new(WorkingDirectory::open(home.path()).unwrap(), Vec::new(), "mark");
        let made = terminals.create(&params(json!({"command": "sleep 3600"}))).unwrap();
        terminals.kill(&params(made.clone())).unwrap();
        let exit = terminals.exit(&params(made)).unwrap().await;
        assert_eq!(exit, json!({"exitCode": null, "signal": "9"}));
        let refused = terminals.create(&params(json!({"command": "true", "cwd": "/"}))).unwrap_err();
        assert!(refused.message.contains("outside of the session's directory"), "{}", refused.message);
    }
}
