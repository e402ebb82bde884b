//! Deadlines: every wait for an agent or a person has one. Only activity of the agent renews it.

use super::away::AgentWait;
use super::commit::{Work, report_refused};
use super::connection::Connection;
use super::{AppenderClosed, Keeper, moment};
use crate::settings::OnTimeout;
use std::time::Duration;
use tokio::time::Instant;
use turnstream_adapter::Command;
use turnstream_model::event::{ApprovalOutcome, By, ErrorClass, QuestionOutcome, Resolution, TurnError};
use turnstream_model::id::{ApprovalId, PromptId, QuestionId};
use turnstream_model::signal::Ending;
use turnstream_model::time::Time;

/// How long the loop sleeps at most.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// How many times longer than `idle` an agent may work in the background before it is released.
const BACKGROUND_PATIENCE: u32 = 12;

/// How long a quiet session without a link stays in memory.
const IDLE_WITHOUT_LINK: Duration = Duration::from_secs(15);

/// The running deadlines of a session.
pub(super) struct Clocks {
    /// When the turn of a sent prompt must have begun.
    start: Option<Instant>,
    /// Set while the next prompt waits for the agent.
    pub(super) agent_wait: Option<AgentWait>,
    /// Until when the agent waits before it repeats a model call.
    pub(super) retry: Option<Instant>,
    /// The agent's last activity.
    activity: Instant,
    /// Set after the agent was silent for too long and its status was asked for: when it must have answered.
    stalled: Option<Instant>,
    /// Set when the open turn was cancelled.
    stop: Option<Stop>,
    /// Set when a sent prompt was cancelled before it had a turn.
    stop_prompt: Option<Stop>,
    /// Since when the deadlines stand still, because the keeper waits for the disk.
    frozen: Option<Instant>,
    /// Prompts of which the agent cannot tell whether they ran.
    pub(super) unknown: Vec<PromptId>,
}

/// A turn or a prompt that was cancelled.
struct Stop {
    /// When it must have ended. After that the agent is stopped by force.
    by: Instant,
    /// Whether the agent's adapter took the command.
    told: bool,
}

impl Clocks {
    pub(super) fn new() -> Self {
        Self {
            start: None,
            agent_wait: None,
            retry: None,
            activity: Instant::now(),
            stalled: None,
            stop: None,
            stop_prompt: None,
            frozen: None,
            unknown: Vec::new(),
        }
    }

    pub(super) fn sent(&mut self, within: Duration) {
        self.start = Some(self.now() + within);
        self.activity = self.now();
    }

    pub(super) fn active(&mut self) {
        self.activity = self.now();
        self.stalled = None;
    }

    pub(super) fn last_activity(&self) -> Instant {
        self.activity
    }

    /// Tells the agent to stop the open turn, and starts the deadline for it. The agent is told once: a
    /// second command might stop a turn that the agent began in between.
    pub(super) async fn tell_to_stop(&mut self, connection: &Connection, within: Duration) {
        if self.stop.is_none() {
            let by = self.now() + within;
            self.stop = Some(Stop { by, told: connection.tell(Command::Cancel).await });
        }
    }

    /// Tells the agent to stop a prompt, once, and starts the deadline for it.
    pub(super) async fn tell_to_stop_prompt(
        &mut self,
        connection: &Connection,
        within: Duration,
        name: String,
    ) {
        if self.stop_prompt.is_none() {
            let by = self.now() + within;
            self.stop_prompt = Some(Stop { by, told: connection.tell(Command::CancelPrompt(name)).await });
        }
    }

    /// A cancelled prompt has become a turn. If the turn goes on, it has the prompt's deadline.
    pub(super) fn prompt_settled(&mut self, turn_goes_on: bool) {
        if let Some(stop) = self.stop_prompt.take()
            && turn_goes_on
        {
            self.stop.get_or_insert(stop);
        }
    }

    /// The link was lost: the next one has to be told again.
    pub(super) fn forget_stop_of_prompt(&mut self) {
        self.stop_prompt = None;
    }

    /// Whether the agent was told to stop the open turn or a prompt.
    pub(super) fn was_told_to_stop(&self) -> bool {
        [&self.stop, &self.stop_prompt].into_iter().flatten().any(|stop| stop.told)
    }

    /// Stops all deadlines: the keeper begins to wait for the disk.
    pub(super) fn freeze(&mut self) {
        self.frozen = Some(Instant::now());
    }

    /// Moves all deadlines by the length of the wait, and returns it.
    pub(super) fn thaw(&mut self) -> Duration {
        let waited = self.frozen.take().map(|since| since.elapsed()).unwrap_or_default();
        let stop = self.stop.as_mut().map(|stop| &mut stop.by);
        let agent_wait = self.agent_wait.as_mut().map(|agent_wait| &mut agent_wait.until);
        let stop_prompt = self.stop_prompt.as_mut().map(|stop| &mut stop.by);
        let (start, activity) = (self.start.as_mut(), Some(&mut self.activity));
        let running = [start, agent_wait, activity, self.stalled.as_mut(), stop, stop_prompt];
        for moment in running.into_iter().flatten() {
            *moment += waited;
        }
        waited
    }

    /// Restarts the deadline for a sent prompt to begin, if one runs.
    pub(super) fn start_again(&mut self, within: Duration) {
        self.start = self.start.map(|_| self.now() + within);
    }

    fn now(&self) -> Instant {
        self.frozen.unwrap_or_else(Instant::now)
    }

    /// A turn has ended. A prompt that waited behind it has its whole time to begin.
    pub(super) fn turn_ended(&mut self, within: Duration) {
        self.active();
        self.stop = None;
        self.start_again(within);
    }
}

impl Keeper {
    /// The next deadline.
    pub(super) fn next_deadline(&self) -> Instant {
        let making = match &self.connection {
            Connection::Connecting(making) => Some(making.deadline),
            Connection::Down | Connection::WaitingForRoom(_) | Connection::Up(..) => None,
        };
        let deadlines = [
            self.machine.deadline().map(moment),
            making,
            self.away_deadline(),
            self.recovery_deadline(),
            self.start_deadline(),
            self.silence_deadline(),
            self.clocks.stalled,
            self.stop_deadline(),
            self.stop_prompt_deadline(),
            self.person_deadline(),
            self.idle_deadline(),
            self.alarm_deadline(),
            self.parked_link_deadline(),
            self.redactor.deadline(),
        ];
        let soonest = deadlines.into_iter().flatten().min();
        soonest.unwrap_or_else(|| Instant::now() + LONGEST_SLEEP)
    }

    fn start_deadline(&self) -> Option<Instant> {
        let waits = self.recovery.is_none()
            && self.machine.open_turn().is_none()
            && !self.machine.sent_prompts().is_empty();
        self.clocks.start.filter(|_| waits)
    }

    /// When the agent has been silent for too long. Waiting for a person or for a retry does not count.
    fn silence_deadline(&self) -> Option<Instant> {
        let talks = self.machine.open_turn().is_some()
            && !self.machine.is_waiting()
            && self.recovery.is_none()
            && self.clocks.stalled.is_none();
        let since = self.clocks.retry.map_or(self.clocks.activity, |until| until.max(self.clocks.activity));
        talks.then(|| since + self.shared.settings.inactivity)
    }

    fn stop_deadline(&self) -> Option<Instant> {
        self.clocks.stop.as_ref().map(|stop| stop.by)
    }

    /// A recovery has a deadline of its own.
    fn stop_prompt_deadline(&self) -> Option<Instant> {
        self.clocks.stop_prompt.as_ref().filter(|_| self.recovery.is_none()).map(|stop| stop.by)
    }

    /// When the oldest approval or question expires. None does while the disk fails: an answer would be
    /// refused.
    fn person_deadline(&self) -> Option<Instant> {
        if self.outage.is_on() {
            return None;
        }
        Some(self.waits.oldest()? + self.shared.settings.approval?)
    }

    /// None while the session waits for room for its link: the recovery has not begun.
    fn recovery_deadline(&self) -> Option<Instant> {
        let begun = self.recovery.as_ref().filter(|_| !self.connection.waits_for_room());
        begun.map(|recovery| recovery.deadline)
    }

    /// When a quiet session leaves memory. Without a link only its place in memory is at stake, and the next
    /// request reads it from the log.
    fn idle_deadline(&self) -> Option<Instant> {
        let idle = self.shared.settings.idle;
        let within = if self.connection.is_down() {
            idle.min(IDLE_WITHOUT_LINK)
        } else if self.connection.works_in_background() {
            idle.saturating_mul(BACKGROUND_PATIENCE)
        } else {
            idle
        };
        self.is_resting().then(|| self.clocks.activity + within)
    }

    /// Handles every deadline that has passed. True when the session has been idle for so long that its
    /// keeper can end.
    pub(super) async fn deadlines(&mut self) -> Result<bool, AppenderClosed> {
        let now = Instant::now();
        let due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);

        let mut work = Work::default();
        self.release_texts(&mut work);
        // Compared on the machine's clock: converted to an `Instant` it would always be a little later than
        // `now`.
        if self.machine.deadline().is_some_and(|deadline| deadline <= Time::now()) {
            self.flush_texts(&mut work);
            self.step(&mut work, |machine, step| machine.tick(step));
        }
        self.commit(work).await?;

        if let Connection::Connecting(making) = &self.connection
            && making.deadline <= now
        {
            self.close_link();
            let after = self.shared.settings.connect;
            let problem = format!("the agent did not answer within {after:?}");
            self.connect_failed(TurnError::new(ErrorClass::Timeout, problem)).await?;
        }
        if due(self.away_deadline()) {
            self.not_reached().await?;
        }
        if due(self.recovery_deadline()) {
            let after = self.shared.settings.recovery;
            let error =
                TurnError::new(ErrorClass::Timeout, format!("the recovery took longer than {after:?}"));
            self.link_lost(error).await?;
        }
        if due(self.start_deadline()) {
            self.never_started().await?;
        }
        if due(self.stop_deadline()) {
            self.clocks.stop = None;
            self.end_by_force(Ending::cancelled()).await?;
        }
        if due(self.stop_prompt_deadline()) {
            self.end_unwanted_prompts().await?;
        }
        if due(self.clocks.stalled) {
            self.clocks.stalled = None;
            let after = self.shared.settings.inactivity;
            let message = format!("the agent was silent for {after:?} and was stopped");
            self.end_by_force(Ending::failed(TurnError::new(ErrorClass::Stalled, message))).await?;
        }
        if due(self.silence_deadline()) {
            // The end of the turn may have been missed: the agent's status is asked for before it is stopped.
            self.clocks.stalled = Some(Instant::now() + self.shared.settings.status_probe);
            let mut work = Work::default();
            self.step(&mut work, |machine, step| machine.doubt(step));
            self.commit(work).await?;
        }
        if due(self.person_deadline()) {
            self.nobody_answered(now).await?;
        }
        if due(self.parked_link_deadline()) {
            tracing::debug!("the session is parked, and its agent is released");
            self.close_link();
        }
        self.continue_if_due().await?;
        Ok(due(self.idle_deadline()))
    }

    /// The agent took prompts and did not begin in time. It is stopped, so that it does not begin later.
    async fn never_started(&mut self) -> Result<(), AppenderClosed> {
        tracing::warn!("the agent did not begin with a prompt");
        self.connection.tell(Command::Cancel).await;
        self.close_link();
        let mut work = Work::default();
        for (prompt, _) in self.machine.sent_prompts() {
            let ended = self.step(&mut work, |machine, step| machine.never_started(&prompt, step));
            report_refused(ended, "end a prompt that never started");
        }
        self.commit(work).await
    }

    /// The agent did not report what became of cancelled prompts. Their turns end `cancelled`. An agent
    /// that outlives its link keeps it, so that a prompt which begins later is stopped. Any other agent is
    /// stopped.
    async fn end_unwanted_prompts(&mut self) -> Result<(), AppenderClosed> {
        let told = self.clocks.stop_prompt.take().is_some_and(|stop| stop.told);
        let outlives = self.agent.as_ref().is_some_and(|agent| agent.outlives_gateway());
        if self.machine.open_turn().is_none() && !(told && outlives) {
            self.close_link();
        }
        let mut work = Work::default();
        for (prompt, _) in self.machine.cancelling_prompts() {
            self.step(&mut work, |machine, step| machine.stop_unstarted(&prompt, step));
        }
        self.commit(work).await
    }

    /// Expires approvals and questions that were not answered in time.
    async fn nobody_answered(&mut self, now: Instant) -> Result<(), AppenderClosed> {
        let Some(limit) = self.shared.settings.approval else { return Ok(()) };
        let late = |since: Instant| since + limit <= now;
        let asks: Vec<ApprovalId> =
            self.waits.asks.iter().filter(|(_, ask)| late(ask.since)).map(|(id, _)| id.clone()).collect();
        let questions: Vec<QuestionId> = self
            .waits
            .questions
            .iter()
            .filter(|(_, asked)| late(asked.since))
            .map(|(id, _)| id.clone())
            .collect();
        let mut work = Work::default();
        let asked_in = asks.iter().filter_map(|approval| self.machine.turn_of_ask(approval));
        let questioned_in = questions.iter().filter_map(|question| self.machine.turn_of_question(question));
        // Approvals and questions outside a turn have no turn to cancel.
        let turn = asked_in.chain(questioned_in).next().cloned();
        for approval in asks {
            self.decide(&approval, Resolution::new(ApprovalOutcome::Expired, By::Policy), &mut work);
            // Also when the machine refused: it must not expire again.
            self.waits.asks.remove(&approval);
        }
        for question in questions {
            self.reject_question(&question, QuestionOutcome::Expired, &mut work);
            self.waits.questions.remove(&question);
        }
        if let Some(turn) = turn.filter(|_| self.shared.settings.on_timeout == OnTimeout::Cancel) {
            self.cancel_turn(&turn, By::Policy, &mut work);
        }
        self.commit(work).await
    }
}
