//! Follows a session: shows its events, answers its asks, and ends with the turn or the session.

use super::RunError;
use super::ask::{Ask, Extent};
use super::interrupts::{self, Interrupts};
use super::pending_asks::{Answerer, PendingAsks, tell};
use crate::client::{Client, ClientError, Events, Reach, Received, segment};
use crate::escape::{self, safe};
use crate::exit::Exit;
use crate::follow_up::FollowUp;
use crate::out;
use crate::record::Record;
use crate::show::{self, Answers, Asides, Asks, Prompts, Screen, Show, Style};
use crate::unattended::{self, Afterwards};
use serde_json::{Value, json};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};
use turnstream_model::event::Known;

/// How often the status line is redrawn.
const TICK: Duration = Duration::from_secs(1);

/// When the command ends.
pub(crate) enum Goal {
    /// At the end of the turn with this prompt. The turn is known once the agent has taken the prompt.
    Turn { prompt: String, turn: Option<String> },
    /// At the end of the session.
    Session,
}

/// How events are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Json,
}

/// The parameters of a [`Follower`].
pub(crate) struct Following<'a> {
    pub(crate) client: &'a Client,
    /// The flags for the gateway, for commands that are printed.
    pub(crate) reach: &'a Reach,
    pub(crate) session: String,
    pub(crate) goal: Goal,
    pub(crate) answerer: Answerer,
    /// What the permissions of the session do with asks.
    pub(crate) asks: Asks,
    pub(crate) form: Form,
    /// Whether a failed turn may be continued.
    pub(crate) may_continue: bool,
}

/// The next thing to handle.
enum Step {
    /// A signal came. The next step is the cancel.
    Interrupted,
    /// Cancel the turn; whether the person was told.
    Cancel(bool),
    Received(Result<Received, ClientError>),
    Typed(Option<String>),
    Tick,
}

/// Follows one session.
pub(crate) struct Follower<'a> {
    client: &'a Client,
    session: String,
    goal: Goal,
    asks: Asks,
    form: Form,
    pending_asks: PendingAsks,
    follow_up: Rc<FollowUp>,
    screen: Screen,
    show: Show,
    /// Ids of open asks of other turns.
    awaited: Vec<String>,
    begun: Instant,
    cancelled: bool,
    may_continue: bool,
    /// The exit of our turn, which has failed and may be continued.
    failed: Option<Exit>,
}

impl<'a> Follower<'a> {
    pub(crate) fn new(following: Following<'a>) -> Self {
        let Following { client, reach, session, goal, answerer, asks, form, may_continue } = following;
        let answers = if out::is_terminal() { Answers::Streamed } else { Answers::Whole };
        let prompts = match goal {
            Goal::Turn { .. } => Prompts::Hidden,
            Goal::Session => Prompts::Shown,
        };
        let follow_up = Rc::new(FollowUp::new(reach, &session));
        Self {
            pending_asks: PendingAsks::new(client, &session, answerer, Rc::clone(&follow_up)),
            follow_up,
            screen: Screen::new(Asides::Apart),
            show: Show::new(prompts, asks, answers),
            client,
            session,
            goal,
            asks,
            form,
            awaited: Vec::new(),
            begun: Instant::now(),
            cancelled: false,
            may_continue,
            failed: None,
        }
    }

    /// Shows everything until the goal is reached. Returns the exit.
    pub(crate) async fn follow(
        mut self,
        mut events: Events,
        mut interrupts: Interrupts,
    ) -> Result<Exit, RunError> {
        let mut tick = tokio::time::interval(TICK);
        let most = match self.goal {
            Goal::Turn { .. } => 2,
            Goal::Session => 1,
        };
        loop {
            let step = if interrupts.count() > 0 && !self.cancelled {
                Step::Cancel(interrupts.are_told())
            } else {
                tokio::select! {
                    biased;
                    () = interrupts.next() => Step::Interrupted,
                    received = events.next() => Step::Received(received),
                    line = self.pending_asks.line() => Step::Typed(line),
                    _ = tick.tick() => Step::Tick,
                }
            };
            // A step can wait for the gateway. A person who leaves does not.
            let done = tokio::select! {
                biased;
                () = interrupts.reach(most) => Some(Exit::Cancelled),
                done = self.step(step) => done?,
            };
            if let Some(exit) = done {
                self.screen.end_line()?;
                return Ok(exit);
            }
        }
    }

    async fn step(&mut self, step: Step) -> Result<Option<Exit>, RunError> {
        match step {
            Step::Interrupted => {}
            Step::Cancel(is_told) => {
                self.cancelled = true;
                if !is_told {
                    self.screen.line(Style::Warning, &interrupts::told())?;
                }
                self.cancel().await?;
            }
            Step::Received(received) => return self.received(received).await,
            Step::Typed(line) => self.pending_asks.typed(line, &mut self.screen).await?,
            Step::Tick => self.status()?,
        }
        Ok(None)
    }

    async fn received(&mut self, received: Result<Received, ClientError>) -> Result<Option<Exit>, RunError> {
        match received {
            Ok(Received::Outcome(outcome)) if outcome["outcome"] == "gone" => Ok(Some(Exit::SessionEnded)),
            Ok(Received::Outcome(outcome)) => {
                if let Some(reset) = show::reset(Record(&outcome)) {
                    self.screen.line(Style::Warning, &reset)?;
                }
                Ok(None)
            }
            Ok(Received::Event { line, event }) => self.event(&line, Record(&event)).await,
            Ok(Received::Away(error)) => {
                self.screen.line(Style::Warning, &show::away(&error))?;
                Ok(None)
            }
            Err(error) => {
                tell(&error, &mut self.screen)?;
                if let ClientError::Unreachable { .. } = error {
                    let told = safe!["what it does may go on there; to follow it: ", self.follow_up.attach()];
                    self.screen.line(Style::Faint, &told)?;
                }
                Ok(Some(match error {
                    ClientError::Refused { kind, .. } if kind == "unknown-session" => Exit::SessionEnded,
                    ClientError::Unreachable { .. }
                    | ClientError::Address(_)
                    | ClientError::Odd { .. }
                    | ClientError::Refused { .. } => Exit::GatewayAway,
                }))
            }
        }
    }

    /// Shows one event. Returns the exit if it reaches the goal.
    pub(crate) async fn event(&mut self, line: &str, event: Record<'_>) -> Result<Option<Exit>, RunError> {
        let was_known = self.turn().is_some();
        let is_ours = self.is_ours(event);
        if self.cancelled && !was_known && self.turn().is_some() {
            self.cancel_turn().await?;
        }
        if self.form == Form::Json {
            out::print(&safe![escape::json(line), "\n"])?;
        }
        if !is_ours {
            self.others(event)?;
            return Ok(None);
        }
        if event.event_type() == Some(Known::SessionUpdated) {
            self.permissions(event);
        }
        self.show_event(event)?;
        match event.event_type() {
            Some(Known::ApprovalRequested) if self.asks == Asks::Answered => {
                let ask = Ask::approval(event, self.show.call(event));
                self.pending_asks.asked(ask, &mut self.screen).await?;
            }
            Some(Known::QuestionAsked) => {
                self.pending_asks.asked(Ask::question(event), &mut self.screen).await?
            }
            Some(Known::ApprovalResolved) => {
                self.pending_asks.settled(event.text("approval"), &mut self.screen)?
            }
            Some(Known::QuestionAnswered) => {
                self.pending_asks.settled(event.text("question"), &mut self.screen)?
            }
            _ => {}
        }
        Ok(self.ending(event))
    }

    /// An event of another turn. While that turn waits for an answer, ours cannot start.
    fn others(&mut self, event: Record<'_>) -> io::Result<()> {
        match event.event_type() {
            Some(Known::ApprovalRequested) if self.asks == Asks::Answered => self.before_us(event)?,
            Some(Known::QuestionAsked) => self.before_us(event)?,
            Some(Known::ApprovalResolved) => self.awaited.retain(|id| id != event.text("approval").exact()),
            Some(Known::QuestionAnswered) => self.awaited.retain(|id| id != event.text("question").exact()),
            _ => {}
        }
        Ok(())
    }

    /// Shows an ask of another turn, and the command that answers it.
    pub(crate) fn before_us(&mut self, event: Record<'_>) -> io::Result<()> {
        let (ask, command) = match event.some_text("question") {
            Some(id) => (Ask::question(event), self.follow_up.answer(id.exact())),
            None => {
                let command = self.follow_up.approve(event.text("approval").exact());
                (Ask::approval(event, self.show.call(event)), command)
            }
        };
        if self.turn().is_some() || self.awaited.iter().any(|id| id == ask.id()) {
            return Ok(());
        }
        self.awaited.push(ask.id().to_owned());
        for line in ask.lines(Extent::Folded, self.screen.width()) {
            self.screen.line(Style::Plain, &line)?;
        }
        let told = safe!["(another turn of the session waits for an answer; to give one: ", command, ")"];
        self.screen.line(Style::Warning, &told)
    }

    /// Keeps the state of items also while events are printed as JSON: asks show it.
    fn show_event(&mut self, event: Record<'_>) -> io::Result<()> {
        match self.form {
            Form::Text => self.show.event(event, &mut self.screen),
            Form::Json => self.show.event(event, &mut Screen::unseen()),
        }
    }

    /// Permissions can change during a turn.
    fn permissions(&mut self, event: Record<'_>) {
        if event.has("permissions") {
            self.asks = asks(event);
            self.show.set_asks(self.asks);
        }
    }

    /// The exit, if this event reaches the goal.
    fn ending(&mut self, event: Record<'_>) -> Option<Exit> {
        if event.event_type() == Some(Known::UnattendedSet) {
            self.may_continue = unattended::may_continue(event);
        }
        if let (Some(failed), Some(turn)) = (self.failed, self.turn()) {
            return match unattended::afterwards(turn, event) {
                Some(Afterwards::Over) => Some(failed),
                Some(Afterwards::Cancelled) => Some(Exit::Cancelled),
                Some(Afterwards::Continued(prompt)) => {
                    self.goal = Goal::Turn { prompt, turn: None };
                    self.failed = None;
                    None
                }
                None => (event.event_type() == Some(Known::SessionEnded)).then_some(Exit::SessionEnded),
            };
        }
        match (&self.goal, event.event_type()) {
            (Goal::Turn { .. }, Some(Known::TurnEnded)) => {
                let class = event.member("error").some_text("class").map(|class| class.exact());
                let exit = Exit::of_turn(event.text("outcome").exact(), class);
                if self.may_continue && matches!(exit, Exit::Failed(_)) {
                    self.failed = Some(exit);
                    return None;
                }
                Some(exit)
            }
            (Goal::Turn { prompt, .. }, Some(Known::PromptWithdrawn)) if event.is("prompt", prompt) => {
                let told = safe!["the prompt was withdrawn before the agent had it"];
                // The exit code does not depend on whether this line can be printed.
                drop(self.screen.line(Style::Warning, &told));
                Some(Exit::Cancelled)
            }
            (Goal::Turn { .. }, Some(Known::SessionEnded)) => Some(Exit::SessionEnded),
            (Goal::Session, Some(Known::SessionEnded)) => Some(Exit::Completed),
            _ => None,
        }
    }

    fn turn(&self) -> Option<&str> {
        match &self.goal {
            Goal::Turn { turn, .. } => turn.as_deref(),
            Goal::Session => None,
        }
    }

    /// Whether an event belongs to the turn with our prompt, or to no turn.
    fn is_ours(&mut self, event: Record<'_>) -> bool {
        let Goal::Turn { prompt, turn: ours } = &mut self.goal else { return true };
        let takes = match event.event_type() {
            Some(Known::TurnStarted) => event.list("prompts").any(|taken| *taken.0 == prompt.as_str()),
            Some(Known::PromptTaken) => event.is("prompt", prompt),
            _ => false,
        };
        let turn = event.some_text("turn").map(|turn| turn.exact());
        if takes {
            *ours = turn.map(str::to_owned);
        }
        turn.is_none() || turn == ours.as_deref()
    }

    /// Withdraws the prompt if it still waits in the queue. Otherwise cancels it at the agent, or cancels
    /// its turn. A turn that is not known here yet is cancelled when it is.
    async fn cancel(&mut self) -> Result<(), RunError> {
        let Goal::Turn { prompt, turn: None } = &self.goal else { return self.cancel_turn().await };
        let waiting = format!("/v1/sessions/{}/prompts/{}", segment(&self.session), segment(prompt));
        match self.client.delete(&waiting).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == Some("prompt-not-waiting") => {
                let body = json!({"prompt": prompt});
                self.post_cancel(body).await
            }
            Err(error) => Ok(tell(&error, &mut self.screen)?),
        }
    }

    async fn cancel_turn(&mut self) -> Result<(), RunError> {
        let body = json!({"turn": self.turn()});
        self.post_cancel(body).await
    }

    async fn post_cancel(&mut self, body: Value) -> Result<(), RunError> {
        let path = format!("/v1/sessions/{}/cancel", segment(&self.session));
        match self.client.post(&path, &body).await {
            Ok(_) => Ok(()),
            // It has just started or ended: an event will say so.
            Err(error) if matches!(error.kind(), Some("turn-not-open" | "prompt-not-sent")) => Ok(()),
            Err(error) => Ok(tell(&error, &mut self.screen)?),
        }
    }

    fn status(&mut self) -> io::Result<()> {
        if self.form == Form::Json || self.pending_asks.is_asking() {
            return Ok(());
        }
        let seconds = self.begun.elapsed().as_secs();
        let line = match (&self.goal, self.show.activity()) {
            (Goal::Session, None) => return self.screen.clear_status(),
            (Goal::Session, Some(tool)) => safe![tool, " \u{b7} Ctrl-C leaves"],
            (Goal::Turn { .. }, _) if self.failed.is_some() => {
                safe!["waiting to continue the turn \u{b7} ", seconds, " s \u{b7} Ctrl-C cancels"]
            }
            (Goal::Turn { turn: None, .. }, _) if !self.awaited.is_empty() => {
                safe!["another turn waits for an answer \u{b7} ", seconds, " s \u{b7} Ctrl-C cancels"]
            }
            (Goal::Turn { turn: None, .. }, _) => {
                safe!["waiting for the agent \u{b7} ", seconds, " s \u{b7} Ctrl-C cancels"]
            }
            (Goal::Turn { .. }, Some(tool)) => safe![tool, " \u{b7} ", seconds, " s \u{b7} Ctrl-C cancels"],
            (Goal::Turn { .. }, None) => safe!["working \u{b7} ", seconds, " s \u{b7} Ctrl-C cancels"],
        };
        self.screen.status(&line)
    }
}

/// What the permissions of a session, or of a change to it, do with asks.
pub(crate) fn asks(session: Record<'_>) -> Asks {
    match session.text("permissions").exact() {
        "allow" | "deny" => Asks::ByRule,
        _ => Asks::Answered,
    }
}
