//! The adapter task of one link: takes commands, and works on one turn after the other.

use super::agent::Shared;
use super::history::{History, end_signal};
use super::journal::{End, Journal, Record};
use super::tools::Shell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc;
use turnstream_adapter::{Command, LinkEnd, Observer, OpenWork, WorkingDirectory};
use turnstream_model::attempts::Spent;
use turnstream_model::event::{ApprovalOutcome, ErrorClass, Permissions, TurnError};
use turnstream_model::id::{Key, SessionId};
use turnstream_model::signal::{Need, ProbedStatus, Signal};

/// One session, while a link is up.
pub(super) struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) id: SessionId,
    pub(super) cwd: WorkingDirectory,
    pub(super) shell: Shell,
    /// The model that was chosen for the session.
    pub(super) model: Option<String>,
    /// Every call is refused. The keeper does that, so it must hear of each.
    pub(super) denies: bool,
    pub(super) journal: Journal,
    pub(super) history: History,
    pub(super) observer: Observer,
    pub(super) inbox: mpsc::UnboundedReceiver<Command>,
    /// Turns that are still to be worked on.
    pub(super) queue: VecDeque<String>,
    /// The turn that is being worked on.
    pub(super) running: Option<String>,
    /// Answers of people that were not used yet.
    pub(super) answers: HashMap<Key, Answer>,
    /// The number of the last attempt of the turn.
    pub(super) attempts: u32,
    /// What the retries of the turn have used up.
    pub(super) spent: Spent,
    /// The turn was open when the link was made, and its last model call may be in the log.
    pub(super) is_resumed: bool,
}

/// An answer to a permission.
pub(super) struct Answer {
    pub(super) outcome: ApprovalOutcome,
    pub(super) message: Option<String>,
}

/// Why work stops.
pub(super) enum Stop {
    /// The turn ends like this.
    End(End),
    /// The keeper cancelled the turn.
    Cancelled,
    /// The agent cannot go on.
    Crash(TurnError),
    /// The link has ended.
    Over,
}

/// The result of a part of the work.
pub(super) type Worked<T = ()> = Result<T, Stop>;

impl From<LinkEnd> for Stop {
    fn from(LinkEnd: LinkEnd) -> Self {
        Self::Over
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        let message = format!("the built-in agent cannot write its journal, so it stops: {error}");
        Self::Crash(TurnError::new(ErrorClass::AgentExited, message))
    }
}

/// Runs a session. Commands are received at once, so that keeper and agent never wait for each other.
pub(super) async fn adapt(
    session: impl FnOnce(mpsc::UnboundedReceiver<Command>, Observer) -> Session,
    open_work: Option<OpenWork>,
    mut commands: mpsc::Receiver<Command>,
    observer: Observer,
) {
    let (forward, inbox) = mpsc::unbounded_channel();
    let session = session(inbox, observer);
    let taking = async {
        while let Some(command) = commands.recv().await {
            if forward.send(command).is_err() {
                return;
            }
        }
        // The session notices that no command can come any more, and ends what it runs.
        drop(forward);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = taking => {}
        () = session.run(open_work) => {}
    }
}

impl Session {
    async fn run(mut self, open_work: Option<OpenWork>) {
        let stop = match self.recover(open_work).await {
            Ok(()) => self.work_on().await,
            stopped => stopped,
        };
        if let Err(Stop::Crash(error)) = stop {
            tracing::warn!(class = error.class.as_str(), "the built-in agent stops");
            if let Err(LinkEnd) = self.observer.signal(Signal::LinkLost(error)).await {
                tracing::debug!("the keeper has already dropped the link");
            }
        }
    }

    /// Works until the link ends.
    async fn work_on(&mut self) -> Worked {
        loop {
            match self.queue.pop_front() {
                Some(turn) => self.turn(turn).await?,
                None => {
                    let command = self.inbox.recv().await.ok_or(Stop::Over)?;
                    self.handle(command).await?;
                }
            }
        }
    }

    /// Works on a turn to its end.
    async fn turn(&mut self, turn: String) -> Worked {
        self.running = Some(turn.clone());
        self.spent = Spent::default();
        let end = match self.work(&turn).await {
            Ok(stop) => End::Completed(stop),
            Err(Stop::End(end)) => end,
            Err(Stop::Cancelled) => End::Cancelled,
            Err(stop @ (Stop::Crash(_) | Stop::Over)) => return Err(stop),
        };
        self.running = None;
        self.is_resumed = false;
        self.attempts = 0;
        self.answers.clear();
        let mut signals = self.history.not_run(&turn);
        signals.push(end_signal(&turn, &end));
        self.note(Record::Ended { turn, end }).await?;
        for signal in signals {
            self.signal(signal).await?;
        }
        Ok(())
    }

    /// Adds a record. It is durable when this returns.
    pub(super) async fn note(&mut self, record: Record) -> Worked {
        self.journal.note(&record).await?;
        self.history.apply(record);
        Ok(())
    }

    pub(super) async fn signal(&self, signal: Signal) -> Worked {
        Ok(self.observer.signal(signal).await?)
    }

    /// Waits for something, and handles commands meanwhile. A cancel or the end of the link stops the wait.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> Worked<T> {
        let mut work = std::pin::pin!(work);
        loop {
            let command = tokio::select! {
                // A cancel counts before what has just come.
                biased;
                command = self.inbox.recv() => command.ok_or(Stop::Over)?,
                done = &mut work => return Ok(done),
            };
            self.handle(command).await?;
        }
    }

    pub(super) async fn handle(&mut self, command: Command) -> Worked {
        match command {
            Command::Prompt { native_id, content } => {
                // A repeated prompt is not run again.
                if self.history.turn(&native_id).is_none() {
                    self.note(Record::Prompt { id: native_id.clone(), content }).await?;
                    turnstream_failpoint::reach("builtin.prompt");
                    self.queue.push_back(native_id);
                }
                Ok(())
            }
            Command::Cancel if self.running.is_some() => Err(Stop::Cancelled),
            Command::Cancel => Ok(()),
            Command::CancelPrompt(native_id) => self.cancel_prompt(native_id).await,
            Command::Approve { key, outcome, option: _, message } => {
                self.answers.insert(key, Answer { outcome, message });
                Ok(())
            }
            // It asks no questions.
            Command::Answer { .. } => Ok(()),
            Command::Change { model, mode: _, permissions } => {
                self.model = model.or(self.model.take());
                self.denies = permissions.map_or(self.denies, |rule| rule == Permissions::Deny);
                Ok(())
            }
            Command::Fetch(need) => {
                let answer = match need {
                    // Every item is introduced before anything else is said of it.
                    Need::Item(key) => Signal::ItemRemoved(key),
                    Need::StatusProbe(turn) => {
                        let status =
                            if self.running.is_some() { ProbedStatus::Busy } else { ProbedStatus::Idle };
                        Signal::StatusProbed { turn, status }
                    }
                };
                self.signal(answer).await
            }
        }
    }

    /// Stops a prompt that had no turn in the log.
    async fn cancel_prompt(&mut self, native_id: String) -> Worked {
        if self.running.as_ref() == Some(&native_id) {
            return Err(Stop::Cancelled);
        }
        let waiting = self.queue.len();
        self.queue.retain(|turn| *turn != native_id);
        if self.queue.len() < waiting {
            self.note(Record::Ended { turn: native_id.clone(), end: End::Cancelled }).await?;
        }
        let error = TurnError::new(ErrorClass::Cancelled, "the prompt was cancelled before it was run");
        self.signal(Signal::PromptRefused { native_id, error }).await
    }
}
