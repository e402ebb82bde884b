//! The adapter task of one link: takes commands, and plays one run after the other as signals.

use super::afterwards::Afterwards;
use super::memory::{Decision, End, Memory, Plan, Progress, Record, Run};
use super::process::Process;
use super::scene::Scene;
use super::script::DemoScript;
use super::{DemoConfig, welcome};
use serde_json::Value;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use turnstream_adapter::{Command, LinkEnd, Observed, Observer, OpenWork, Start, WorkingDirectory};
use turnstream_model::event::{ApprovalOutcome, ErrorClass, Origin, QuestionOutcome, StopReason, TurnError};
use turnstream_model::id::Key;
use turnstream_model::signal::{Need, ProbedStatus, Signal};

/// The option of a permission that refuses and ends the turn.
pub(super) const STOP_OPTION: &str = "stop";
/// The last signals of a turn, which `duplicate` can repeat.
const REPEATABLE: usize = 256;

/// Plays the runs of one session.
pub(super) struct Player {
    pub(super) observer: Observer,
    inbox: mpsc::UnboundedReceiver<Command>,
    pub(super) memory: Memory,
    pub(super) cwd: WorkingDirectory,
    config: Arc<DemoConfig>,
    pub(super) queue: VecDeque<Arc<Run>>,
    /// The run that is being played.
    pub(super) run: Option<Arc<Run>>,
    /// What was reported of this run, or of the last one.
    pub(super) scene: Scene,
    /// False while a run is replayed up to the place where the last link ended.
    pub(super) live: bool,
    /// The open work that is not fully reported yet.
    pub(super) owed: Option<OpenWork>,
    /// Whether the last permission or question was allowed.
    pub(super) allowed: Option<bool>,
    /// Prompts that the next turn also takes.
    pub(super) merging: Vec<String>,
    pub(super) afterwards: Afterwards,
    pub(super) recent: VecDeque<Signal>,
    /// Real processes. They end with the link.
    pub(super) processes: Vec<Process>,
    /// How often the keeper asked whether the turn runs.
    pub(super) probes: u64,
}

/// Why a run stops.
pub(super) enum Stop {
    /// It ends.
    End(End),
    /// The keeper cancelled it.
    Cancelled,
    /// The agent crashes, and reports it.
    Crash(TurnError),
    /// The link has ended.
    Over,
}

/// The result of a part of a run.
pub(super) type Played<T = ()> = Result<T, Stop>;

impl From<LinkEnd> for Stop {
    fn from(LinkEnd: LinkEnd) -> Self {
        Self::Over
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        let message = format!("the scripted agent cannot write its memory, so it stops: {error}");
        Self::Crash(TurnError::new(ErrorClass::AgentExited, message))
    }
}

/// Runs the adapter. Commands are received at once, so that keeper and player never wait for each other.
pub(super) async fn adapt(
    start: Start,
    config: Arc<DemoConfig>,
    memory: Memory,
    mut commands: mpsc::Receiver<Command>,
    observer: Observer,
) {
    let (forward, inbox) = mpsc::unbounded_channel();
    let player = Player {
        observer,
        inbox,
        memory,
        cwd: start.cwd,
        config,
        queue: VecDeque::new(),
        run: None,
        scene: Scene::default(),
        live: false,
        owed: None,
        allowed: None,
        merging: Vec::new(),
        afterwards: Afterwards::default(),
        recent: VecDeque::new(),
        processes: Vec::new(),
        probes: 0,
    };
    let model = start.model;
    let mode = start.mode;
    let taking = async {
        while let Some(command) = commands.recv().await {
            if forward.send(command).is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = taking => {}
        () = player.play_all(start.open_work, model, mode) => {}
    }
}

impl Player {
    async fn play_all(mut self, open_work: Option<OpenWork>, model: Option<String>, mode: Option<String>) {
        let stop = match self.recover(open_work, model, mode).await {
            Ok(()) => self.play_on().await,
            stopped => stopped,
        };
        if let Err(Stop::Crash(error)) = stop {
            // The keeper logs what was lost with it.
            tracing::debug!(class = error.class.as_str(), "the demo agent stops");
            if let Err(LinkEnd) = self.observer.signal(Signal::LinkLost(error)).await {
                tracing::debug!("the keeper has already dropped the link");
            }
        }
    }

    /// Plays runs and due actions until the link ends.
    async fn play_on(&mut self) -> Played {
        loop {
            if self.live && self.perform_due().await? {
                continue;
            }
            match self.queue.pop_front() {
                Some(run) => self.play(run).await?,
                // One command at a time: a cancel after a prompt is for that prompt.
                None => {
                    let due = self.afterwards.due();
                    if let Some(command) = self.next_command(due).await? {
                        self.handle(command).await?;
                    }
                }
            }
        }
    }

    /// Plays one run to its end.
    pub(super) async fn play(&mut self, run: Arc<Run>) -> Played {
        self.scene = Scene::default();
        self.recent.clear();
        self.allowed = None;
        self.run = Some(Arc::clone(&run));
        let end = match self.play_steps(&run).await {
            Ok(()) => End::Done(StopReason::EndTurn),
            Err(Stop::End(end)) => end,
            Err(Stop::Cancelled) => End::Cancelled,
            Err(Stop::Crash(error)) => {
                self.memory
                    .note(Record::Ended { run: run.id.clone(), end: End::Lost(error.clone()) })
                    .await?;
                return Err(Stop::Crash(error));
            }
            Err(Stop::Over) => return Err(Stop::Over),
        };
        let ended = self.end(&run, end).await;
        self.run = None;
        ended
    }

    // === signals ===

    /// Handles pending commands, then reports a signal of the run.
    pub(super) async fn show(&mut self, signal: Signal) -> Played {
        if self.live {
            self.handle_commands().await?;
        }
        self.report(signal).await
    }

    /// Reports a signal of the run. While it is replayed, the signal is only noted.
    pub(super) async fn report(&mut self, signal: Signal) -> Played {
        self.scene.note(&signal);
        if self.live {
            if self.recent.len() == REPEATABLE {
                self.recent.pop_front();
            }
            self.recent.push_back(signal.clone());
            self.observer.signal(signal).await?;
        }
        Ok(())
    }

    /// Ends the replay: reports what was played so far. A run that has ended already is not continued.
    pub(super) async fn go_live(&mut self) -> Played {
        if self.live {
            return Ok(());
        }
        if let Some(end) = self.progress().and_then(|progress| progress.end.clone()) {
            return Err(Stop::End(end));
        }
        for signal in self.scene.replayed() {
            self.observer.signal(signal).await?;
        }
        self.catch_up().await
    }

    /// The progress of the run.
    pub(super) fn progress(&self) -> Option<&Progress> {
        self.memory.run(&self.run.as_ref()?.id)
    }

    pub(super) fn pace(&self, script: &DemoScript) -> Duration {
        script.pace().unwrap_or(self.config.pace)
    }

    // === commands ===

    /// Handles the commands that have arrived.
    pub(super) async fn handle_commands(&mut self) -> Played {
        if !self.live {
            return Ok(());
        }
        while let Ok(command) = self.inbox.try_recv() {
            self.handle(command).await?;
        }
        Ok(())
    }

    /// The next command, or `None` at that time.
    async fn next_command(&mut self, until: Option<Instant>) -> Played<Option<Command>> {
        let command = match until {
            None => self.inbox.recv().await,
            Some(until) => match tokio::time::timeout_at(until, self.inbox.recv()).await {
                Ok(command) => command,
                Err(_) => return Ok(None),
            },
        };
        command.map(Some).ok_or(Stop::Over)
    }

    /// Waits, and handles commands meanwhile.
    pub(super) async fn pause_until(&mut self, until: Instant) -> Played {
        self.go_live().await?;
        while let Some(command) = self.next_command(Some(until)).await? {
            self.handle(command).await?;
        }
        Ok(())
    }

    pub(super) async fn pause(&mut self, pause: Duration) -> Played {
        if pause.is_zero() {
            return Ok(());
        }
        self.pause_until(Instant::now() + pause).await
    }

    /// Waits for ever. Only a command ends it.
    pub(super) async fn stall(&mut self) -> Played {
        self.go_live().await?;
        loop {
            if let Some(command) = self.next_command(None).await? {
                self.handle(command).await?;
            }
        }
    }

    /// Waits until all of these are decided.
    pub(super) async fn await_decisions(&mut self, keys: &[Key]) -> Played {
        while keys.iter().any(|key| self.memory.decision(key).is_none()) {
            self.go_live().await?;
            if let Some(command) = self.next_command(None).await? {
                self.handle(command).await?;
            }
        }
        for key in keys {
            self.scene.settle(key);
        }
        Ok(())
    }

    async fn handle(&mut self, command: Command) -> Played {
        match command {
            Command::Prompt { native_id, content } => self.prompted(native_id, &content).await,
            Command::Cancel if self.run.is_some() => Err(Stop::Cancelled),
            Command::Cancel => Ok(()),
            Command::CancelPrompt(native_id) => self.cancel_prompt(native_id).await,
            Command::Approve { key, outcome, option, message } => {
                let allowed = matches!(outcome, ApprovalOutcome::AllowOnce | ApprovalOutcome::AllowAlways);
                let stop = !allowed && option.as_deref() == Some(STOP_OPTION);
                self.decided(key, Decision { allowed, stop, message }).await
            }
            Command::Answer { key, outcome, answers: _ } => {
                let allowed = outcome == QuestionOutcome::Answered;
                self.decided(key, Decision { allowed, stop: false, message: None }).await
            }
            // The keeper applies the permissions rule: every permission is reported to it.
            Command::Change { model, mode, permissions: _ } => self.changed(model, mode).await,
            Command::Fetch(need) => self.fetched(need).await,
        }
    }

    /// A repeated prompt is not played again.
    async fn prompted(&mut self, native_id: String, content: &[Value]) -> Played {
        if self.memory.run(&native_id).is_some() {
            return Ok(());
        }
        let plan = self.choose(&text_of(content));
        let run = Run { id: native_id.clone(), origin: Origin::Prompt, said: None, plan };
        self.memory.note(Record::Run(run)).await?;
        if let Some(progress) = self.memory.run(&native_id) {
            self.queue.push_back(Arc::clone(&progress.run));
        }
        Ok(())
    }

    /// Stops the turn of a prompt that is being played. Any other prompt is refused; if it was played
    /// before, its turn was reported first, and the refusal is ignored as late.
    async fn cancel_prompt(&mut self, native_id: String) -> Played {
        if self.run.as_ref().is_some_and(|run| run.id == native_id) {
            return Err(Stop::Cancelled);
        }
        let waiting = self.queue.len();
        self.queue.retain(|run| run.id != native_id);
        if self.queue.len() < waiting {
            self.memory.note(Record::Ended { run: native_id.clone(), end: End::Cancelled }).await?;
        }
        let error = TurnError::new(ErrorClass::Cancelled, "the prompt was cancelled before it was played");
        self.observer.signal(Signal::PromptRefused { native_id, error }).await?;
        Ok(())
    }

    /// The prompt itself if it is a script, otherwise the configured script or the demo.
    fn choose(&self, prompt: &str) -> Plan {
        let chosen = match (DemoScript::of_prompt(prompt), &self.config.script) {
            (Some(own), _) => own,
            (None, Some(configured)) => Ok(configured.clone()),
            (None, None) => welcome::script(prompt),
        };
        chosen.map_or_else(|error| Plan::Bad(error.to_string()), Plan::Script)
    }

    async fn decided(&mut self, key: Key, decision: Decision) -> Played {
        if self.scene.waits_for(&key) {
            self.scene.settle(&key);
            self.memory.note(Record::Decided { key, decision }).await?;
        }
        Ok(())
    }

    pub(super) async fn changed(&mut self, model: Option<String>, mode: Option<String>) -> Played {
        if let Some(model) = model.filter(|model| self.memory.model.as_ref() != Some(model)) {
            self.memory.note(Record::Model { model }).await?;
        }
        if let Some(mode) = mode.filter(|mode| self.memory.mode.as_ref() != Some(mode)) {
            self.memory.note(Record::Mode { mode }).await?;
        }
        Ok(())
    }

    async fn fetched(&mut self, need: Need) -> Played {
        let answer = match need {
            // An unknown item was never reported, or was removed.
            Need::Item(key) => self.scene.introduction(&key).unwrap_or(Signal::ItemRemoved(key)),
            Need::StatusProbe(turn) => {
                self.probes += 1;
                let status = if self.run.is_some() { ProbedStatus::Busy } else { ProbedStatus::Idle };
                Signal::StatusProbed { turn, status }
            }
        };
        self.observer.observed(Observed::Signal(answer)).await?;
        Ok(())
    }
}

/// The text blocks of a prompt.
fn text_of(content: &[Value]) -> String {
    let texts = content.iter().filter_map(|block| block.get("text").and_then(Value::as_str));
    texts.collect::<Vec<_>>().join("\n")
}
