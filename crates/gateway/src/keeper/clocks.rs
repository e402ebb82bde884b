//! Every wait on an agent or a person has a deadline. Only real activity renews it.

use super::away::Reach;
use super::commit::Work;
use super::connection::Connection;
use super::{Gone, Keeper, moment, now as wall_clock};
use crate::settings::OnTimeout;
use std::time::Duration;
use tokio::time::Instant;
use turnstream_agents::Command;
use turnstream_model::event::{ApprovalOutcome, By, ErrorClass, QuestionOutcome, Resolution, TurnError};
use turnstream_model::id::{ApprovalId, PromptId, QuestionId};
use turnstream_model::signal::Ending;

/// Without any deadline the loop still looks around this often.
const SELDOM: Duration = Duration::from_secs(3600);

/// Since when, and until when.
pub(super) struct Clocks {
    /// A prompt was sent; its turn must have begun by then.
    start: Option<Instant>,
    /// The next prompt waits for the agent.
    pub(super) reach: Option<Reach>,
    /// The agent said that it waits until then.
    pub(super) retry: Option<Instant>,
    /// The agent last did something.
    activity: Instant,
    /// It was silent for too long and was asked; it must have done something by then.
    stalled: Option<Instant>,
    /// The open turn is to end.
    stop: Option<Stop>,
    /// A prompt that was sent and has no turn is to stop.
    stop_prompt: Option<Stop>,
    /// Since when they stand still, because the keeper waits for the disk.
    frozen: Option<Instant>,
    /// Prompts of which the agent cannot say whether they ran.
    pub(super) unknown: Vec<PromptId>,
}

/// Something that is to end.
struct Stop {
    /// It must have ended by then.
    by: Instant,
    /// The agent's adapter has heard it. One that does not listen is stopped by force when the time is over.
    told: bool,
}

impl Clocks {
    pub(super) fn new() -> Self {
        Self {
            start: None,
            reach: None,
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

    /// Tells the agent to stop; from then on it has a while to do so. It is told once, however often that is wanted: a
    /// second word might hit a turn that it has begun by itself meanwhile.
    pub(super) async fn tell_to_stop(&mut self, connection: &Connection, within: Duration) {
        if self.stop.is_none() {
            let by = self.now() + within;
            self.stop = Some(Stop { by, told: connection.tell(Command::Cancel).await });
        }
    }

    /// Tells the agent to stop a prompt, once; from then on it has a while to do so.
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

    /// The prompt that was to stop has a turn, which is to end by the same time; or its turn is over.
    pub(super) fn prompt_settled(&mut self, turn_goes_on: bool) {
        if let Some(stop) = self.stop_prompt.take()
            && turn_goes_on
        {
            self.stop.get_or_insert(stop);
        }
    }

    /// Another link has to be told again.
    pub(super) fn forget_stop_of_prompt(&mut self) {
        self.stop_prompt = None;
    }

    /// The agent was told to stop the open turn, or a prompt.
    pub(super) fn was_told_to_stop(&self) -> bool {
        [&self.stop, &self.stop_prompt].into_iter().flatten().any(|stop| stop.told)
    }

    /// The keeper begins to wait for the disk. What is started from here on has its whole time afterwards.
    pub(super) fn freeze(&mut self) {
        self.frozen = Some(Instant::now());
    }

    /// It has waited so long, and nothing has run meanwhile.
    pub(super) fn thaw(&mut self) -> Duration {
        let waited = self.frozen.take().map(|since| since.elapsed()).unwrap_or_default();
        let stop = self.stop.as_mut().map(|stop| &mut stop.by);
        let reach = self.reach.as_mut().map(|reach| &mut reach.until);
        let stop_prompt = self.stop_prompt.as_mut().map(|stop| &mut stop.by);
        let (start, activity) = (self.start.as_mut(), Some(&mut self.activity));
        let running = [start, reach, activity, self.stalled.as_mut(), stop, stop_prompt];
        for moment in running.into_iter().flatten() {
            *moment += waited;
        }
        waited
    }

    /// A prompt that was sent has so long from now to begin.
    pub(super) fn start_again(&mut self, within: Duration) {
        self.start = self.start.map(|_| self.now() + within);
    }

    fn now(&self) -> Instant {
        self.frozen.unwrap_or_else(Instant::now)
    }

    /// A prompt that waited behind that turn has its whole time to begin.
    pub(super) fn turn_ended(&mut self, within: Duration) {
        self.active();
        self.stop = None;
        self.start_again(within);
    }
}

impl Keeper {
    /// When the loop has to look at the clocks again.
    pub(super) fn next_deadline(&self) -> Instant {
        let making = match &self.connection {
            Connection::Making(making) => Some(making.deadline),
            Connection::Down | Connection::Up(_) => None,
        };
        let deadlines = [
            self.machine.deadline().map(moment),
            making,
            self.away_deadline(),
            self.recovery.as_ref().map(|recovery| recovery.deadline),
            self.start_deadline(),
            self.silence_deadline(),
            self.clocks.stalled,
            self.stop_deadline(),
            self.stop_prompt_deadline(),
            self.person_deadline(),
            self.idle_deadline(),
            self.redactor.deadline(),
        ];
        let soonest = deadlines.into_iter().flatten().min();
        soonest.unwrap_or_else(|| Instant::now() + SELDOM)
    }

    fn start_deadline(&self) -> Option<Instant> {
        let waits = self.recovery.is_none()
            && self.machine.open_turn().is_none()
            && !self.machine.sent_prompts().is_empty();
        self.clocks.start.filter(|_| waits)
    }

    /// An agent that waits for a person, or for a time it named, is not silent.
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

    /// While the agent is asked what it has, that has a deadline of its own.
    fn stop_prompt_deadline(&self) -> Option<Instant> {
        self.clocks.stop_prompt.as_ref().filter(|_| self.recovery.is_none()).map(|stop| stop.by)
    }

    /// None runs while the disk fails: an answer would be refused.
    fn person_deadline(&self) -> Option<Instant> {
        if self.outage.is_on() {
            return None;
        }
        Some(self.waits.oldest()? + self.shared.settings.approval?)
    }

    fn idle_deadline(&self) -> Option<Instant> {
        let quiet = self.machine.is_quiet() && self.recovery.is_none();
        quiet.then(|| self.clocks.activity + self.shared.settings.idle)
    }

    /// Does what is due. True when the session has been quiet for so long that it can be put away.
    pub(super) async fn deadlines(&mut self) -> Result<bool, Gone> {
        let now = Instant::now();
        let due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);

        let mut work = Work::default();
        self.release_texts(&mut work);
        // By the machine's own clock: as a moment of this one it would always be a little later than `now`.
        if self.machine.deadline().is_some_and(|deadline| deadline <= wall_clock()) {
            self.settle_texts(&mut work);
            self.step(&mut work, |machine, step| machine.tick(step));
        }
        self.commit(work).await?;

        if let Connection::Making(making) = &self.connection
            && making.deadline <= now
        {
            self.let_go();
            let after = self.shared.settings.connect;
            let problem = format!("the agent did not answer within {after:?}");
            self.not_made(TurnError::new(ErrorClass::Timeout, problem)).await?;
        }
        if due(self.away_deadline()) {
            self.not_reached().await?;
        }
        if due(self.recovery.as_ref().map(|recovery| recovery.deadline)) {
            let after = self.shared.settings.recovery;
            let error = TurnError::new(ErrorClass::Timeout, format!("nothing was settled within {after:?}"));
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
            // Its end may have been missed: it is asked before it is stopped.
            self.clocks.stalled = Some(Instant::now() + self.shared.settings.truth);
            let mut work = Work::default();
            self.step(&mut work, |machine, step| machine.doubt(step));
            self.commit(work).await?;
        }
        if due(self.person_deadline()) {
            self.nobody_answered(now).await?;
        }
        Ok(due(self.idle_deadline()))
    }

    /// The agent took prompts and never began. It is stopped, so that it does not begin after all.
    async fn never_started(&mut self) -> Result<(), Gone> {
        self.connection.tell(Command::Cancel).await;
        self.let_go();
        let mut work = Work::default();
        for (prompt, _) in self.machine.sent_prompts() {
            let ended = self.step(&mut work, |machine, step| machine.never_started(&prompt, step));
            debug_assert!(ended.is_ok(), "a sent prompt without an open turn can be ended");
        }
        self.commit(work).await
    }

    /// The agent did not say what became of prompts that are to stop. Their turns end cancelled. One that goes on without its
    /// link keeps it, so that what begins after all is stopped; any other is stopped with its link.
    async fn end_unwanted_prompts(&mut self) -> Result<(), Gone> {
        let told = self.clocks.stop_prompt.take().is_some_and(|stop| stop.told);
        let outlives = self.agent.as_ref().is_some_and(|agent| agent.outlives_gateway());
        if self.machine.open_turn().is_none() && !(told && outlives) {
            self.let_go();
        }
        let mut work = Work::default();
        for (prompt, _) in self.machine.cancelling_prompts() {
            self.step(&mut work, |machine, step| machine.stop_unstarted(&prompt, step));
        }
        self.commit(work).await
    }

    async fn nobody_answered(&mut self, now: Instant) -> Result<(), Gone> {
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
        // What waits outside of turns has none to cancel.
        let turn = asked_in.chain(questioned_in).next().cloned();
        for approval in asks {
            self.decide(&approval, Resolution::new(ApprovalOutcome::Expired, By::Policy), &mut work);
            // Whatever came of it: it does not wait any more.
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
