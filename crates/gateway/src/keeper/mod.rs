//! The keeper of one session: the task that owns its appender, its turn machine and its link to the agent.
//!
//! A keeper handles one request, observation or deadline at a time. It turns each into events and hands them
//! to the log. It waits for the disk only before something leaves for the agent: a prompt or an answer.

mod after_durable;
mod away;
mod budget;
mod clocks;
mod commit;
mod connection;
mod contents;
mod crowd;
mod disk_wait;
mod forgotten;
mod handle;
mod inbox;
mod keys;
mod lost_link;
mod observe;
mod outage;
mod oversized;
mod recover;
mod requests;
mod resends;
mod restarts;
mod spans;
mod unattended;
mod waits;

pub(crate) use crowd::Crowd;
pub(crate) use handle::Handle;
pub(crate) use restarts::Restarts;
pub(crate) use waits::option_for;

use crate::disk_failure;
use crate::error::RequestError;
use crate::gateway::Shared;
use crate::redactor::Redactor;
use crate::request::ClientRequest;
use after_durable::AfterDurable;
use clocks::Clocks;
use commit::Work;
use connection::{ClosingLinks, Connection, LinkEvent};
use contents::Contents;
use handle::Done;
use inbox::RequestInbox;
use keys::Keys;
use outage::Outage;
use recover::Recovery;
use resends::Resends;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::Instrument;
use turnstream_adapter::{Agent, Command};
use turnstream_log::{Appender, Imported};
use turnstream_model::Chain;
use turnstream_model::event::{Actor, Budget, By, SessionPatch, Unattended};
use turnstream_model::fold::{Session, State};
use turnstream_model::id::{Counters, Key, SessionId};
use turnstream_model::machine::{Inheritance, Machine};
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;
use unattended::Alarm;
use waits::OpenWaits;

/// Requests that may wait for a keeper.
const REQUESTS: usize = 64;
/// How long an agent may take to end before it is stopped by force.
const CLOSE_GRACE: Duration = Duration::from_secs(1);
/// The same while the gateway shuts down: open turns must be appended in the rest of the keeper's time.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(700);

/// How many batches of link events are applied before a deadline is checked. Three hold all that a link
/// buffers.
const EARLIER_EVENTS: usize = 3;

/// The log accepts no more appends from this keeper: it was closed, or the session has another owner.
#[derive(Debug)]
pub(crate) struct AppenderClosed;

/// The members of a new session.
pub(crate) struct Origins {
    pub(crate) agent: String,
    pub(crate) cwd: String,
    pub(crate) title: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) patch: SessionPatch,
    /// What it takes over from another session.
    pub(crate) inheritance: Option<Inheritance>,
    /// Its caps, and whether a client chose one of them.
    pub(crate) budget: (Budget, By),
    /// How it goes on after a limit or a failure, and whether a client chose that.
    pub(crate) unattended: (Unattended, By),
    /// The client that creates it.
    pub(crate) actor: Option<Actor>,
}

/// A session in memory.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    id: SessionId,
    appender: Appender,
    machine: Machine,
    ids: Counters,
    /// The session after everything that was appended, durable or not yet.
    session: Session,
    agent: Option<Arc<dyn Agent>>,
    /// Set when the session was imported.
    imported: Option<Imported>,
    connection: Connection,
    /// Why the agent cannot be reached at the moment, although the link is up.
    away: Option<String>,
    /// Links that are ending. The next link waits for them, so that two links of one session do not overlap.
    /// The wait for a link that is up is bounded. A link that is still being made ends at its next await.
    closing_links: ClosingLinks,
    /// Set while the turn and the prompts of an earlier owner are being recovered.
    recovery: Option<Recovery>,
    /// The agent's id of the session, if no link could be made because the agent has forgotten it.
    forgot: Option<String>,
    /// Prompts that were sent again after the agent was lost.
    resends: Resends,
    /// The prompt that was sent to the agent last, by its name there.
    at_agent: Option<String>,
    /// The content of prompts without an outcome.
    contents: Contents,
    /// Prompts that came with a key.
    keys: Keys,
    waits: OpenWaits,
    /// Answers given in the open turn, by the agent's names: an agent that asks again gets them again.
    decided: HashMap<Key, Command>,
    clocks: Clocks,
    /// Set while the session is parked.
    alarm: Option<Alarm>,
    redactor: Redactor,
    /// Buffer for what the redactor passes of one signal; empty between signals.
    passed: Vec<Signal>,
    outage: Outage,
    after_durable: AfterDurable,
    inbox: RequestInbox,
    stop: watch::Receiver<bool>,
}

/// What the loop woke up for.
enum Next {
    Stop,
    Request(ClientRequest),
    LinkEvent(LinkEvent),
    /// Another session needs the place of the link.
    GiveUpLink,
    /// Too many quiet sessions are in memory.
    Leave,
    /// A deadline, or a change of the disk's health: the next round checks both.
    Check,
}

/// Why a keeper's loop ended.
enum End {
    /// The session was idle for too long, or too many sessions are idle.
    Idle,
    /// The gateway shuts down.
    Stopped,
    /// The session has ended.
    Ended,
    /// See [`AppenderClosed`].
    AppenderClosed,
}

impl Keeper {
    /// Starts the keeper of a new session. Its first events are durable when this returns.
    pub(crate) async fn create(
        shared: Arc<Shared>,
        id: SessionId,
        appender: Appender,
        agent: Arc<dyn Agent>,
        origins: Origins,
    ) -> Result<(), RequestError> {
        let (handle, requests, stop, done) = Handle::new();
        // Before the session is shown, so that a client that sees it can use it.
        if !shared.register_keeper(&id, handle.clone()) {
            return Err(RequestError::Closing);
        }
        let span = session_span(&id, &origins.agent);
        let inbox = RequestInbox::new(requests);
        // In the span, so that the tasks which the keeper starts have it too.
        let mut keeper = span.in_scope(|| {
            Self::new(shared, id.clone(), appender, &State::default(), Some(agent), inbox, stop)
        });
        let Origins { agent, cwd, title, key, patch, inheritance, budget, unattended, actor } = origins;
        let mut work = Work::by(actor);
        keeper.step(&mut work, |machine, step| {
            machine.create(id, agent, cwd, title, key, step)?;
            machine.change(patch, step)?;
            if let Some(inheritance) = inheritance {
                machine.inherit(inheritance, step);
            }
            machine.set_budget(budget.0, budget.1, step)?;
            machine.set_unattended(unattended.0, unattended.1, step)
        })?;
        keeper.commit_now(work).await.map_err(|AppenderClosed| RequestError::Closing)?;
        turnstream_failpoint::reach("keeper.created");
        keeper.leave_time_of_creation();
        let (shared, id) = (keeper.shared.clone(), keeper.id.clone());
        supervise(shared, id, handle.number, done, keeper.run().instrument(span));
        Ok(())
    }

    /// Starts the keeper of a session that is in the log, after an earlier keeper has left. It recovers the
    /// turn and the prompts that are open.
    pub(crate) fn wake(shared: Arc<Shared>, id: SessionId, leaving: Option<Handle>) -> Handle {
        let (handle, requests, stop, done) = Handle::new();
        let agent = shared.states.get(&id).map(|session| session.agent).unwrap_or_default();
        let span = session_span(&id, &agent);
        let (sharing, of) = (shared.clone(), id.clone());
        let work = async move {
            let mut inbox = RequestInbox::new(requests);
            let free = async {
                if let Some(leaving) = leaving {
                    leaving.ended().await;
                }
                Self::claim(&shared, &id).await
            };
            match inbox.until_claimed(&shared.log, free).await {
                Ok((appender, state, imported)) => {
                    shared.restarts.opened(&id);
                    let agent = shared.agent(&state.session.agent);
                    let mut keeper = Self::new(shared, id, appender, &state, agent, inbox, stop);
                    keeper.imported = imported;
                    keeper.leave_time_of_creation();
                    keeper.leave_time_of_resume();
                    match keeper.resume(&state).await {
                        Ok(()) => keeper.run().await,
                        Err(AppenderClosed) => Exit::Interrupted,
                    }
                }
                Err(error) => {
                    log_failed_claim(&shared, &id, &error);
                    inbox.refuse_all(error).await;
                    Exit::Interrupted
                }
            }
        };
        supervise(sharing, of, handle.number, done, work.instrument(span));
        handle
    }

    /// Claims the appender, and reads the session's state and where it was imported from.
    async fn claim(
        shared: &Arc<Shared>,
        id: &SessionId,
    ) -> Result<(Appender, State, Option<Imported>), RequestError> {
        let appender = shared.log.claim(id).await.map_err(RequestError::of_claim)?;
        turnstream_failpoint::reach("keeper.claimed");
        let (log, of) = (shared.log.clone(), id.clone());
        let read = tokio::task::spawn_blocking(move || Ok((log.snapshot(&of)?, log.imported(&of)?)));
        let read = read.await.map_err(RequestError::log)?;
        let (snapshot, imported) = read.map_err(RequestError::of_read)?;
        Ok((appender, snapshot.state, imported))
    }

    fn new(
        shared: Arc<Shared>,
        id: SessionId,
        appender: Appender,
        state: &State,
        agent: Option<Arc<dyn Agent>>,
        inbox: RequestInbox,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let after_durable = AfterDurable::start(&shared, id.clone(), state);
        Self {
            machine: Machine::resume(state),
            ids: state.counters,
            session: state.session.clone(),
            agent,
            imported: None,
            connection: Connection::Down,
            away: None,
            closing_links: ClosingLinks::default(),
            recovery: None,
            forgot: None,
            resends: Resends::default(),
            at_agent: None,
            contents: Contents::resume(state),
            keys: Keys::resume(state, &shared.settings.redaction),
            waits: OpenWaits::resume(state),
            decided: waits::decisions(state),
            clocks: Clocks::new(),
            alarm: None,
            redactor: match state.open_turn() {
                Some(_) => Redactor::resumed(shared.settings.redaction.clone()),
                None => Redactor::new(shared.settings.redaction.clone()),
            },
            passed: Vec::new(),
            outage: Outage::new(&shared.log),
            after_durable,
            inbox,
            stop,
            shared,
            id,
            appender,
        }
    }

    /// Later events get another time than the creation: a repeated request with the same key reads the
    /// creation from the log, and takes the events that have its time.
    fn leave_time_of_creation(&mut self) {
        if let Some(created) = self.session.created {
            self.appender.stamp(created.plus_millis(1));
        }
    }

    /// Runs until the session has been idle for too long or has ended, or the gateway shuts down.
    async fn run(mut self) -> Exit {
        let end = loop {
            match self.run_once().await {
                Ok(None) => {}
                Ok(Some(end)) => break end,
                Err(AppenderClosed) => break End::AppenderClosed,
            }
        };
        let exit = if matches!(end, End::AppenderClosed) { Exit::Interrupted } else { Exit::Clean };
        self.shut_down(end).await;
        exit
    }

    /// One round of the loop: sends what can be sent, then handles whatever comes first.
    async fn run_once(&mut self) -> Result<Option<End>, AppenderClosed> {
        self.advance().await?;
        if self.machine.has_ended() && self.connection.is_down() && self.inbox.is_empty() {
            return Ok(Some(End::Ended));
        }
        self.check_disk();
        self.set_alarm();
        let deadline = self.next_deadline();
        // Before new events: an agent that talks without a pause must not delay its own deadline.
        if deadline <= Instant::now() {
            self.apply_waiting_events().await?;
            let idle = self.deadlines().await?;
            return Ok(idle.then_some(End::Idle));
        }
        let (has_spare_link, is_spare) = (self.has_spare_link(), self.is_spare());
        let next = tokio::select! {
            biased;
            _ = self.stop.wait_for(|stop| *stop) => Next::Stop,
            request = self.inbox.next() => request.map_or(Next::Stop, Next::Request),
            event = self.connection.next_event() => Next::LinkEvent(event),
            () = self.outage.changed() => Next::Check,
            () = tokio::time::sleep_until(deadline) => Next::Check,
            () = self.shared.live_agents.wanted(), if has_spare_link => Next::GiveUpLink,
            () = self.shared.crowd.asked_to_leave(), if is_spare => Next::Leave,
        };
        match next {
            // No handle left means that the gateway is gone, which is handled like a stop.
            Next::Stop => return Ok(Some(End::Stopped)),
            Next::Request(request) => self.request(request).await?,
            Next::LinkEvent(event) => self.link_event(event).await?,
            Next::GiveUpLink => self.give_up_link(),
            Next::Leave => return Ok(Some(End::Idle)),
            Next::Check => {}
        }
        Ok(None)
    }

    /// Applies the events that the link has buffered, before a deadline is checked: the agent may have met it
    /// while the keeper was busy.
    async fn apply_waiting_events(&mut self) -> Result<(), AppenderClosed> {
        for _ in 0..EARLIER_EVENTS {
            let Some(event) = self.connection.try_next_event().await else { break };
            self.link_event(event).await?;
        }
        Ok(())
    }

    /// Closes the link, appends what is known of an open turn, and waits until all of it is durable.
    async fn shut_down(mut self, end: End) {
        self.inbox.close();
        let outlives = self.agent.as_ref().is_some_and(|agent| agent.outlives_gateway());
        let connection = std::mem::replace(&mut self.connection, Connection::Down);
        let was_up = !connection.is_down() && !connection.waits_for_room();
        let stopped = matches!(end, End::Stopped);
        connection.close(if stopped { SHUTDOWN_GRACE } else { CLOSE_GRACE }).await;
        self.closing_links.clone().over().await;
        if stopped && was_up {
            let mut work = Work::default();
            if outlives {
                // The turn goes on without the gateway. Texts so far are appended in case it is lost.
                self.flush_texts(&mut work);
            } else {
                // The agent was stopped with its link, so how the turn ended is unknown.
                self.lose_all("the gateway was shut down", &mut work);
            }
            if !work.drafts.is_empty() && self.commit_now(work).await.is_err() {
                // The next start finds the turn open and ends it in the same way.
                tracing::warn!("the end of the session's turn could not be written");
            }
        }
        // Late requests are dropped: their callers wake another keeper, or are told that the gateway closes.
        self.after_durable.finish().await;
    }
}

/// Runs a keeper. After one that panicked or failed, a new keeper recovers the session.
fn supervise(
    shared: Arc<Shared>,
    id: SessionId,
    number: u64,
    done: Done,
    work: impl Future<Output = Exit> + Send + 'static,
) {
    let began = Instant::now();
    let work = tokio::spawn(work);
    shared.register_task(number, work.abort_handle());
    tokio::spawn(async move {
        let ended = work.await;
        shared.remove_ended(&id, number);
        drop(done);
        if let Err(error) = &ended
            && error.is_panic()
        {
            tracing::error!(session = %id, error = %Chain(error), "a keeper panicked");
        }
        let is_clean = matches!(ended, Ok(Exit::Clean));
        if is_clean || shared.is_closing() || shared.states.get(&id).is_none() {
            shared.restarts.forget(&id);
        } else if let Some(pause) = shared.restarts.begin_pause(&id, began.elapsed()) {
            restart_after(pause, shared, id).await;
        }
    });
}

/// Starts a new keeper after the pause. A gateway that is closed meanwhile does not have to wait for it.
async fn restart_after(pause: Duration, shared: Arc<Shared>, id: SessionId) {
    let weak = Arc::downgrade(&shared);
    drop(shared);
    tokio::time::sleep(pause).await;
    let Some(shared) = weak.upgrade() else { return };
    shared.restarts.end_pause(&id);
    if shared.states.get(&id).is_none() {
        return shared.restarts.forget(&id);
    }
    // `None` while the gateway shuts down: the next start recovers the session.
    if shared.wake(&id).is_some() {
        tracing::debug!(session = %id, after = ?pause, "a keeper ended early, and a new one took its place");
    }
}

/// How a keeper ended.
enum Exit {
    Clean,
    /// A turn or a prompt may be open.
    Interrupted,
}

/// A failing disk is reported by the log, once, and not for every session that waits for it. Any other error
/// is a warning once: the session is tried again and again.
fn log_failed_claim(shared: &Shared, id: &SessionId, error: &RequestError) {
    let is_expected = matches!(error, RequestError::Closing | RequestError::UnknownSession(_));
    let is_known = is_expected || disk_failure::current(&shared.log).is_some();
    let error = Chain(error).to_string();
    if is_known || !shared.restarts.is_new(id, &error) {
        tracing::debug!(error, "the session cannot be opened");
    } else {
        tracing::warn!(error, "the session cannot be opened");
    }
}

/// The span of a keeper. Its level is the highest, so that lines of every level have it.
fn session_span(id: &SessionId, agent: &str) -> tracing::Span {
    tracing::error_span!(parent: None, "session", session = %id, agent)
}

/// A time of the machine on the clock of the deadlines.
fn moment(time: Time) -> Instant {
    Instant::now() + Duration::from_millis(time.0.saturating_sub(Time::now().0))
}
