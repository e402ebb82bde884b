//! Runs one message from its place in the queue to its terminator.

use super::message_queue::QueuePlace;
use super::reader::{Interrupted, Reader, ReaderGone};
use super::{TurnCommand, TurnSettings};
use crate::client::Client;
use crate::connection::{Incoming, ServerConnection, turn_error_of};
use crate::conversation::{Call, Conversation};
use crate::ids;
use crate::rest::SessionRef;
use crate::standalone::StandaloneConversation;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tracing::Instrument;
use turnstream_adapter::{Clock, Counted, Counters};
use turnstream_dialects::acp::{AcpEvent, Encoder};
use turnstream_model::event::{Body, By, Effect, ErrorClass, Event, NoticeCode, Outcome, Status, TurnError};
use turnstream_model::machine::Refusal;
use turnstream_model::signal::Ending;

/// How long stopping a turn may take. After that the turn ends without an answer of the server.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// How often the status of a busy session is read. The last events of a turn come up to half a second after
/// its status is idle (captures f1, g2).
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

/// Sends a message and its answer's events to the reader.
pub(super) async fn run(
    client: Client,
    session: SessionRef,
    text: String,
    settings: TurnSettings,
    mut reader: Reader,
    place: QueuePlace,
) {
    let slot = match reader.while_waiting(place).await {
        Ok(slot) => Ok(slot),
        Err(Interrupted::Cancelled) => Err(Ending::cancelled()),
        Err(Interrupted::ReaderGone) => return,
    };
    let mut connection = ServerConnection::new(&client, &session);
    let ready = match &slot {
        Err(ending) => Err(ending.clone()),
        Ok(_) => match reader.while_waiting(until_idle(&mut connection, settings.pace.busy)).await {
            Ok(idle) => idle.map_err(Ending::failed),
            Err(Interrupted::Cancelled) => Err(Ending::cancelled()),
            Err(Interrupted::ReaderGone) => return,
        },
    };
    let span = tracing::info_span!("turn", native_session = %session.id);
    let driver = Driver::new(connection, &session, settings, reader, client.counters().clone());
    driver.run(text, ready).instrument(span).await;
}

/// Waits until the event stream is open and the session is idle. The work of another client or of a lost
/// turn must not be taken for the answer. A prompt that is sent during it would become part of it (capture
/// k1).
async fn until_idle(connection: &mut ServerConnection, busy: Duration) -> Result<(), TurnError> {
    connection.connected().await.map_err(|reason| turn_error_of(&reason))?;
    let until = Instant::now() + busy;
    let mut was_busy = false;
    loop {
        let is_busy = connection.is_busy().await?;
        if !is_busy && !was_busy {
            return Ok(());
        }
        if Instant::now() >= until {
            let message = format!(
                "another turn runs in the session and did not end within {} seconds; abort it or wait for it",
                busy.as_secs()
            );
            return Err(TurnError::new(ErrorClass::NotStarted, message));
        }
        was_busy = is_busy;
        let next_look = Instant::now() + STATUS_INTERVAL;
        while let Ok(incoming) = timeout_at(next_look, connection.next_incoming()).await {
            if let Incoming::Closed(reason) = incoming {
                return Err(reason);
            }
        }
    }
}

struct Driver {
    conversation: StandaloneConversation,
    connection: ServerConnection,
    clock: Clock,
    settings: TurnSettings,
    encoder: Encoder,
    /// `None` when the reader is gone.
    reader: Option<Reader>,
    session: String,
    /// When the session was last active.
    last_active: Instant,
    started: Instant,
    /// The turn waits for a person.
    waits_for_person: bool,
    /// The turn is being stopped: until when, and how it ends if that takes longer.
    stopping: Option<(Instant, Ending)>,
    /// The turn ended without an answer of the server, which may still work on it.
    abandoned: bool,
    counters: Counters,
}

/// The terminator was sent.
struct Done;

impl Driver {
    fn new(
        connection: ServerConnection,
        session: &SessionRef,
        settings: TurnSettings,
        reader: Reader,
        counters: Counters,
    ) -> Self {
        let clock = Clock::new();
        let mut inner = Conversation::new(&session.id, settings.pace, settings.budget.clone(), clock.now());
        inner.choose(settings.model.clone(), settings.mode.clone());
        let (id, cwd) = (&session.id, session.directory.as_str());
        let conversation = StandaloneConversation::new(inner, id, cwd, settings.permissions, clock.now());
        let now = Instant::now();
        Self {
            conversation,
            connection,
            clock,
            settings,
            encoder: Encoder::new(),
            reader: Some(reader),
            session: session.id.clone(),
            last_active: now,
            started: now,
            waits_for_person: false,
            stopping: None,
            abandoned: false,
            counters,
        }
    }

    async fn run(mut self, text: String, ready: Result<(), Ending>) {
        let native_id = ids::for_prompt(&self.session, &text, self.clock.now().0).message();
        let sent = self.conversation.prompt(
            native_id,
            vec![json!({"type": "text", "text": text})],
            self.clock.now(),
        );
        debug_assert!(sent.is_ok(), "a new conversation takes a prompt");
        if let Err(ending) = ready {
            // Nothing has left yet.
            while self.conversation.next_call().is_some() {}
            self.conversation.end(ending, self.clock.now());
        }
        while self.flush().await.is_ok() {
            let due = self.due();
            tokio::select! {
                incoming = self.connection.next_incoming() => self.handle(incoming),
                command = next_command(self.reader.as_mut()) => self.apply(command),
                () = sleep_until(due) => self.tick(),
            }
        }
        // The next message to the session waits for this.
        self.conversation.close();
        if timeout(STOP_LIMIT, self.finish_calls()).await.is_err() {
            tracing::warn!(limit = ?STOP_LIMIT, "the last calls of the turn did not finish");
        }
    }

    async fn finish_calls(&mut self) {
        // A prompt that is still being sent would start after the abort.
        self.connection.finish_calls().await;
        if self.abandoned {
            tracing::warn!("the turn ended without an answer of opencode; aborting it there");
            self.connection.start_call(Call::Abort);
            self.connection.finish_calls().await;
        }
        while let Some(call) = self.conversation.next_call() {
            self.connection.start_call(call);
        }
        self.connection.finish_calls().await;
    }

    fn handle(&mut self, incoming: Incoming) {
        let now = self.clock.now();
        match incoming {
            Incoming::Answer(answer) => self.conversation.answer(answer, now),
            Incoming::Event(event) => self.conversation.event(&event, now),
            Incoming::Lost(reason) => self.conversation.lost(&reason, now),
            Incoming::Gap(reason) => self.conversation.connected(Some(reason), now),
            Incoming::Closed(reason) => self.conversation.closed(reason, now),
        }
    }

    fn apply(&mut self, command: Result<TurnCommand, ReaderGone>) {
        let now = self.clock.now();
        match command {
            Ok(TurnCommand::Cancel) => self.cancel(),
            Ok(TurnCommand::Approve(approval, outcome)) => {
                log_late_answer(self.conversation.approve(&approval, outcome, By::Client, now));
            }
            Ok(TurnCommand::Answer(question, answers)) => {
                log_late_answer(self.conversation.answer_question(&question, answers, now));
            }
            Err(ReaderGone) => self.reader_gone(),
        }
    }

    fn cancel(&mut self) {
        if self.stopping.is_none() {
            self.stopping = Some((Instant::now() + STOP_LIMIT, Ending::cancelled()));
            self.conversation.cancel(self.clock.now());
        }
    }

    /// Cancels the turn of a reader that is gone. It is still driven to its end: the next message waits for
    /// that.
    fn reader_gone(&mut self) {
        self.reader = None;
        self.cancel();
    }

    /// When [`Driver::tick`] has something to do.
    fn due(&self) -> Instant {
        let conversation = self.conversation.deadline().map(|time| self.clock.instant_of(time));
        let alive = self.reader.as_ref().and_then(Reader::keep_alive_at);
        let limit = match &self.stopping {
            Some((until, _)) => Some(*until),
            None => self.limit().map(|(until, _)| until),
        };
        let far = Instant::now() + Duration::from_secs(3_600);
        [conversation, alive, limit].into_iter().flatten().min().unwrap_or(far)
    }

    /// The first limit that will be reached, with its error message.
    fn limit(&self) -> Option<(Instant, String)> {
        let TurnSettings { inactivity, wall_clock, .. } = &self.settings;
        let silent = (!self.waits_for_person).then(|| {
            let message = format!("nothing was heard of the turn for {} seconds", inactivity.as_secs());
            (self.last_active + *inactivity, message)
        });
        let long = wall_clock.map(|most| {
            (self.started + most, format!("the turn took longer than {} seconds", most.as_secs()))
        });
        silent.into_iter().chain(long).min_by_key(|(until, _)| *until)
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        if let Some((_, ending)) = self.stopping.take_if(|(until, _)| Instant::now() >= *until) {
            self.abandoned = true;
            return self.conversation.end(ending, now);
        }
        if self.stopping.is_none()
            && let Some((_, message)) = self.limit().filter(|(until, _)| Instant::now() >= *until)
        {
            // The server is told to stop first, so that nothing goes on; then the turn ends in any case.
            let error = TurnError::new(ErrorClass::Timeout, message);
            self.stopping = Some((Instant::now() + STOP_LIMIT, Ending::failed(error.clone())));
            return self.conversation.stop_for(error, now);
        }
        self.conversation.tick(now);
    }

    /// Starts calls and sends events to the reader.
    async fn flush(&mut self) -> Result<(), Done> {
        while let Some(call) = self.conversation.next_call() {
            self.connection.start_call(call);
        }
        let mut out = Vec::new();
        while let Some(event) = self.conversation.take_event() {
            self.note(&event);
            self.encoder.encode(&event, &mut out);
        }
        let is_over = out.iter().any(AcpEvent::is_terminator);
        for event in out {
            let is_last = event.is_terminator();
            let Some(reader) = &mut self.reader else { break };
            if reader.send(event).await.is_err() {
                self.reader_gone();
            }
            if is_last {
                break;
            }
        }
        if let Some(reader) = &mut self.reader
            && !is_over
            && reader.keep_alive().await.is_err()
        {
            self.reader_gone();
        }
        if is_over { Err(Done) } else { Ok(()) }
    }

    fn note(&mut self, event: &Event) {
        if let Body::SessionStatus(status) = &event.draft.body {
            self.waits_for_person = *status == Status::Waiting;
        } else if let Body::Notice { code: NoticeCode::UnexpectedPermission, .. } = &event.draft.body {
            self.counters.count(Counted::UnexpectedPermission);
        } else if let Body::TurnEnded { outcome, .. } = &event.draft.body {
            self.abandoned |= *outcome == Outcome::Lost;
        } else if event.draft.is_activity() || matches!(event.draft.about(), Some((_, Effect::Cancels))) {
            self.last_active = Instant::now();
        }
    }
}

/// An answer to something that is settled already is refused: the first answer counts.
fn log_late_answer(answered: Result<(), Refusal>) {
    if let Err(refusal) = answered {
        tracing::debug!(reason = %refusal, "answer ignored");
    }
}

/// The next command; never resolves when the reader is gone.
async fn next_command(reader: Option<&mut Reader>) -> Result<TurnCommand, ReaderGone> {
    match reader {
        Some(reader) => reader.next_command().await,
        None => std::future::pending().await,
    }
}
