//! Plays the steps of a run. Every step is noted before it is played. After a restart the steps are
//! replayed without reporting them, up to the place where the last link ended.

use super::act::{Act, Burst, Gap, Retry, Say};
use super::memory::{End, Plan, Record, Run};
use super::pieces::Pieces;
use super::player::{Played, Player, Stop};
use super::process::Process;
use super::scene::{delta, ended, item};
use super::script::{DemoScript, When};
use std::time::Duration;
use tokio::time::Instant;
use turnstream_model::event::{
    ApprovalOutcome, ErrorClass, Field, ItemKind, ItemState, NoticeCode, Origin, QuestionOutcome, Role,
    StopReason, TurnError,
};
use turnstream_model::id::Key;
use turnstream_model::signal::{Ending, Signal};
use turnstream_model::time::Time;

/// How long a gap waits for the keeper to ask whether the turn runs.
const TRUTH_WAIT: Duration = Duration::from_secs(1);

/// The place of a step in its run.
pub(super) struct StepPlace {
    prefix: String,
    /// It is played for the first time.
    pub(super) is_new: bool,
    /// A later step was begun before the restart, so this one is over.
    pub(super) is_over: bool,
    pub(super) pace: Duration,
}

impl StepPlace {
    /// A key that is unique in the session.
    pub(super) fn key(&self, part: &str) -> Key {
        Key::from(format!("{}{part}", self.prefix))
    }
}

impl Player {
    /// Plays all steps of a run.
    pub(super) async fn play_steps(&mut self, run: &Run) -> Played {
        let script = match &run.plan {
            Plan::Script(script) => script.clone(),
            Plan::Bad(problem) => {
                self.begin(run).await?;
                let error = TurnError::new(ErrorClass::InvalidRequest, format!("bad script: {problem}"));
                return Err(Stop::End(End::Failed(error)));
            }
        };
        if script.begins_at_once() {
            self.begin(run).await?;
        }
        if let Some(said) = &run.said {
            let key = Key::from(format!("{}/said", run.id));
            self.show(item(&key, ItemKind::Message, Some(Role::User), None)).await?;
            self.show(delta(&key, Field::Text, said)).await?;
            self.show(ended(&key, ItemState::Completed)).await?;
        }
        for (index, step) in script.steps().iter().enumerate() {
            let place = self.reach(run, &script, index).await?;
            let applies = match step.when {
                None => true,
                Some(When::Allowed) => self.allowed == Some(true),
                Some(When::Rejected) => self.allowed == Some(false),
            };
            if applies {
                self.play_step(run, &place, &step.act).await?;
            }
        }
        Ok(())
    }

    /// Enters a step. A new one is noted first.
    async fn reach(&mut self, run: &Run, script: &DemoScript, index: usize) -> Played<StepPlace> {
        let begun = self.progress().map_or(0, |progress| progress.steps_begun);
        let is_new = index >= begun;
        if is_new {
            self.go_live().await?;
            self.handle_commands().await?;
            self.memory.note(Record::Step { run: run.id.clone(), index }).await?;
        }
        let pace = self.pace(script);
        Ok(StepPlace {
            prefix: format!("{}/{}", run.id, index + 1),
            is_new,
            is_over: index + 1 < begun,
            pace,
        })
    }

    async fn play_step(&mut self, run: &Run, place: &StepPlace, act: &Act) -> Played {
        match act {
            Act::Begin(_) => self.begin(run).await,
            Act::Text(say) => self.text(place, say, ItemKind::Message).await,
            Act::Reasoning(say) => self.text(place, say, ItemKind::Reasoning).await,
            Act::Plan(say) => self.text(place, say, ItemKind::Plan).await,
            Act::Tool(call) => self.tool(place, call).await,
            Act::Question(asking) => self.question(place, asking).await,
            Act::AtOnce(at_once) => self.at_once(place, &at_once.steps).await,
            Act::Usage(report) => {
                let (usage, cost, context) =
                    (report.usage.clone(), report.cost.clone(), report.context.clone());
                self.show(Signal::Usage { usage, cost, context }).await
            }
            Act::Attempt(attempt) => {
                let model = attempt.model.clone().or_else(|| self.memory.model.clone());
                self.show(Signal::AttemptBegan { key: place.key(""), model }).await
            }
            Act::AttemptEnd(attempt) => {
                let Some(key) = self.scene.attempt().cloned() else { return Ok(()) };
                let (finish, usage) = (attempt.finish.clone(), attempt.usage.clone());
                self.show(Signal::AttemptEnded { key, finish, usage, cost: attempt.cost.clone() }).await
            }
            Act::Retry(retry) => self.retry(place, retry).await,
            Act::Sleep(sleep) if !place.is_over => self.pause(Duration::from_millis(sleep.ms)).await,
            Act::Sleep(_) => Ok(()),
            Act::Burst(burst) => self.burst(place, burst).await,
            Act::Process(_) if place.is_new => match Process::start() {
                Ok(process) => {
                    self.processes.push(process);
                    Ok(())
                }
                Err(error) => {
                    let message = format!("no process can be started: {error}");
                    Err(Stop::End(End::Failed(TurnError::new(ErrorClass::AgentError, message))))
                }
            },
            // The process ended with the link.
            Act::Process(_) => Ok(()),
            Act::End(end) => Err(Stop::End(End::Done(end.stop_reason.unwrap_or(StopReason::EndTurn)))),
            Act::Idle(idle) => Err(Stop::End(End::Idle(idle.stop_reason))),
            Act::Fail(why) => Err(Stop::End(End::Failed(why.error()))),
            Act::Error(why) => self.show(Signal::Failed(why.error())).await,
            Act::Stall(_) => self.stall().await,
            Act::Silent(_) => Err(Stop::End(End::Silent)),
            Act::Refuse(why) => Err(Stop::End(End::Refused(why.error()))),
            Act::Crash(crash) => {
                // A run that is only reported again has ended already.
                self.go_live().await?;
                let message =
                    crash.message.clone().unwrap_or_else(|| "the scripted agent crashed".to_owned());
                Err(Stop::Crash(TurnError::new(ErrorClass::AgentExited, message)))
            }
            Act::Vanish(_) if place.is_new => Err(Stop::Over),
            Act::Vanish(_) => Ok(()),
            Act::Garbage(_) => {
                let message = "the scripted agent said something that cannot be read".to_owned();
                self.show(Signal::Notice { code: NoticeCode::Corrupt, message, detail: None }).await
            }
            Act::Gap(gap) => self.gap(place, gap).await,
            Act::Duplicate(duplicate) => self.repeat(duplicate.count).await,
            Act::Merge(_) => {
                self.merging.push(run.id.clone());
                Err(Stop::End(End::Silent))
            }
            Act::Late(late) => self.plan_late(run, late),
            Act::Wake(wake) => self.plan_wake(place, wake),
            Act::Foreign(foreign) => self.plan_foreign(place, foreign),
            Act::Background(background) => self.plan_background(place, background),
        }
    }

    // === turns ===

    /// Reports the start of the turn, once.
    pub(super) async fn begin(&mut self, run: &Run) -> Played {
        let prompts = match self.progress().and_then(|progress| progress.began.clone()) {
            Some(prompts) => prompts,
            None => {
                self.go_live().await?;
                let mut prompts = std::mem::take(&mut self.merging);
                match run.origin {
                    Origin::Prompt | Origin::Foreign => prompts.push(run.id.clone()),
                    Origin::Agent => {}
                }
                self.memory.note(Record::Began { run: run.id.clone(), prompts: prompts.clone() }).await?;
                prompts
            }
        };
        self.report(opening(run, prompts)).await?;
        if self.live {
            self.report_late_news().await?;
        }
        Ok(())
    }

    /// Ends the run: first noted, then reported.
    pub(super) async fn end(&mut self, run: &Run, end: End) -> Played {
        let noted = self.progress().and_then(|progress| progress.end.clone());
        if noted.is_none() {
            self.go_live().await?;
        }
        let end = noted.clone().unwrap_or(end);
        let is_turn = !matches!(end, End::Silent | End::Refused(_));
        if is_turn && !self.scene.has_begun() {
            // It was cancelled before it began: the prompt still gets a turn.
            if self.live {
                self.begin(run).await?;
            } else {
                self.report(opening(run, vec![run.id.clone()])).await?;
            }
        }
        if noted.is_none() {
            self.memory.note(Record::Ended { run: run.id.clone(), end: end.clone() }).await?;
        }
        if end == End::Cancelled {
            self.close_waits().await?;
        }
        let native_id = Some(run.id.clone());
        let done = |ending| Signal::TurnDone { native_id: native_id.clone(), ending };
        match end {
            End::Done(stop_reason) => self.report(done(Ending::completed(stop_reason))).await?,
            End::Idle(stop_reason) => self.report(Signal::TurnIdle { stop_reason }).await?,
            End::Failed(error) => self.report(done(Ending::failed(error))).await?,
            End::Cancelled => self.report(done(Ending::cancelled())).await?,
            End::Lost(error) => self.report(done(Ending::lost(error))).await?,
            End::Refused(error) => {
                self.report(Signal::PromptRefused { native_id: run.id.clone(), error }).await?
            }
            End::Silent => {}
        }
        self.afterwards.turn_ended(self.live);
        Ok(())
    }

    async fn close_waits(&mut self) -> Played {
        for wait in self.scene.waits().to_vec() {
            match wait {
                Signal::Ask { key, .. } => {
                    self.report(Signal::AskClosed { key, outcome: ApprovalOutcome::Cancelled }).await?;
                }
                Signal::Question { key, .. } => {
                    let outcome = QuestionOutcome::Cancelled;
                    self.report(Signal::QuestionClosed { key, outcome, answers: None }).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    // === texts ===

    async fn text(&mut self, place: &StepPlace, say: &Say, kind: ItemKind) -> Played {
        let key = place.key("");
        let role = (kind == ItemKind::Message).then_some(Role::Assistant);
        let pace = say.pace_ms.map_or(place.pace, Duration::from_millis);
        self.show(item(&key, kind, role, None)).await?;
        for piece in pieces(&say.text, say.chunks.map(usize::from)) {
            self.show(delta(&key, Field::Text, piece)).await?;
            self.pause_between_pieces(pace).await?;
        }
        if say.unfinished { Ok(()) } else { self.show(ended(&key, ItemState::Completed)).await }
    }

    /// A replay does not wait.
    pub(super) async fn pause_between_pieces(&mut self, pace: Duration) -> Played {
        if self.live { self.pause(pace).await } else { Ok(()) }
    }

    /// Many pieces of text. They are noted as one step, for benchmarks.
    async fn burst(&mut self, place: &StepPlace, burst: &Burst) -> Played {
        let keys: Vec<Key> = match burst.messages {
            None => vec![place.key("")],
            Some(messages) => (0..messages.get()).map(|message| place.key(&message.to_string())).collect(),
        };
        let mut pieces = Pieces::of(burst);
        for key in &keys {
            self.show(item(key, ItemKind::Message, Some(Role::Assistant), None)).await?;
        }
        if self.live {
            let start = Instant::now();
            for sent in 0..burst.count {
                if let Some(rate) = burst.per_second {
                    let due = start + Duration::from_secs_f64(sent as f64 / rate.get() as f64);
                    if due > Instant::now() {
                        self.pause_until(due).await?;
                    }
                }
                self.handle_commands().await?;
                let (message, piece) = pieces.next();
                self.observer.signal(delta(&keys[message], Field::Text, piece)).await?;
            }
        }
        for (key, text) in keys.iter().zip(pieces.whole(burst.count)) {
            self.scene.note(&delta(key, Field::Text, text));
            self.show(ended(key, ItemState::Completed)).await?;
        }
        Ok(())
    }

    // === faults ===

    async fn retry(&mut self, place: &StepPlace, retry: &Retry) -> Played {
        let repeats = self.scene.attempt().is_some();
        let wait = Duration::from_millis(retry.wait_ms);
        let until = (!wait.is_zero()).then(|| Time::now().plus_millis(retry.wait_ms));
        self.show(Signal::Retrying { attempt: retry.attempt, reason: retry.reason, until, message: None })
            .await?;
        self.pause_between_pieces(wait).await?;
        if repeats {
            let model = self.memory.model.clone();
            self.show(Signal::AttemptBegan { key: place.key(""), model }).await?;
        }
        Ok(())
    }

    async fn gap(&mut self, place: &StepPlace, gap: &Gap) -> Played {
        if let Some(text) = &gap.text {
            let key = place.key("");
            let half = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
            self.show(item(&key, ItemKind::Message, Some(Role::Assistant), None)).await?;
            self.show(delta(&key, Field::Text, &text[..half])).await?;
            self.scene.note(&delta(&key, Field::Text, &text[half..]));
            self.scene.note(&ended(&key, ItemState::Completed));
        }
        if !place.is_new {
            return Ok(());
        }
        let answered = self.probes;
        self.show(Signal::Gap("the scripted agent lost its connection for a moment".to_owned())).await?;
        for signal in self.scene.replayed() {
            self.observer.signal(signal).await?;
        }
        let deadline = Instant::now() + TRUTH_WAIT;
        while self.probes == answered && Instant::now() < deadline {
            self.pause(Duration::from_millis(1)).await?;
        }
        Ok(())
    }

    async fn repeat(&mut self, count: usize) -> Played {
        if !self.live {
            return Ok(());
        }
        let skipped = self.recent.len().saturating_sub(count);
        for signal in self.recent.iter().skip(skipped).cloned().collect::<Vec<_>>() {
            self.observer.signal(signal).await?;
        }
        Ok(())
    }
}

/// The first signal of a run's turn.
fn opening(run: &Run, prompts: Vec<String>) -> Signal {
    let origin = (run.origin != Origin::Prompt).then_some(run.origin);
    Signal::TurnBegan { origin, prompts, native_id: Some(run.id.clone()) }
}

/// Splits a text into so many pieces, or into words.
fn pieces(text: &str, count: Option<usize>) -> Vec<String> {
    match count {
        None => text.split_inclusive(char::is_whitespace).map(str::to_owned).collect(),
        Some(count) => {
            let chars: Vec<char> = text.chars().collect();
            let size = chars.len().div_ceil(count).max(1);
            chars.chunks(size).map(|piece| piece.iter().collect()).collect()
        }
    }
}
