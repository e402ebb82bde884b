//! The link to the agent: made when there is a prompt to send and room for one more link. It is closed by
//! force if the agent does not end.

use super::commit::Work;
use super::{AppenderClosed, Keeper};
use crate::error::RequestError;
use crate::live_agents::{Place, PlaceWait};
use crate::redactor::still_a_name;
use crate::working_directory::DirectoryProblem;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tracing::Instrument;
use turnstream_adapter::{
    AdapterFailed, Command, ConnectError, Link, LoggedWork, Observed, OpenWork, Start, WorkingDirectory,
};
use turnstream_log::Log;
use turnstream_model::Chain;
use turnstream_model::event::{ErrorClass, Permissions, TurnError};
use turnstream_model::id::{PromptId, SessionId};
use turnstream_model::machine::SentContext;

/// How long an adapter may leave a command unread. After that the deadlines of the turn decide.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);

/// How long after its deadline an agent may still report why no link could be made.
const CONNECT_GRACE: Duration = Duration::from_millis(500);

/// The state of the link.
pub(super) enum Connection {
    Down,
    /// As many links as may be are up.
    WaitingForRoom(WaitingForRoom),
    Connecting(Connecting),
    Up(Link, Place),
}

/// A session that waits until it may make a link. The time to reach the agent and the time of a recovery
/// begin when there is room. Because other agents work, no accepted prompt may fail and no turn may be lost.
/// The time of a person to answer and the time to stop run on.
pub(super) struct WaitingForRoom {
    pub(super) place: PlaceWait,
    open_work: Option<OpenWork>,
}

/// A link that is being made. Dropping it gives the link up.
pub(super) struct Connecting {
    task: JoinHandle<Result<Link, ConnectError>>,
    /// The agent's name.
    agent: String,
    pub(super) deadline: Instant,
    /// Taken by the link once it is up.
    place: Option<Place>,
}

impl Drop for Connecting {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Links that are ending. Cloning shares them.
#[derive(Clone, Default)]
pub(super) struct ClosingLinks(Option<watch::Receiver<()>>);

impl ClosingLinks {
    /// Returns when all of them have ended.
    pub(super) async fn over(self) {
        if let Some(mut last) = self.0 {
            while last.changed().await.is_ok() {}
        }
    }
}

/// Something that happened on the link.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all are observations, and a box for each would cost more"
)]
pub(super) enum LinkEvent {
    /// There is room for a link.
    Room(Place),
    /// The link was made, or could not be.
    Connected(Result<Link, ConnectError>),
    /// The adapter observed something at the agent.
    Observed(Observed),
    /// The adapter ended.
    Ended,
}

impl Connection {
    pub(super) fn is_down(&self) -> bool {
        matches!(self, Self::Down)
    }

    pub(super) fn waits_for_room(&self) -> bool {
        matches!(self, Self::WaitingForRoom(_))
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self, Self::Up(..))
    }

    /// Whether the agent works although no turn is open.
    pub(super) fn works_in_background(&self) -> bool {
        match self {
            Self::Up(link, _) => link.works_in_background(),
            Self::Down | Self::WaitingForRoom(_) | Self::Connecting(_) => false,
        }
    }

    fn place(&mut self) -> Option<&mut Place> {
        match self {
            Self::Down | Self::WaitingForRoom(_) => None,
            Self::Connecting(making) => making.place.as_mut(),
            Self::Up(_, place) => Some(place),
        }
    }

    /// The next event; never returns while the link is down. Safe to drop and call again.
    pub(super) async fn next_event(&mut self) -> LinkEvent {
        match self {
            Self::Down => std::future::pending().await,
            Self::WaitingForRoom(waiting) => LinkEvent::Room((&mut waiting.place).await),
            Self::Connecting(making) => {
                let made = (&mut making.task).await;
                let made = made.unwrap_or_else(|error| {
                    tracing::error!(error = %Chain(&error), "the adapter of an agent failed");
                    let problem = Arc::new(AdapterFailed(error));
                    Err(ConnectError::Unavailable { agent: making.agent.clone(), problem })
                });
                LinkEvent::Connected(made)
            }
            Self::Up(link, _) => link.observe().await.map_or(LinkEvent::Ended, LinkEvent::Observed),
        }
    }

    /// An event that is already there.
    pub(super) async fn try_next_event(&mut self) -> Option<LinkEvent> {
        match self {
            Self::Up(link, _) => link.try_observe().map(LinkEvent::Observed),
            Self::Connecting(making) if making.task.is_finished() => Some(self.next_event().await),
            Self::Down | Self::WaitingForRoom(_) | Self::Connecting(_) => None,
        }
    }

    /// Sends a command to the agent. False when the link is down, or when the agent's adapter did not take
    /// it.
    pub(super) async fn tell(&self, command: Command) -> bool {
        let name = command_name(&command);
        let told = match self {
            Self::Up(link, _) => timeout(COMMAND_TIMEOUT, link.tell(command)).await,
            Self::Down | Self::WaitingForRoom(_) | Self::Connecting(_) => {
                tracing::debug!(command = name, "a command was not sent: no link to the agent");
                return false;
            }
        };
        match told {
            Ok(true) => true,
            Ok(false) => {
                tracing::warn!(command = name, "a command did not reach the agent: its adapter has ended");
                false
            }
            Err(_) => {
                tracing::warn!(command = name, after = ?COMMAND_TIMEOUT, "the agent did not take a command");
                false
            }
        }
    }

    /// Ends the link, by force after the deadline.
    pub(super) async fn close(self, deadline: Duration) {
        match self {
            Self::Down | Self::WaitingForRoom(_) => {}
            // The place is free when the agent has ended.
            Self::Up(link, _place) => link.stop(deadline).await,
            Self::Connecting(mut making) => {
                making.task.abort();
                // The link may have been made a moment ago.
                if let Ok(Ok(link)) = (&mut making.task).await {
                    link.stop(deadline).await;
                }
            }
        }
    }
}

/// The name of a command in log lines, which never show its content.
fn command_name(command: &Command) -> &'static str {
    match command {
        Command::Prompt { .. } => "prompt",
        Command::Cancel => "cancel",
        Command::CancelPrompt(_) => "cancel_prompt",
        Command::Approve { .. } => "approve",
        Command::Answer { .. } => "answer",
        Command::Change { .. } => "change",
        Command::Fetch(_) => "fetch",
    }
}

/// What the log has of the agent's session. Without it, turns of other clients are not recognised.
async fn known(log: Log, id: SessionId) -> LoggedWork {
    let read = tokio::task::spawn_blocking(move || log.snapshot(&id)).await;
    let error = match read {
        Ok(Ok(snapshot)) => return LoggedWork::of(&snapshot.state),
        Ok(Err(error)) => RequestError::of_read(error),
        Err(error) => RequestError::log(error),
    };
    tracing::warn!(error = %Chain(&error), "the agent's session cannot be compared with the log");
    LoggedWork::default()
}

fn turn_error(error: &ConnectError) -> TurnError {
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
    /// Sends the next prompt, or makes a link for it.
    pub(super) async fn advance(&mut self) -> Result<(), AppenderClosed> {
        if self.recovery.is_some() {
            self.clocks.agent_wait = None;
            return Ok(());
        }
        self.settle_unknown().await?;
        let Some(prompt) = self.machine.next_prompt() else {
            self.clocks.agent_wait = None;
            if self.connection.waits_for_room() {
                // The prompt was withdrawn.
                self.connection = Connection::Down;
            }
            return Ok(());
        };
        match &self.connection {
            Connection::Up(..) if self.away.is_some() => {
                self.wait_for_agent(&prompt);
                Ok(())
            }
            Connection::Up(..) => self.send(prompt).await,
            Connection::WaitingForRoom(_) | Connection::Connecting(_) => Ok(()),
            Connection::Down => self.connect(None).await,
        }
    }

    /// Sends a prompt. `prompt.sent` is durable before the bytes leave (L12).
    async fn send(&mut self, prompt: PromptId) -> Result<(), AppenderClosed> {
        let Some(agent) = self.agent.clone() else { return Ok(()) };
        let native_id = agent.name_prompt(&self.id, &prompt);
        let mut work = Work::default();
        let content = self.contents.of(&prompt);
        let context = match self.pending_contexts() {
            (false, false) => SentContext::Included,
            _ if agent.takes_context(&content) => SentContext::Included,
            _ => SentContext::Withheld,
        };
        let name = Some(native_id.clone());
        let sent = self.step(&mut work, |machine, step| machine.send_with(&prompt, name, context, step));
        if sent.is_ok() {
            work.commands.push(Command::Prompt { native_id, content });
            self.clocks.sent(self.shared.settings.start);
        }
        self.commit_now(work).await
    }

    /// Begins to make a link, or to wait until there is room for one.
    pub(super) async fn connect(&mut self, open_work: Option<OpenWork>) -> Result<(), AppenderClosed> {
        let place = match self.shared.live_agents.take() {
            Ok(place) => return self.connect_in(place, open_work).await,
            Err(wait) => wait,
        };
        tracing::debug!("the session waits until another one needs its agent no more");
        self.connection = Connection::WaitingForRoom(WaitingForRoom { place, open_work });
        // The time to reach the agent begins when there is room.
        self.clocks.agent_wait = None;
        Ok(())
    }

    /// Begins to make a link. An error that shows at once is handled like a failed attempt.
    async fn connect_in(&mut self, place: Place, open_work: Option<OpenWork>) -> Result<(), AppenderClosed> {
        let until = match (&open_work, self.machine.next_prompt()) {
            (None, Some(prompt)) => self.wait_for_agent(&prompt),
            (Some(_), _) | (None, None) => Instant::now() + self.shared.settings.connect,
        };
        match self.start(place, open_work, until) {
            Ok(making) => {
                self.connection = Connection::Connecting(making);
                Ok(())
            }
            Err(error) => self.connect_failed(error).await,
        }
    }

    fn start(
        &self,
        place: Place,
        open_work: Option<OpenWork>,
        until: Instant,
    ) -> Result<Connecting, TurnError> {
        let unreachable = |problem: String| TurnError::new(ErrorClass::Unreachable, problem);
        let Some(agent) = self.agent.clone() else {
            let name = &self.session.agent;
            return Err(unreachable(format!(
                "there is no agent {name:?} in the configuration; add it to continue"
            )));
        };
        let cwd = self.working_directory().map_err(unreachable)?;
        let start = Start {
            session: self.id.clone(),
            cwd,
            native_id: self.native_id(),
            model: still_a_name(&self.session.model),
            mode: still_a_name(&self.session.mode),
            permissions: self.session.permissions.unwrap_or(Permissions::Ask),
            mcp: Vec::new(),
            open_work,
            known: LoggedWork::default(),
            until,
        };
        let closing_links = self.closing_links.clone();
        let (log, id) = (self.shared.log.clone(), self.id.clone());
        let (mcp, has_mcp) = (self.shared.mcp.clone(), !self.session.mcp.is_empty());
        let name = self.session.agent.clone();
        let connect = async move {
            closing_links.over().await;
            let mut start = start;
            if has_mcp {
                start.mcp = mcp
                    .servers(&start.session)
                    .await
                    .map_err(|error| ConnectError::Unavailable { agent: name, problem: Arc::new(error) })?;
            }
            // For a recovery, `open_work` already names what the log has.
            if start.native_id.is_some() && start.open_work.is_none() {
                start.known = known(log, id).await;
            }
            agent.connect(start).await
        };
        let task = tokio::spawn(connect.in_current_span());
        let agent = self.session.agent.clone();
        Ok(Connecting { task, agent, deadline: until + CONNECT_GRACE, place: Some(place) })
    }

    /// The session's directory, opened. It is checked for every link: roots may be narrower than when the
    /// session was created, and a part of the path may be a link by now.
    fn working_directory(&self) -> Result<WorkingDirectory, String> {
        let path = Path::new(&self.session.cwd);
        let shown = path.display();
        let opened = self.shared.settings.open_directory(path).map_err(|problem| match problem {
            DirectoryProblem::Unusable(error) if error.kind() == ErrorKind::NotFound => {
                format!("the working directory {shown} no longer exists")
            }
            DirectoryProblem::Unusable(error) => {
                format!("the working directory {shown} cannot be opened: {error}")
            }
            DirectoryProblem::File => format!("the working directory {shown} is a file now"),
            DirectoryProblem::Outside(real) => {
                let imported = if self.imported.is_some() { "the session was imported, and " } else { "" };
                let leads = if real == path { String::new() } else { format!(" (now {})", real.display()) };
                format!(
                    "{imported}the working directory {shown}{leads} is not below a root; start the gateway with a root \
                     above it"
                )
            }
        })?;
        // When the session was created its path had no links.
        if self.imported.is_none() && opened.path() != path {
            return Err(format!(
                "the working directory {shown} is a link to {} now",
                opened.path().display()
            ));
        }
        Ok(opened)
    }

    /// The agent's name of the session. The name in an imported log is ignored: the session it names belongs
    /// to the log that was exported, perhaps with this very agent.
    pub(super) fn native_id(&self) -> Option<String> {
        let foreign = self.imported.as_ref().and_then(|imported| imported.native_id.as_ref());
        self.session.native_id.clone().filter(|name| Some(name) != foreign)
    }

    /// Handles an event of the link.
    pub(super) async fn link_event(&mut self, event: LinkEvent) -> Result<(), AppenderClosed> {
        match event {
            LinkEvent::Room(place) => self.room(place).await,
            LinkEvent::Connected(Ok(link)) => {
                let place = match &mut self.connection {
                    Connection::Connecting(making) => making.place.take(),
                    Connection::Down | Connection::WaitingForRoom(_) | Connection::Up(..) => None,
                };
                // A link comes from `Connecting`, which has the place.
                let Some(place) = place else { return Ok(()) };
                self.away = link.begins_away().map(str::to_owned);
                self.connection = Connection::Up(link, place);
                tracing::debug!("the agent is connected");
                turnstream_failpoint::reach("keeper.connected");
                if self.recovery.is_some() {
                    self.stop_leftover().await;
                }
                Ok(())
            }
            LinkEvent::Connected(Err(error)) => {
                self.connection = Connection::Down;
                // In a recovery the open turn is lost, and the next prompt is refused or makes a new link.
                if let (ConnectError::Forgotten { native_id, .. }, None) = (&error, &self.recovery) {
                    self.forgot = Some(native_id.clone());
                    return self.forgotten_at_connect(&error).await;
                }
                self.connect_failed(turn_error(&error)).await
            }
            LinkEvent::Observed(observed) => self.observed(observed).await,
            LinkEvent::Ended => {
                let message = "the agent's link ended without an error";
                let error = TurnError::new(ErrorClass::AgentExited, message);
                self.link_lost(error).await
            }
        }
    }

    /// There is room for the link that the session waits for.
    async fn room(&mut self, place: Place) -> Result<(), AppenderClosed> {
        let Connection::WaitingForRoom(waiting) = std::mem::replace(&mut self.connection, Connection::Down)
        else {
            return Ok(());
        };
        if let Some(recovery) = &mut self.recovery {
            recovery.deadline = Instant::now() + self.shared.settings.recovery;
        }
        self.connect_in(place, waiting.open_work).await
    }

    /// Whether the link could be given up for another session.
    pub(super) fn has_spare_link(&self) -> bool {
        let is_unused = self.is_resting() || self.is_parked();
        self.connection.is_up() && is_unused && !self.connection.works_in_background()
    }

    /// Another session needs the place of this link. The next prompt makes a new one.
    pub(super) fn give_up_link(&mut self) {
        tracing::debug!("the session is quiet, and gives up its agent for another session");
        if let Some(place) = self.connection.place() {
            place.give_up();
        }
        self.close_link();
    }

    /// Ends the link in the background.
    pub(super) fn close_link(&mut self) {
        if self.connection.is_down() {
            return;
        }
        self.away = None;
        let mut connection = std::mem::replace(&mut self.connection, Connection::Down);
        if let Some(place) = connection.place() {
            place.ends();
        }
        let (alive, over) = watch::channel(());
        let before = std::mem::replace(&mut self.closing_links, ClosingLinks(Some(over)));
        let close = async move {
            connection.close(super::CLOSE_GRACE).await;
            before.over().await;
            drop(alive);
        };
        tokio::spawn(close.in_current_span());
    }
}
