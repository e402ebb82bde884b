//! The task that watches a server and starts it again.

use super::launch::{self, Started};
use super::output::Output;
use super::processes::{Family, Process};
use super::record::Record;
use super::{Launch, ServeError, ServerState, pipe};
use crate::counts::Counted;
use crate::opencode::client::Client;
use std::time::{Duration, Instant};
use tokio::process::Child;
use tokio::sync::{oneshot, watch};

/// How often a server that is not our child is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// The server to begin with.
pub(super) struct Supervisor {
    child: Option<Child>,
    process: Process,
}

/// What the owner of a server tells its supervisor. Being dropped untold means: kill it.
#[derive(Debug)]
pub(super) enum Order {
    Stop(oneshot::Sender<Result<(), ServeError>>),
    Leave(oneshot::Sender<Result<(), ServeError>>),
}

impl Supervisor {
    pub(super) fn started(started: Started) -> Self {
        Self { child: Some(started.child), process: started.process }
    }

    pub(super) fn adopted(process: Process) -> Self {
        Self { child: None, process }
    }

    pub(super) fn run(
        self,
        launch: Launch,
        record: Record,
        client: Client,
        output: Output,
        orders: oneshot::Receiver<Order>,
    ) -> watch::Receiver<ServerState> {
        let ready = ServerState::Ready { pid: Some(self.process.id), restarts: 0 };
        let (state, receiver) = watch::channel(ready);
        let guard = Guard { family: Some(record.family()) };
        let watching = Watching { launch, record, client, output, state, guard, attempts: 0, restarts: 0 };
        tokio::spawn(watching.run(self, orders));
        receiver
    }
}

/// Kills the family when the task goes without having been told what to do with it.
struct Guard {
    family: Option<Family>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(family) = &self.family {
            family.kill();
            pipe::remove(&family.mark);
        }
    }
}

struct Watching {
    launch: Launch,
    record: Record,
    client: Client,
    output: Output,
    state: watch::Sender<ServerState>,
    guard: Guard,
    /// Starts in a row that did not last.
    attempts: u32,
    restarts: u32,
}

impl Watching {
    async fn run(mut self, mut server: Supervisor, mut orders: oneshot::Receiver<Order>) {
        loop {
            let since = Instant::now();
            tokio::select! {
                () = ended(&mut server) => {}
                order = &mut orders => return self.obey(order.ok(), server.child).await,
            }
            self.client.counters().count(Counted::ServerExit);
            if since.elapsed() >= self.launch.restarts.settled {
                self.attempts = 0;
            }
            let mut reason = format!("opencode ended; its output ends with:\n{}", self.output.tail());
            server = loop {
                if self.attempts == self.launch.restarts.attempts {
                    self.state.send_replace(ServerState::GaveUp { reason });
                    // What cannot be ended now is told of when the owner stops it.
                    let _ = super::end(&self.record, self.launch.grace).await;
                    let order = orders.await;
                    return self.obey(order.ok(), None).await;
                }
                self.attempts += 1;
                self.state.send_replace(ServerState::Restarting { attempt: self.attempts, reason });
                let restarted = tokio::select! {
                    restarted = self.restart() => restarted,
                    order = &mut orders => return self.obey(order.ok(), None).await,
                };
                match restarted {
                    Ok(started) => break Supervisor::started(started),
                    Err(error) => reason = error.to_string(),
                }
            };
            self.restarts += 1;
            self.guard.family = Some(self.record.family());
            let pid = Some(server.process.id);
            self.state.send_replace(ServerState::Ready { pid, restarts: self.restarts });
        }
    }

    /// What the dead one left is ended first: it may hold the port, or work on in the same files.
    async fn restart(&mut self) -> Result<Started, ServeError> {
        tokio::time::sleep(self.pause()).await;
        super::end(&self.record, self.launch.grace).await?;
        launch::launch(&self.launch, &mut self.record, &self.client, &self.output).await
    }

    fn pause(&self) -> Duration {
        let restarts = &self.launch.restarts;
        let doubled = restarts.first_pause.saturating_mul(1 << (self.attempts - 1).min(20));
        doubled.min(restarts.longest_pause)
    }

    async fn obey(mut self, order: Option<Order>, child: Option<Child>) {
        match order {
            // The guard kills; whoever dropped the server does not wait.
            None => {}
            Some(Order::Leave(done)) => {
                self.guard.family = None;
                let _ = done.send(Ok(()));
            }
            Some(Order::Stop(done)) => {
                let ended = super::end(&self.record, self.launch.grace).await;
                if ended.is_ok() {
                    self.guard.family = None;
                }
                let ended = ended.and_then(|()| Record::remove(&self.launch.state));
                self.state.send_replace(ServerState::Stopped);
                let _ = done.send(ended);
            }
        }
        // Kept until here: while it is not waited for, nobody else can be given its id.
        drop(child);
    }
}

/// Returns when the server is no more.
async fn ended(server: &mut Supervisor) {
    loop {
        match &mut server.child {
            Some(child) => {
                if let Ok(waited) = tokio::time::timeout(LOOK * 20, child.wait()).await {
                    // Only a wait that fails says nothing; then the process itself is looked at.
                    if waited.is_ok() || !server.process.is_alive() {
                        return;
                    }
                    server.child = None;
                }
            }
            None => {
                tokio::time::sleep(LOOK).await;
                if !server.process.is_alive() {
                    return;
                }
            }
        }
    }
}
