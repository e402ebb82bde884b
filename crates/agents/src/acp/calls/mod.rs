//! Serves the agent's requests for files and terminals, below the working directory of the session. The agent
//! sees the files on disk: a text that a person has not saved in an editor is not known here.

mod files;
mod terminals;

use super::conversation::Call;
use super::wire::{RpcError, text};
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use terminals::Terminals;
use tokio::sync::{Semaphore, mpsc};
use turnstream_adapter::WorkingDirectory;

/// JSON-RPC: there is no such method.
const NO_METHOD: i64 = -32601;
/// JSON-RPC: the parameters cannot be used.
const BAD_PARAMS: i64 = -32602;
/// JSON-RPC: the gateway failed.
const INTERNAL: i64 = -32603;
/// ACP: there is no such file or terminal.
const NOT_FOUND: i64 = -32002;

/// Answers that may wait for the link. Each may hold a whole file.
const ANSWERS: usize = 4;
/// File calls that are served at once.
const FILES_AT_ONCE: usize = 4;
/// File calls that may wait. An agent that sends more does not read its answers.
const FILES_WAITING: usize = 1_000;

/// The answer to a call, with the id of its request.
pub(super) type Answer = (Value, Result<Value, RpcError>);

/// The calls of one process. Dropping it ends its terminals.
pub(super) struct Calls {
    root: WorkingDirectory,
    terminals: Terminals,
    at_once: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    sender: mpsc::Sender<Answer>,
    answers: mpsc::Receiver<Answer>,
}

impl Calls {
    /// Calls below this directory. Terminals have these variables, and the mark of the agent's processes.
    pub(super) fn new(root: WorkingDirectory, env: Vec<(OsString, OsString)>, mark: &str) -> Self {
        let (sender, answers) = mpsc::channel(ANSWERS);
        Self {
            terminals: Terminals::new(root.clone(), env, mark),
            root,
            at_once: Arc::new(Semaphore::new(FILES_AT_ONCE)),
            waiting: Arc::new(Semaphore::new(FILES_WAITING)),
            sender,
            answers,
        }
    }

    /// Begins to serve a call. Its answer comes from [`Calls::next_answer`].
    pub(super) fn serve(&mut self, call: Call) {
        let Call { id, method, params } = call;
        let (sender, root) = (self.sender.clone(), self.root.clone());
        let answer: Result<Value, RpcError> = match method.as_str() {
            "fs/read_text_file" | "fs/write_text_file" => match self.waiting.clone().try_acquire_owned() {
                Ok(place) => {
                    let at_once = self.at_once.clone();
                    tokio::spawn(async move {
                        let (_place, _turn) = (place, at_once.acquire_owned().await);
                        let served =
                            tokio::task::spawn_blocking(move || files::serve(&root, &method, &params));
                        let answer = served.await.unwrap_or_else(|error| Err(failed(&error)));
                        // The link may have ended meanwhile.
                        let _gone = sender.send((id, answer)).await;
                    });
                    return;
                }
                Err(_) => Err(failed(&format!("{FILES_WAITING} requests for files wait already"))),
            },
            "terminal/wait_for_exit" => match self.terminals.exit(&params) {
                Ok(exit) => {
                    tokio::spawn(async move {
                        let answer = Ok(exit.await);
                        let _gone = sender.send((id, answer)).await;
                    });
                    return;
                }
                Err(error) => Err(error),
            },
            "terminal/create" => self.terminals.create(&params),
            "terminal/output" => self.terminals.output(&params),
            "terminal/kill" => self.terminals.kill(&params),
            "terminal/release" => self.terminals.release(&params),
            _ => Err(RpcError {
                code: NO_METHOD,
                message: format!("there is no method {method:?}"),
                data: None,
            }),
        };
        tokio::spawn(async move {
            let _gone = sender.send((id, answer)).await;
        });
    }

    /// The process ids of the commands that terminals have started since the last call.
    pub(super) fn take_started(&mut self) -> Vec<u32> {
        self.terminals.take_started()
    }

    /// The next answer. Safe to drop and call again.
    pub(super) async fn next_answer(&mut self) -> Answer {
        match self.answers.recv().await {
            Some(answer) => answer,
            // Never: this holds a sender.
            None => std::future::pending().await,
        }
    }
}

fn bad_params(message: impl Into<String>) -> RpcError {
    RpcError { code: BAD_PARAMS, message: message.into(), data: None }
}

fn failed(error: &dyn std::fmt::Display) -> RpcError {
    RpcError { code: INTERNAL, message: error.to_string(), data: None }
}

/// An error about a path.
fn path_error(what: &str, path: &str, error: &io::Error) -> RpcError {
    let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { INTERNAL };
    RpcError { code, message: format!("cannot {what} {path}: {error}"), data: None }
}

/// A member that must be there.
fn required<'a>(params: &'a Map<String, Value>, name: &str) -> Result<&'a str, RpcError> {
    text(params, name).ok_or_else(|| bad_params(format!("{name:?} is missing, or is no text")))
}

/// An answer that says nothing.
fn done() -> Value {
    json!({})
}
