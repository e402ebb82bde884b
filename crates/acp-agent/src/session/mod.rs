//! One open session: its task follows the log of the gateway and answers the editor.

mod asks;
mod follow;
mod open;
mod prompts;
mod requests;
mod settings;
mod successor;
mod work;

pub(crate) use open::Opening;
pub(crate) use successor::{delete, successor};

use crate::Options;
use crate::capabilities::Announced;
use crate::output::{EditorGone, Output, write_response};
use crate::problem;
use agent_client_protocol_schema::v1::{Error, PromptResponse, RequestId, StopReason};
use asks::Asks;
use prompts::Prompts;
use requests::Finished;
use serde_json::Value;
use settings::Settings;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use turnstream_client::{Client, Events, Patience};
use turnstream_dialects::acp::{AcpEvent, Encoder, STREAM_ERROR};
use work::Work;

/// How many messages of the editor wait for a session.
const WAITING: usize = 64;
/// How long a request to the gateway may take after the editor has closed its side.
const LAST_REQUEST: Duration = Duration::from_secs(5);

/// What all sessions of a connection share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) options: Arc<Options>,
    pub(crate) announced: Announced,
    pub(crate) output: Output,
}

/// A message of the editor for a session.
#[derive(Debug)]
pub(crate) enum Command {
    /// `session/load` or `session/resume` of a session that is open already.
    Reopen(Opening),
    Prompt {
        id: RequestId,
        content: Value,
    },
    /// `session/cancel`
    Cancel,
    /// `$/cancel_request`
    CancelRequest(RequestId),
    SetMode {
        id: RequestId,
        mode: String,
    },
    SetOption {
        id: RequestId,
        option: String,
        value: String,
    },
    Close {
        id: RequestId,
    },
    Delete {
        id: RequestId,
    },
    /// The answer to a permission or a question.
    Answered {
        ask: String,
        outcome: Result<Value, Value>,
    },
}

/// Whether the session stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Stay,
    End,
}

/// An open session.
struct Session {
    shared: Shared,
    /// As the editor knows it.
    id: String,
    /// As the gateway knows it.
    gateway_id: String,
    settings: Settings,
    /// The MCP servers of `session/new`. They hold secrets, and are kept for a change of the agent only.
    mcp: Vec<Value>,
    encoder: Encoder,
    events: Events,
    /// What the agent works on, as far as the log was read.
    work: Work,
    prompts: Prompts,
    /// Prompts that wait until the gateway has accepted those before them, with their keys.
    unsent: VecDeque<(String, Value)>,
    is_sending: bool,
    /// Another session takes the place of this one. Messages of the editor wait until it has.
    is_changing_agent: bool,
    asks: Asks,
    /// Requests to the gateway that are under way.
    requests: JoinSet<Finished>,
    /// Since when the gateway does not answer.
    away: Option<Instant>,
    /// Buffers, kept for their capacity: messages of one event, and lines for the editor.
    messages: Vec<AcpEvent>,
    lines: Vec<u8>,
}

/// Starts the task of a session. Messages that are sent to it before it is open wait.
pub(crate) fn start(shared: Shared, id: String, opening: Opening) -> mpsc::Sender<Command> {
    let (sender, commands) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        // The editor is gone: nobody is left who could be told.
        let _ = run(shared, id, opening, commands).await;
    });
    sender
}

async fn run(
    shared: Shared,
    id: String,
    opening: Opening,
    mut commands: mpsc::Receiver<Command>,
) -> Result<(), EditorGone> {
    if let Some(session) = Session::open(shared.clone(), &id, opening).await? {
        session.run(&mut commands).await?;
    }
    // It is not open any more: what comes now, or came meanwhile, gets an answer too.
    commands.close();
    while let Some(command) = commands.recv().await {
        refuse(&shared.output, command, &id).await?;
    }
    Ok(())
}

/// Answers a message for a session that is not open.
pub(crate) async fn refuse(output: &Output, command: Command, session: &str) -> Result<(), EditorGone> {
    let refused = |id| async move { output.respond::<()>(&id, Err(problem::not_open(session))).await };
    match command {
        Command::Reopen(opening) => refused(opening.request().clone()).await,
        Command::Prompt { id, .. }
        | Command::SetMode { id, .. }
        | Command::SetOption { id, .. }
        | Command::Delete { id } => refused(id).await,
        Command::Close { id } => output.respond(&id, Ok(serde_json::json!({}))).await,
        Command::Cancel | Command::CancelRequest(_) | Command::Answered { .. } => Ok(()),
    }
}

impl Session {
    async fn run(mut self, commands: &mut mpsc::Receiver<Command>) -> Result<(), EditorGone> {
        loop {
            let waiting = self.away.zip(self.prompts.waiting_since());
            let patience = waiting.map(|(away, prompt)| away.max(prompt) + self.shared.options.patience);
            let next = tokio::select! {
                command = commands.recv(), if !self.is_changing_agent => match command {
                    Some(command) => self.command(command).await?,
                    None => Next::End,
                },
                received = self.events.next() => self.received(received).await?,
                Some(done) = self.requests.join_next(), if !self.requests.is_empty() => match done {
                    Ok(finished) => self.finished(finished).await?,
                    Err(error) => {
                        tracing::error!(%error, "a request to the gateway failed");
                        Next::Stay
                    }
                },
                () = sleep_until(patience.unwrap_or_else(Instant::now)), if patience.is_some() => {
                    self.give_up_prompts();
                    Next::Stay
                }
            };
            self.flush().await?;
            if next == Next::End {
                self.finish_requests(commands).await?;
                return self.flush().await;
            }
        }
    }

    /// The session is not followed any more. What the editor asked for is done and answered first, however
    /// long it takes, unless the editor has closed its side.
    async fn finish_requests(&mut self, commands: &mpsc::Receiver<Command>) -> Result<(), EditorGone> {
        loop {
            match timeout(LAST_REQUEST, self.requests.join_next()).await {
                Ok(None) => return Ok(()),
                Ok(Some(Ok(finished))) => drop(self.finished(finished).await?),
                Ok(Some(Err(error))) => tracing::error!(%error, "a request to the gateway failed"),
                Err(_) if commands.is_closed() => {
                    tracing::warn!("requests of the editor did not reach the gateway");
                    return Ok(());
                }
                Err(_) => {}
            }
        }
    }

    /// Answers all prompts with an error, and forgets them.
    fn fail_prompts(&mut self, why: &str) {
        self.fail_unanswered(why);
        self.prompts.take_all();
    }

    /// Answers all prompts with an error. Those that were given up are still to be cancelled.
    fn fail_unanswered(&mut self, why: &str) {
        self.unsent.clear();
        for request in self.prompts.take_unanswered() {
            write_response::<()>(&request, &Err(unreachable(why)), &mut self.lines);
        }
    }

    /// Answers the prompts for which the gateway is away for too long. They are cancelled when it is back.
    fn give_up_prompts(&mut self) {
        let (now, patience) = (Instant::now(), self.shared.options.patience);
        let away = self.away.unwrap_or(now);
        for (request, is_cancelled) in self.prompts.give_up(|since| away.max(since) + patience <= now) {
            let answer = if is_cancelled {
                Ok(PromptResponse::new(StopReason::Cancelled))
            } else {
                Err(unreachable("the gateway does not answer; the prompt is cancelled when it does"))
            };
            write_response(&request, &answer, &mut self.lines);
        }
        let prompts = &mut self.prompts;
        self.unsent.retain(|(key, _)| prompts.take_cancelled(key).is_none());
        self.ask_to_cancel();
    }

    /// Sends the lines that were written.
    async fn flush(&mut self) -> Result<(), EditorGone> {
        if self.lines.is_empty() {
            return Ok(());
        }
        self.shared.output.send(std::mem::take(&mut self.lines)).await
    }

    /// Follows the log from here. The gateway has just answered.
    fn follow(&mut self, cursor: &str) {
        self.away = None;
        self.events = self.shared.client.events(&self.gateway_id, cursor, Patience::Unlimited);
    }
}

/// The answer to a prompt of a gateway that is away.
fn unreachable(why: &str) -> Error {
    Error::new(STREAM_ERROR, why).data(serde_json::json!({"class": "unreachable"}))
}
