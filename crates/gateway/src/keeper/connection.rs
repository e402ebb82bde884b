//! The link to the agent: made when there is something to say, and put away by force if need be.

use super::commit::Work;
use super::{Gone, Keeper};
use crate::redactor::still_a_name;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use turnstream_agents::{Command, ConnectError, Known, Link, Observed, OpenWork, Start};
use turnstream_log::Log;
use turnstream_model::event::{ErrorClass, Permissions, TurnError};
use turnstream_model::id::{PromptId, SessionId};
use turnstream_model::signal::{Ending, Signal};

/// How long an adapter may leave a command unread; then it does not work, and the deadlines of the turn decide.
const UNREAD: Duration = Duration::from_secs(1);

/// How much longer than it may an agent can take to say why there is no link; then it is not waited for.
const LATE: Duration = Duration::from_millis(500);

/// Where the link stands.
pub(super) enum Connection {
    Down,
    Making(Making),
    Up(Link),
}

/// A link that is being made. Dropped, it is given up.
pub(super) struct Making {
    task: JoinHandle<Result<Link, ConnectError>>,
    pub(super) deadline: Instant,
}

impl Drop for Making {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whether links are ending. Cloning shares it.
#[derive(Clone, Default)]
pub(super) struct Farewell(Option<watch::Receiver<()>>);

impl Farewell {
    /// Returns when they have.
    pub(super) async fn over(self) {
        if let Some(mut last) = self.0 {
            while last.changed().await.is_ok() {}
        }
    }
}

/// What came from the agent's side.
pub(super) enum News {
    /// The link is there, or cannot be made.
    Made(Result<Link, TurnError>),
    /// The agent said something.
    Observed(Observed),
    /// The adapter ended.
    Ended,
}

impl Connection {
    pub(super) fn is_down(&self) -> bool {
        matches!(self, Self::Down)
    }

    /// The next news; never any while it is down. Safe to drop and call again.
    pub(super) async fn news(&mut self) -> News {
        match self {
            Self::Down => std::future::pending().await,
            Self::Making(making) => {
                let made = (&mut making.task).await;
                let made = made.unwrap_or_else(|error| {
                    let problem = format!("its adapter failed: {error}");
                    Err(ConnectError::Unavailable { agent: "this agent".to_owned(), problem })
                });
                News::Made(made.map_err(|error| class_of(&error)))
            }
            Self::Up(link) => link.observe().await.map_or(News::Ended, News::Observed),
        }
    }

    /// News that is already there.
    pub(super) async fn waiting(&mut self) -> Option<News> {
        match self {
            Self::Up(link) => link.try_observe().map(News::Observed),
            Self::Making(making) if making.task.is_finished() => Some(self.news().await),
            Self::Down | Self::Making(_) => None,
        }
    }

    /// Tells the agent something, if there is a way to it.
    pub(super) async fn tell(&self, command: Command) -> bool {
        match self {
            Self::Up(link) => timeout(UNREAD, link.tell(command)).await.unwrap_or(false),
            Self::Down | Self::Making(_) => false,
        }
    }

    /// Ends the link in good order, or by force after the deadline.
    pub(super) async fn close(self, deadline: Duration) {
        match self {
            Self::Down => {}
            Self::Up(link) => link.stop(deadline).await,
            Self::Making(mut making) => {
                making.task.abort();
                // It may have been made a moment before.
                if let Ok(Ok(link)) = (&mut making.task).await {
                    link.stop(deadline).await;
                }
            }
        }
    }
}

/// What the log has of the agent's session. Without it the agent has nothing to compare with.
async fn known(log: Log, id: SessionId) -> Known {
    let read = tokio::task::spawn_blocking(move || log.snapshot(&id)).await;
    read.ok().and_then(Result::ok).map(|snapshot| Known::of(&snapshot.state)).unwrap_or_default()
}

fn class_of(error: &ConnectError) -> TurnError {
    let (class, status) = match error {
        ConnectError::Unavailable { .. } => (ErrorClass::Unreachable, None),
        ConnectError::Unauthorized { status, .. } => (ErrorClass::Auth, *status),
        ConnectError::Forgotten { .. } => (ErrorClass::AgentError, None),
    };
    let mut turn_error = TurnError::new(class, error.to_string());
    turn_error.status = status;
    turn_error
}

impl Keeper {
    /// Sends what can be sent, and makes a link if that is what is missing.
    pub(super) async fn advance(&mut self) -> Result<(), Gone> {
        if self.recovery.is_some() {
            self.clocks.reach = None;
            return Ok(());
        }
        self.settle_unknown().await?;
        let Some(prompt) = self.machine.next_prompt() else {
            self.clocks.reach = None;
            return Ok(());
        };
        match &self.connection {
            Connection::Up(_) if self.away.is_some() => {
                self.wait_for_agent(&prompt);
                Ok(())
            }
            Connection::Up(_) => self.send(prompt).await,
            Connection::Making(_) => Ok(()),
            Connection::Down => {
                let until = self.wait_for_agent(&prompt);
                self.connect(None, until).await
            }
        }
    }

    /// That it was sent is durable before it leaves (L12).
    async fn send(&mut self, prompt: PromptId) -> Result<(), Gone> {
        let Some(agent) = self.agent.clone() else { return Ok(()) };
        let native_id = agent.name_prompt(&self.id, &prompt);
        let mut work = Work::default();
        let sent = self.step(&mut work, |machine, step| machine.send(&prompt, Some(native_id.clone()), step));
        if sent.is_ok() {
            let content = self.contents.get(&prompt).cloned().unwrap_or_default();
            work.commands.push(Command::Prompt { native_id, content });
            self.clocks.sent(self.shared.settings.start);
        }
        self.commit_now(work).await
    }

    /// Begins to make a link. What cannot even be tried has failed.
    pub(super) async fn connect(&mut self, left: Option<OpenWork>, until: Instant) -> Result<(), Gone> {
        match self.start(left, until) {
            Ok(making) => {
                self.connection = Connection::Making(making);
                Ok(())
            }
            Err(error) => self.not_made(error).await,
        }
    }

    fn start(&self, left: Option<OpenWork>, until: Instant) -> Result<Making, TurnError> {
        let unreachable = |problem: String| TurnError::new(ErrorClass::Unreachable, problem);
        let Some(agent) = self.agent.clone() else {
            let name = &self.session.agent;
            return Err(unreachable(format!("there is no agent {name:?} any more; configure it again")));
        };
        let cwd = PathBuf::from(&self.session.cwd);
        if !cwd.is_dir() {
            let shown = cwd.display();
            return Err(unreachable(format!("the working directory {shown} is not there any more")));
        }
        // Where a session that was made here works was looked at then.
        if self.imported.is_some() && !cwd.canonicalize().is_ok_and(|real| self.shared.settings.allows(&real))
        {
            return Err(unreachable(format!(
                "the session was imported, and its working directory {} is not below a root; start the gateway with a root \
                 above it",
                cwd.display()
            )));
        }
        let start = Start {
            session: self.id.clone(),
            cwd,
            native_id: self.native_id(),
            model: still_a_name(&self.session.model),
            mode: still_a_name(&self.session.mode),
            permissions: self.session.permissions.unwrap_or(Permissions::Ask),
            open_work: left,
            known: Known::default(),
            until,
        };
        let farewell = self.farewell.clone();
        let (log, id) = (self.shared.log.clone(), self.id.clone());
        let task = tokio::spawn(async move {
            farewell.over().await;
            let mut start = start;
            // A recovery says by itself what is known.
            if start.native_id.is_some() && start.open_work.is_none() {
                start.known = known(log, id).await;
            }
            agent.connect(start).await
        });
        Ok(Making { task, deadline: until + LATE })
    }

    /// How the agent calls the session, if it is one of this agent: the name in an imported log is that of a session which
    /// another log is still talking to, perhaps with this very agent.
    fn native_id(&self) -> Option<String> {
        let foreign = self.imported.as_ref().and_then(|imported| imported.native_id.as_ref());
        self.session.native_id.clone().filter(|name| Some(name) != foreign)
    }

    /// Takes in what came from the agent's side.
    pub(super) async fn news(&mut self, news: News) -> Result<(), Gone> {
        match news {
            News::Made(Ok(link)) => {
                self.away = link.begins_away().map(str::to_owned);
                self.connection = Connection::Up(link);
                turnstream_failpoint::reach("keeper.connected");
                Ok(())
            }
            News::Made(Err(error)) => {
                self.connection = Connection::Down;
                self.not_made(error).await
            }
            News::Observed(observed) => self.observed(observed).await,
            News::Ended => {
                let error = TurnError::new(ErrorClass::AgentExited, "the agent's link ended without a word");
                self.link_lost(error).await
            }
        }
    }

    /// Ends the link in good order, or by force, while the keeper goes on.
    pub(super) fn let_go(&mut self) {
        if self.connection.is_down() {
            return;
        }
        self.away = None;
        let connection = std::mem::replace(&mut self.connection, Connection::Down);
        let (alive, over) = watch::channel(());
        let before = std::mem::replace(&mut self.farewell, Farewell(Some(over)));
        tokio::spawn(async move {
            connection.close(super::GOODBYE).await;
            before.over().await;
            drop(alive);
        });
    }

    /// No link can be made: what waits for it fails, or what was to be settled by it is lost.
    pub(super) async fn not_made(&mut self, error: TurnError) -> Result<(), Gone> {
        let mut work = Work::default();
        if self.recovery.is_some() {
            self.lose_all(&format!("the agent cannot be asked: {}", error.message), &mut work);
        } else if let Some(prompt) = self.machine.next_prompt() {
            let failed = self.step(&mut work, |machine, step| {
                machine.send(&prompt, None, step)?;
                machine.end_prompt(&prompt, Ending::failed(error), step)
            });
            debug_assert!(failed.is_ok(), "the next prompt can be sent");
            // The one after it has its own time.
            self.clocks.reach = None;
        }
        self.commit(work).await
    }

    /// The link is gone. The machine ends what was open; prompts that were sent and not taken are asked about once.
    pub(super) async fn link_lost(&mut self, error: TurnError) -> Result<(), Gone> {
        self.let_go();
        let mut work = Work::default();
        if self.recovery.is_some() {
            self.lose_all(&format!("the agent went away while it was asked: {}", error.message), &mut work);
            return self.commit(work).await;
        }
        self.settle_texts(&mut work);
        self.step(&mut work, |machine, step| machine.observe(Signal::LinkLost(error), step));
        self.commit(work).await?;
        self.ask_about_prompts().await
    }

    /// Ends the open turn without its agent, which is stopped: nothing of it may come later.
    pub(super) async fn end_by_force(&mut self, ending: Ending) -> Result<(), Gone> {
        // An agent that goes on without its link is told to stop: the turn must not run into the next one.
        if !self.machine.is_cancelling() {
            self.connection.tell(Command::Cancel).await;
        }
        self.let_go();
        let mut work = Work::default();
        self.settle_texts(&mut work);
        if let Some(turn) = self.machine.open_turn().cloned() {
            let ended = self.step(&mut work, |machine, step| machine.end_open_turn(&turn, ending, step));
            debug_assert!(ended.is_ok(), "the open turn is open");
        }
        if self.recovery.is_some() {
            self.lose_all("the agent was stopped before it could be asked", &mut work);
        }
        self.commit(work).await?;
        self.ask_about_prompts().await
    }
}
