//! The keeper of one session: the one task that holds its appender, its turn machine and its link to the agent.
//!
//! It takes a request, an observation or a deadline at a time, folds it into events, and hands those to the log. It waits
//! for the disk only where a promise needs it: before a prompt leaves for the agent, before an answer does.

mod aftermath;
mod away;
mod clocks;
mod commit;
mod connection;
mod ears;
mod handle;
mod keys;
mod observe;
mod outage;
mod recover;
mod requests;
mod waits;

pub(crate) use handle::Handle;
pub(crate) use waits::option_for;

use crate::error::RequestError;
use crate::gateway::Shared;
use crate::redactor::Redactor;
use crate::request::Request;
use aftermath::Aftermath;
use clocks::Clocks;
use commit::Work;
use connection::{Connection, Farewell, News};
use ears::Ears;
use handle::Done;
use keys::Keys;
use outage::Outage;
use recover::Recovery;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio::time::Instant;
use turnstream_agents::{Agent, Command};
use turnstream_log::{Appender, Imported};
use turnstream_model::event::SessionPatch;
use turnstream_model::fold::{Session, State};
use turnstream_model::id::{Counters, Key, PromptId, SessionId};
use turnstream_model::machine::Machine;
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;
use waits::OpenWaits;

/// Requests that may wait for a keeper.
const REQUESTS: usize = 64;
/// How long an agent may take to end in good order when nothing is in a hurry.
const GOODBYE: Duration = Duration::from_secs(1);
/// And when the gateway closes: what is open has to be kept in what remains of a keeper's time.
const HURRY: Duration = Duration::from_millis(700);

/// How often news is taken in before a deadline is judged: as often as it takes for all that fits into a link.
const EARLIER_NEWS: usize = 3;

/// How long after its keeper failed a session is taken up again.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// The log takes nothing more from this keeper: it was closed, or another owner has the session.
#[derive(Debug)]
pub(crate) struct Gone;

/// What a new session begins with.
pub(crate) struct Origins {
    pub(crate) agent: String,
    pub(crate) cwd: String,
    pub(crate) title: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) patch: SessionPatch,
}

/// One session, awake.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    id: SessionId,
    appender: Appender,
    machine: Machine,
    ids: Counters,
    /// The session after everything that was appended, durable or not yet.
    session: Session,
    agent: Option<Arc<dyn Agent>>,
    /// Where the session comes from, if it did not begin here.
    imported: Option<Imported>,
    connection: Connection,
    /// The link is up and the agent behind it cannot be reached for now; why.
    away: Option<String>,
    /// Links that are ending. The next one waits for them, so that two of one session do not overlap. Only an adapter that
    /// never comes to an await is not waited for longer than a link waits for it.
    farewell: Farewell,
    /// What a dead owner left, while it is being settled.
    recovery: Option<Recovery>,
    /// The prompt that was last told to the agent, by its name there.
    at_agent: Option<String>,
    /// What prompts without an outcome say.
    contents: HashMap<PromptId, Vec<Value>>,
    /// Prompts that came with a key.
    keys: Keys,
    waits: OpenWaits,
    /// Answers of the open turn, by the agent's names: an agent that asks again is told again.
    decided: HashMap<Key, Command>,
    clocks: Clocks,
    redactor: Redactor,
    /// What the redactor lets pass of one signal; empty in between, and kept for its memory.
    passed: Vec<Signal>,
    outage: Outage,
    aftermath: Aftermath,
    ears: Ears,
    stop: watch::Receiver<bool>,
}

/// What came first.
enum Next {
    Stop,
    Request(Request),
    News(News),
    /// A deadline, or the disk: the next turn of the loop looks at both.
    Look,
}

/// Why a keeper's loop ended.
enum End {
    /// Nothing happened for long.
    Idle,
    /// The gateway closes.
    Stopped,
    /// The session has ended.
    Ended,
    /// See [`Gone`].
    Gone,
}

impl Keeper {
    /// The keeper of a new session. Its first events are durable when this returns.
    pub(crate) async fn create(
        shared: Arc<Shared>,
        id: SessionId,
        appender: Appender,
        agent: Arc<dyn Agent>,
        origins: Origins,
    ) -> Result<(), RequestError> {
        let (handle, requests, stop, done) = Handle::new();
        // Known before the session is shown: whoever sees it can use it.
        if !shared.keep(&id, handle.clone()) {
            return Err(RequestError::Closing);
        }
        let mut keeper = Self::new(
            shared,
            id.clone(),
            appender,
            &State::default(),
            Some(agent),
            Ears::new(requests),
            stop,
        );
        let Origins { agent, cwd, title, key, patch } = origins;
        let mut work = Work::default();
        keeper.step(&mut work, |machine, step| {
            machine.create(id, agent, cwd, title, key, step)?;
            machine.change(patch, step)
        })?;
        keeper.commit_now(work).await.map_err(|Gone| RequestError::Closing)?;
        turnstream_failpoint::reach("keeper.created");
        // By its time a repeat of the request tells what belongs to the creation from the first change after it.
        while keeper.session.created == Some(now()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (shared, id) = (keeper.shared.clone(), keeper.id.clone());
        supervise(shared, id, handle.number, done, keeper.keep());
        Ok(())
    }

    /// The keeper of a session that is in the log, after the one that is leaving has left. It takes up what was left open,
    /// if anything was.
    pub(crate) fn wake(shared: Arc<Shared>, id: SessionId, leaving: Option<Handle>) -> Handle {
        let (handle, requests, stop, done) = Handle::new();
        let (sharing, of) = (shared.clone(), id.clone());
        let work = async move {
            let mut ears = Ears::new(requests);
            let free = async {
                if let Some(leaving) = leaving {
                    leaving.ended().await;
                }
                Self::claim(&shared, &id).await
            };
            match ears.until_claimed(&shared.log, free).await {
                Ok((appender, state, imported)) => {
                    let agent = shared.agent(&state.session.agent);
                    let mut keeper = Self::new(shared, id, appender, &state, agent, ears, stop);
                    keeper.imported = imported;
                    match keeper.take_up(&state).await {
                        Ok(()) => keeper.keep().await,
                        Err(Gone) => Left::InTheMiddle,
                    }
                }
                Err(error) => {
                    ears.refuse_all(error).await;
                    Left::InTheMiddle
                }
            }
        };
        supervise(sharing, of, handle.number, done, work);
        handle
    }

    /// The right to append, the session as it is from there on, and where it comes from.
    async fn claim(
        shared: &Arc<Shared>,
        id: &SessionId,
    ) -> Result<(Appender, State, Option<Imported>), RequestError> {
        let appender = shared.log.claim(id).await.map_err(RequestError::of_claim)?;
        turnstream_failpoint::reach("keeper.claimed");
        let (log, of) = (shared.log.clone(), id.clone());
        let read = tokio::task::spawn_blocking(move || Ok((log.snapshot(&of)?, log.imported(&of)?)));
        let read = read.await.map_err(|error| RequestError::Log(error.to_string()))?;
        let (snapshot, imported) = read.map_err(RequestError::of_read)?;
        Ok((appender, snapshot.state, imported))
    }

    fn new(
        shared: Arc<Shared>,
        id: SessionId,
        appender: Appender,
        state: &State,
        agent: Option<Arc<dyn Agent>>,
        ears: Ears,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let aftermath = Aftermath::start(&shared, id.clone());
        let content =
            |prompt: &turnstream_model::fold::Prompt| (prompt.prompt.clone(), prompt.content.clone());
        Self {
            machine: Machine::resume(state),
            ids: state.counters,
            session: state.session.clone(),
            agent,
            imported: None,
            connection: Connection::Down,
            away: None,
            farewell: Farewell::default(),
            recovery: None,
            at_agent: None,
            contents: state.queue.iter().map(content).collect(),
            keys: Keys::resume(state, &shared.settings.secrets),
            waits: OpenWaits::resume(state),
            decided: waits::decisions(state),
            clocks: Clocks::new(),
            redactor: match state.open_turn() {
                Some(_) => Redactor::resumed(shared.settings.secrets.clone()),
                None => Redactor::new(shared.settings.secrets.clone()),
            },
            passed: Vec::new(),
            outage: Outage::new(&shared.log),
            aftermath,
            ears,
            stop,
            shared,
            id,
            appender,
        }
    }

    /// Works until the session is idle for long, has ended, or the gateway closes.
    async fn keep(mut self) -> Left {
        let end = loop {
            match self.turn_of_the_loop().await {
                Ok(None) => {}
                Ok(Some(end)) => break end,
                Err(Gone) => break End::Gone,
            }
        };
        let left = if matches!(end, End::Gone) { Left::InTheMiddle } else { Left::InOrder };
        self.leave(end).await;
        left
    }

    /// One thing after the other: what can be sent is sent, then whatever comes first.
    async fn turn_of_the_loop(&mut self) -> Result<Option<End>, Gone> {
        self.advance().await?;
        if self.machine.has_ended() && self.connection.is_down() && self.ears.is_empty() {
            return Ok(Some(End::Ended));
        }
        self.look_at_disk();
        let deadline = self.next_deadline();
        // Looked at first: an agent that talks without a pause must not hide that it was to stop.
        if deadline <= Instant::now() {
            self.hear_what_waits().await?;
            let idle = self.deadlines().await?;
            return Ok(idle.then_some(End::Idle));
        }
        let next = tokio::select! {
            biased;
            _ = self.stop.wait_for(|stop| *stop) => Next::Stop,
            request = self.ears.next() => request.map_or(Next::Stop, Next::Request),
            news = self.connection.news() => Next::News(news),
            () = self.outage.changed() => Next::Look,
            () = tokio::time::sleep_until(deadline) => Next::Look,
        };
        match next {
            // Without a handle left the gateway is gone, which is the same.
            Next::Stop => return Ok(Some(End::Stopped)),
            Next::Request(request) => self.request(request).await?,
            Next::News(news) => self.news(news).await?,
            Next::Look => {}
        }
        Ok(None)
    }

    /// Takes in what the agent has said before its deadline is judged: it may have kept it while nobody listened. Only what
    /// is there: it must come to an end.
    async fn hear_what_waits(&mut self) -> Result<(), Gone> {
        for _ in 0..EARLIER_NEWS {
            let Some(news) = self.connection.waiting().await else { break };
            self.news(news).await?;
        }
        Ok(())
    }

    /// Leaves nothing running and nothing unanswered.
    async fn leave(mut self, end: End) {
        self.ears.close();
        let outlives = self.agent.as_ref().is_some_and(|agent| agent.outlives_gateway());
        let connection = std::mem::replace(&mut self.connection, Connection::Down);
        let was_up = !connection.is_down();
        let stopped = matches!(end, End::Stopped);
        connection.close(if stopped { HURRY } else { GOODBYE }).await;
        self.farewell.clone().over().await;
        if stopped && was_up {
            let mut work = Work::default();
            if outlives {
                // The turn goes on. If it is never heard of again, what was said until here is there.
                self.settle_texts(&mut work);
            } else {
                // Its agent has just been stopped: what was open is over, and how it ended is not known.
                self.lose_all("the gateway was shut down", &mut work);
            }
            if !work.drafts.is_empty() {
                // If it cannot be kept, the next start finds the turn open and says the same.
                let _ = self.commit_now(work).await;
            }
        }
        // Requests that came too late are dropped: whoever asked wakes another keeper, or hears that the gateway closes.
        self.aftermath.finish().await;
    }
}

/// Runs a keeper. One that panics or fails leaves the session free and its agent stopped; another takes up what it left.
fn supervise(
    shared: Arc<Shared>,
    id: SessionId,
    number: u64,
    done: Done,
    work: impl Future<Output = Left> + Send + 'static,
) {
    let work = tokio::spawn(work);
    shared.may_abort(number, work.abort_handle());
    tokio::spawn(async move {
        let ended = work.await;
        shared.put_away(&id, number);
        drop(done);
        if !matches!(ended, Ok(Left::InOrder)) && !shared.is_closing() && shared.board.get(&id).is_some() {
            tokio::time::sleep(AFTER_FAILURE).await;
            // A gateway that closes meanwhile leaves the session to the next start.
            let _ = shared.wake(&id);
        }
    });
}

/// How a keeper left.
enum Left {
    InOrder,
    /// The session may be in the middle of something.
    InTheMiddle,
}

/// The wall clock, as the log writes it.
fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The moment of a time of the machine, which is never far away.
fn moment(time: Time) -> Instant {
    Instant::now() + Duration::from_millis(time.0.saturating_sub(now().0))
}
