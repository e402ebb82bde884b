//! The adapter task of one link: drives a conversation with opencode, with the keeper on the other side.

use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};
use tracing::Span;
use turnstream_adapter::{Clock, Command, LinkEnd, Observed, Observer};
use turnstream_model::id::SessionId;
use turnstream_model::signal::Signal;
use turnstream_opencode_client::{Conversation, Incoming, ServerConnection};

/// How long the last calls of a link may take. The keeper waits a little longer for the link to end.
const LAST_CALLS: Duration = Duration::from_millis(800);

/// One link.
pub(super) struct Adapter {
    conversation: Conversation,
    connection: ServerConnection,
    clock: Clock,
    session: SessionId,
    /// The span of the model call that runs.
    attempt: Option<Span>,
}

impl Adapter {
    /// A link whose event stream is open.
    pub(super) fn new(
        conversation: Conversation,
        connection: ServerConnection,
        clock: Clock,
        session: SessionId,
    ) -> Self {
        Self { conversation, connection, clock, session, attempt: None }
    }

    /// Runs until the keeper drops the link, or the server is gone for good.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>, observer: Observer) {
        self.conversation.connected(None, self.clock.now());
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
                    Some(command) => self.conversation.command(command, self.clock.now()),
                    None => break,
                },
                incoming = self.connection.next_incoming() => self.handle(incoming),
                () = tick => self.conversation.tick(self.clock.now()),
                () = observer.gone() => break,
            }
        }
        self.finish(commands).await;
    }

    /// Sends the keeper's last commands to the server: above all, that the turn is to stop.
    async fn finish(mut self, mut commands: mpsc::Receiver<Command>) {
        while let Ok(command) = commands.try_recv() {
            self.conversation.command(command, self.clock.now());
        }
        self.connection.start_calls_of(&mut self.conversation);
        if timeout(LAST_CALLS, self.connection.finish_calls()).await.is_err() {
            tracing::warn!(limit = ?LAST_CALLS, "the last calls of the link did not finish");
        }
    }

    fn handle(&mut self, incoming: Incoming) {
        let now = self.clock.now();
        let _in_attempt = self.attempt.as_ref().map(Span::enter);
        match incoming {
            Incoming::Answer(answer) => self.conversation.answer(answer, now),
            Incoming::Event(event) => self.conversation.event(&event, now),
            Incoming::Lost(reason) => self.conversation.lost(&reason, now),
            Incoming::Gap(reason) => self.conversation.connected(Some(reason), now),
            Incoming::Closed(reason) => self.conversation.closed(reason),
        }
    }

    /// Starts calls and reports observations. The error says that the link has ended.
    async fn flush(&mut self, observer: &Observer) -> Result<(), LinkEnd> {
        self.connection.start_calls_of(&mut self.conversation);
        while let Some(observed) = self.conversation.next_observed() {
            self.trace(&observed);
            let is_last = matches!(observed, Observed::Signal(Signal::LinkLost(_)));
            observer.observed(observed).await?;
            if is_last {
                return Err(LinkEnd);
            }
        }
        Ok(())
    }

    /// Opens and closes the span of the model call, and writes the lines that tell the story of a failed
    /// turn.
    fn trace(&mut self, observed: &Observed) {
        let session = &self.session;
        match observed {
            Observed::Signal(Signal::AttemptBegan { key, .. }) => {
                self.attempt = Some(tracing::info_span!("attempt", %session, native_attempt = key.as_str()));
            }
            Observed::Signal(Signal::AttemptEnded { .. } | Signal::TurnIdle { .. }) => self.attempt = None,
            Observed::Signal(Signal::Gap(reason)) => {
                tracing::info!(%session, %reason, "events may have been missed; asking opencode");
            }
            Observed::Signal(Signal::Failed(error)) => {
                let (class, status) = (error.class.as_str(), error.status);
                tracing::warn!(%session, class, status, "opencode reports an error");
            }
            Observed::Signal(Signal::LinkLost(error)) => {
                // The keeper logs what was lost with it.
                tracing::debug!(%session, class = error.class.as_str(), "link to opencode lost");
                self.attempt = None;
            }
            // The keeper logs an outage and its end, and the client the reason.
            Observed::Away(_) | Observed::Back => {}
            Observed::Fate { native_id, fate } => {
                tracing::info!(
                    %session, native_prompt = native_id.as_str(), ?fate,
                    "fate of a prompt sent before a restart"
                );
            }
            Observed::CaughtUp => tracing::debug!(%session, "caught up with opencode"),
            Observed::Signal(_) => {}
        }
    }
}
