//! The adapter task of one link: drives a conversation over a connection, with the keeper on the other side.

use super::agent::Shared;
use super::conversation::{Conversation, Opening};
use super::files::SessionFiles;
use super::server::{Server, StartError};
use super::socket::Socket;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};
use turnstream_adapter::{Clock, Command, Counted, Fate, LinkEnd, Observed, Observer};
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::signal::Signal;

/// How often a broken connection to a server that still runs is made again.
const RECONNECTS: u32 = 3;
/// How long one of these may take, with the thread open again.
const RECONNECT_LIMIT: Duration = Duration::from_secs(30);

/// One link.
pub(super) struct Adapter {
    pub(super) shared: Arc<Shared>,
    pub(super) files: SessionFiles,
    pub(super) conversation: Conversation,
    /// `None` once it is gone.
    pub(super) server: Option<Server>,
    pub(super) socket: Socket,
    pub(super) clock: Clock,
}

/// Drives the first requests of a connection until the thread is open.
pub(super) async fn open(
    conversation: &mut Conversation,
    socket: &mut Socket,
    clock: Clock,
    until: Instant,
) -> Result<(), StartError> {
    let begun = Instant::now();
    loop {
        while let Some(line) = conversation.next_line() {
            socket.say(line);
        }
        match conversation.opening() {
            Opening::Open => return Ok(()),
            Opening::Failed(error) => return Err(error.clone().into()),
            Opening::Closed | Opening::Greeting { .. } | Opening::Thread { .. } => {}
        }
        match timeout_at(until, socket.next()).await {
            Ok(Ok(line)) => conversation.line(line.as_bytes(), clock.now()),
            Ok(Err(reason)) => return Err(StartError::Broken(reason)),
            Err(_) => return Err(StartError::Silent { waited: begun.elapsed(), output: String::new() }),
        }
    }
}

impl Adapter {
    /// Runs until the keeper drops the link, or the server is gone.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>, observer: Observer) {
        while self.flush(&observer).await.is_ok() {
            let deadline = self.conversation.deadline().map(|time| self.clock.instant_of(time));
            let tick = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.command(command),
                    None => break,
                },
                line = self.socket.next() => match line {
                    Ok(line) => self.conversation.line(line.as_bytes(), self.clock.now()),
                    Err(reason) => self.disconnected(&reason).await,
                },
                () = tick => self.conversation.tick(self.clock.now()),
                () = observer.gone() => break,
            }
        }
        self.finish(commands).await;
    }

    /// Hands a command to the conversation. A prompt is noted before it is sent.
    fn command(&mut self, command: Command) {
        if let Command::Prompt { native_id, .. } = &command
            && let Err(error) = self.files.note(|note| note.prompt.clone_from(native_id))
        {
            let error = TurnError::new(ErrorClass::Unreachable, StartError::Note(error).to_string());
            return self.conversation.refuse(native_id.clone(), error);
        }
        self.conversation.command(command, self.clock.now());
    }

    /// The connection has ended. A server that still runs is connected to again: it works on meanwhile.
    async fn disconnected(&mut self, reason: &str) {
        let Some(mut server) = self.server.take() else { return };
        self.shared.counters.count(Counted::StreamLoss);
        let mut problem = reason.to_owned();
        for _ in 0..RECONNECTS {
            if let Some(how) = server.exit().await {
                return self.gone(server, how).await;
            }
            tracing::info!(agent = %self.shared.name, pid = server.pid(), "connecting to Codex again");
            self.conversation.disconnected(&problem, self.clock.now());
            match self.reconnect(&server).await {
                Ok(()) => {
                    self.shared.counters.count(Counted::StreamReconnect);
                    self.server = Some(server);
                    return;
                }
                Err(error) => problem = error.to_string(),
            }
        }
        let how = format!("Codex cannot be reached: {problem}{}", server.printed());
        self.gone(server, how).await;
    }

    async fn reconnect(&mut self, server: &Server) -> Result<(), StartError> {
        let until = Instant::now() + RECONNECT_LIMIT;
        let connected = timeout_at(until, server.connect()).await;
        self.socket = connected.map_err(|_| StartError::Broken("it does not answer".to_owned()))??;
        let thread = self.conversation.thread().0.to_owned();
        self.conversation.open(Some(thread), self.clock.now());
        open(&mut self.conversation, &mut self.socket, self.clock, until).await
    }

    async fn gone(&mut self, server: Server, how: String) {
        self.shared.ended(server).await;
        self.note_file();
        self.conversation.exited(TurnError::new(ErrorClass::AgentExited, how));
    }

    /// Reports observations, and gives the server its messages. The error says that the link has ended.
    async fn flush(&mut self, observer: &Observer) -> Result<(), LinkEnd> {
        while let Some(observed) = self.conversation.next_observed() {
            let is_end = matches!(observed, Observed::Signal(Signal::TurnDone { .. }));
            let is_last = matches!(observed, Observed::Signal(Signal::LinkLost(_)));
            let observed = match observed {
                // A prompt that is not noted was never sent.
                Observed::Fate { native_id, fate: Fate::Unknown } if !self.may_have(&native_id) => {
                    Observed::Fate { native_id, fate: Fate::NeverSeen }
                }
                observed => observed,
            };
            observer.observed(observed).await?;
            if is_end {
                self.note_file();
            }
            if is_last {
                return Err(LinkEnd);
            }
        }
        observer.works_in_background(self.conversation.works_in_background());
        self.shared.note_models(self.conversation.models());
        while let Some(line) = self.conversation.next_line() {
            self.socket.say(line);
        }
        Ok(())
    }

    /// Whether this prompt may have reached a server. If the note cannot be read, it may.
    fn may_have(&self, prompt: &str) -> bool {
        self.files.read_note().map_or(true, |note| note.prompt == prompt)
    }

    /// Once Codex has a file of the thread, a missing one means that it has forgotten the thread.
    fn note_file(&self) {
        let file = self.conversation.thread().1.map(PathBuf::from).filter(|file| file.exists());
        let Some(file) = file else { return };
        if let Err(error) = self.files.note(|note| note.file = Some(file)) {
            tracing::warn!(%error, "cannot note where Codex keeps the thread");
        }
    }

    /// Gives the server the keeper's last commands, and ends it.
    async fn finish(mut self, mut commands: mpsc::Receiver<Command>) {
        let Some(server) = self.server.take() else { return };
        while let Ok(command) = commands.try_recv() {
            // A prompt is not begun any more: the next link is asked about it.
            if !matches!(command, Command::Prompt { .. }) {
                self.conversation.command(command, self.clock.now());
            }
        }
        while let Some(line) = self.conversation.next_line() {
            self.socket.say(line);
        }
        self.shared.ended(server).await;
        self.note_file();
    }
}
