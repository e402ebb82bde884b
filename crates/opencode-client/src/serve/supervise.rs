//! The task that watches a server and restarts it.

use super::launch::{self, log_exit};
use super::{Launch, Record, ServeError, ServerState};
use crate::client::Client;
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use tokio::process::Child;
use tokio::sync::{oneshot, watch};
use tracing::Instrument;
use turnstream_adapter::{AgentError, Counted};
use turnstream_agent_process::{KillOnDrop, Output, Process, Started, end};
use turnstream_model::Chain;

/// How often an adopted server, which is not a child of this process, is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// A running server that is to be supervised.
pub(super) struct Supervisor {
    child: Option<Child>,
    process: Process,
    /// Kills it when the task ends without a command.
    guard: KillOnDrop,
}

/// A command of the owner of a server. An owner that is dropped without one has its server killed.
#[derive(Debug)]
pub(super) enum SupervisorCommand {
    Stop(oneshot::Sender<Result<(), ServeError>>),
    Leave(oneshot::Sender<Result<(), ServeError>>),
}

impl Supervisor {
    pub(super) fn started(started: Started) -> Self {
        let (child, process, guard) = started.keep();
        Self { child: Some(child), process, guard }
    }

    pub(super) fn adopted(process: Process, record: &Record) -> Self {
        Self { child: None, process, guard: KillOnDrop::new(record.family()) }
    }

    pub(super) fn run(
        self,
        launch: Launch,
        record: Record,
        client: Client,
        output: Output,
        commands: oneshot::Receiver<SupervisorCommand>,
    ) -> watch::Receiver<ServerState> {
        let ready = ServerState::Ready { pid: Some(self.process.id), restarts: 0 };
        let (state, receiver) = watch::channel(ready);
        let supervision = Supervision { launch, record, client, output, state, attempts: 0, restarts: 0 };
        tokio::spawn(supervision.run(self, commands));
        receiver
    }
}

struct Supervision {
    launch: Launch,
    record: Record,
    client: Client,
    output: Output,
    state: watch::Sender<ServerState>,
    /// Restarts in a row since the server last ran long enough.
    attempts: u32,
    restarts: u32,
}

impl Supervision {
    async fn run(mut self, mut server: Supervisor, mut commands: oneshot::Receiver<SupervisorCommand>) {
        loop {
            let since = Instant::now();
            let pid = server.process.id;
            let span = tracing::info_span!("agent_process", agent = %self.launch.name, pid);
            let status = tokio::select! {
                status = exit_of(&mut server).instrument(span.clone()) => status,
                command = &mut commands => {
                    return self.obey(command.ok(), Some(server)).instrument(span).await;
                }
            };
            self.client.counters().count(Counted::ServerExit);
            span.in_scope(|| log_exit(&self.launch, Some(pid), status, &self.output));
            if since.elapsed() >= self.launch.restarts.settled {
                self.attempts = 0;
            }
            let reason = format!("opencode ended; its output ends with:\n{}", self.output.tail());
            let restarted = self.restart(reason, &mut commands).await;
            server = match restarted {
                Ok(started) => {
                    // The new process has the same mark: the guard of the old one would kill it.
                    server.guard.disarm();
                    Supervisor::started(started)
                }
                Err(Interrupted(command)) => return self.obey(command, Some(server)).await,
            };
            self.restarts += 1;
            let pid = Some(server.process.id);
            self.state.send_replace(ServerState::Ready { pid, restarts: self.restarts });
        }
    }

    /// Restarts the server until it is ready. Returns the command of the owner if one comes first; a server
    /// that was given up waits for it.
    async fn restart(
        &mut self,
        mut reason: String,
        commands: &mut oneshot::Receiver<SupervisorCommand>,
    ) -> Result<Started, Interrupted> {
        loop {
            let agent = self.launch.name.clone();
            if self.attempts == self.launch.restarts.attempts {
                tracing::error!(
                    %agent, tries = self.attempts,
                    "opencode ended too often and is not restarted"
                );
                self.state.send_replace(ServerState::GaveUp { reason });
                // If this fails, the owner learns of it when it stops the server.
                if let Err(error) = end(&self.record, self.launch.grace).await {
                    tracing::warn!(%agent, error = %Chain(&error), "cannot end what is left of opencode");
                }
                return Err(Interrupted(commands.await.ok()));
            }
            self.attempts += 1;
            let attempt = self.attempts;
            tracing::info!(%agent, tries = attempt, pause = ?self.pause(), "restarting opencode");
            self.state.send_replace(ServerState::Restarting { attempt, reason });
            let restarted = tokio::select! {
                restarted = self.restart_once() => restarted,
                command = &mut *commands => return Err(Interrupted(command.ok())),
            };
            match restarted {
                Ok(started) => return Ok(started),
                Err(error) => {
                    let shown = error.for_log();
                    tracing::warn!(%agent, tries = attempt, error = %shown, "opencode could not be restarted");
                    reason = error.to_string();
                }
            }
        }
    }

    /// Ends what the dead server left before it starts a new one: it may hold the port, or use the same
    /// files.
    async fn restart_once(&mut self) -> Result<Started, ServeError> {
        tokio::time::sleep(self.pause()).await;
        end(&self.record, self.launch.grace).await?;
        launch::launch(&self.launch, &mut self.record, &self.client, &self.output).await
    }

    fn pause(&self) -> Duration {
        let restarts = &self.launch.restarts;
        let doubled = restarts.first_pause.saturating_mul(1 << (self.attempts - 1).min(20));
        doubled.min(restarts.longest_pause)
    }

    async fn obey(self, command: Option<SupervisorCommand>, mut server: Option<Supervisor>) {
        let agent = self.launch.name.clone();
        match command {
            // The owner was dropped and does not wait: the guard kills the server.
            None => tracing::info!(%agent, "opencode is killed: its owner is gone"),
            Some(SupervisorCommand::Leave(done)) => {
                server.iter_mut().for_each(|server| server.guard.disarm());
                tracing::info!(%agent, "opencode is left running");
                reply(&agent, done, Ok(()));
            }
            Some(SupervisorCommand::Stop(done)) => {
                let ended = end(&self.record, self.launch.grace).await;
                if ended.is_ok() {
                    server.iter_mut().for_each(|server| server.guard.disarm());
                }
                let ended = ended.and_then(|()| Record::remove(&self.launch.record()));
                if ended.is_ok() {
                    tracing::info!(%agent, "opencode stopped");
                }
                self.state.send_replace(ServerState::Stopped);
                reply(&agent, done, ended.map_err(ServeError::from));
            }
        }
        // Kept until here: no other process can get its id before it is waited for.
        drop(server);
    }
}

/// A command of the owner came first; `None` if the owner is gone.
struct Interrupted(Option<SupervisorCommand>);

/// The owner logs a failure. If it has stopped waiting for the result, nobody else does.
fn reply(agent: &str, done: oneshot::Sender<Result<(), ServeError>>, result: Result<(), ServeError>) {
    if let Err(Err(error)) = done.send(result) {
        tracing::error!(agent, error = %Chain(&error), "cannot stop opencode");
    }
}

/// Waits until the server has ended. The status of an adopted server is not known.
async fn exit_of(server: &mut Supervisor) -> Option<ExitStatus> {
    loop {
        match &mut server.child {
            Some(child) => {
                if let Ok(waited) = tokio::time::timeout(CHECK_INTERVAL * 20, child.wait()).await {
                    match waited {
                        Ok(status) => return Some(status),
                        Err(error) => {
                            tracing::warn!(%error, "cannot wait for opencode; checking its process instead");
                            if !server.process.is_alive() {
                                return None;
                            }
                        }
                    }
                    server.child = None;
                }
            }
            None => {
                tokio::time::sleep(CHECK_INTERVAL).await;
                if !server.process.is_alive() {
                    return None;
                }
            }
        }
    }
}
