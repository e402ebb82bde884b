//! One turn: model calls and tools in turn, until the model is done.

use super::history::{PlannedCall, described};
use super::journal::{Content, End, Item, Kept, Record, Step};
use super::request::Request;
use super::session::{Answer, Session, Stop, Worked};
use super::tools::{self, Call, Rule, ToolResult};
use serde_json::Map;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use turnstream_llm::client::{CallEvent, CallOutcome, ModelCall, RunningCall, Translator};
use turnstream_llm::retry::{Consumer, Retries};
use turnstream_llm::{self as llm, Outcome, ReasoningData};
use turnstream_model::Chain;
use turnstream_model::event::{
    ApprovalOption, ApprovalOutcome, ErrorClass, Field, ItemKind, ItemState, OptionKind, StopReason, Tool,
    ToolStatus, TurnError,
};
use turnstream_model::id::{Key, TurnId};
use turnstream_model::signal::{Finality, ItemSeen, Signal};

/// How long a cancelled model call may take to write its row in the ledger.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);
/// Pieces of output that wait for the log.
const OUTPUT_QUEUE: usize = 64;

/// What became of a permission.
enum Permission {
    Granted,
    Refused(String),
}

impl Session {
    /// Works on a turn until the model is done. What the journal has of it is not repeated.
    pub(super) async fn work(&mut self, turn: &str) -> Worked<StopReason> {
        if !self.is_resumed {
            let origin = Some(turnstream_model::event::Origin::Prompt);
            let (prompts, native_id) = (vec![turn.to_owned()], Some(turn.to_owned()));
            self.signal(Signal::TurnBegan { origin, prompts, native_id }).await?;
        }
        let model = self.model_name()?;
        let cwd = self.cwd.clone();
        let reading = tokio::task::spawn_blocking(move || super::system_prompt::of(&cwd));
        let system = self.during(reading).await?.map_err(std::io::Error::other)?;
        loop {
            while let Some(call) = self.history.next_call(turn) {
                self.run_call(call).await?;
            }
            let steps = self.history.turn(turn).map_or(&[][..], |turn| &turn.steps);
            if let Some(stop) = steps.last().and_then(|step| step.stop) {
                return Ok(stop);
            }
            self.attempts = self.attempts.max(steps.last().map_or(0, |step| step.attempt));
            let number = steps.len() + 1;
            if self.shared.config.most_steps.is_some_and(|most| number > most as usize) {
                return Ok(StopReason::MaxTurnRequests);
            }
            let step = u32::try_from(number).unwrap_or(u32::MAX);
            self.ask_model(turn, step, &model, &system).await?;
        }
    }

    fn model_name(&self) -> Worked<String> {
        let model = self.model.clone().or_else(|| self.shared.config.route.model.clone());
        model.ok_or_else(|| {
            let message = format!(
                "no model is chosen; set `model` in [llm.routes.{}], or choose one with --model",
                self.shared.config.route.name
            );
            Stop::End(End::Failed(TurnError::new(ErrorClass::InvalidRequest, message)))
        })
    }

    // === model calls ===

    /// Asks the model, until its answer is in the journal, or the conversation was made shorter.
    async fn ask_model(&mut self, turn: &str, step: u32, model: &str, system: &str) -> Worked {
        let route = self
            .shared
            .config
            .route
            .endpoint()
            .map_err(|error| failed(TurnError::new(ErrorClass::Auth, Chain(&error).to_string())))?;
        let entries = self.history.entries(turn);
        let most_output = self.shared.config.most_output;
        let request = Request { model, system, entries: &entries, most_output };
        let body = request.body(route.format).to_string();
        let format = route.format;
        let call = ModelCall {
            session: self.id.clone(),
            turn: TurnId::from(turn),
            step,
            attempts_before: self.attempts,
            route,
            model: model.to_owned(),
            body: body.into(),
            consumer: Consumer::AttemptAware,
        };
        let mut translator = Translator::new(&call);
        // After a restart, what the last attempt has shown stays until the next one has something to show.
        let answered =
            self.history.turn(turn).and_then(|turn| turn.steps.last()).map_or(0, |step| step.attempt);
        let is_repeated = self.is_resumed && self.attempts > answered;
        let mut held = is_repeated.then(Vec::new);
        let mut running = self.start_call(call, is_repeated).await?;
        loop {
            let event = match self.during(running.next()).await {
                Ok(Some(event)) => event,
                Ok(None) => {
                    let message = "the model call ended without an outcome";
                    return Err(failed(TurnError::new(ErrorClass::Internal, message)));
                }
                Err(Stop::Cancelled) => return Err(self.cancel_call(running, &mut translator).await),
                Err(stop) => return Err(stop),
            };
            let mut signals = translator.signals(&event);
            match (&mut held, &event) {
                (Some(held), CallEvent::AttemptStarted { .. }) => *held = std::mem::take(&mut signals),
                (Some(_), _) if !signals.is_empty() => {
                    let begun = held.take().unwrap_or_default();
                    self.signal_all(begun).await?;
                }
                (Some(_) | None, _) => {}
            }
            let CallEvent::Ended { outcome, attempt, spent } = event else {
                if matches!(event, CallEvent::Stream { .. }) {
                    turnstream_failpoint::reach("builtin.stream");
                }
                self.signal_all(signals).await?;
                continue;
            };
            (self.attempts, self.spent) = (attempt, spent);
            let stop = match outcome.turn_ending() {
                Some(ending) => ending.stop_reason,
                None => None,
            };
            match *outcome {
                CallOutcome::Complete(outcome) | CallOutcome::Truncated { outcome, .. } => {
                    let mut step = step_of(&outcome, attempt, format, model);
                    step.stop = stop;
                    for signal in &signals {
                        if let Signal::AttemptEnded { finish, usage, .. } = signal {
                            (step.finish, step.usage) = (finish.clone(), usage.clone());
                        }
                    }
                    // Durable before it is shown, and before a tool runs.
                    self.note(Record::Step { turn: turn.to_owned(), step }).await?;
                    turnstream_failpoint::reach("builtin.step");
                    self.signal_all(signals).await?;
                    return Ok(());
                }
                CallOutcome::Failed { failure, retry_at } => {
                    if failure.class == ErrorClass::ContextOverflow
                        && self.compact(turn, model, &signals).await?
                    {
                        return Ok(());
                    }
                    self.signal_all(signals).await?;
                    return Err(failed(failure.error(retry_at)));
                }
                CallOutcome::Cancelled => {
                    self.signal_all(signals).await?;
                    return Err(Stop::Cancelled);
                }
                CallOutcome::NotRecorded(unkept) => {
                    self.signal_all(signals).await?;
                    return Err(failed(TurnError::new(ErrorClass::Internal, unkept.to_string())));
                }
            }
        }
    }

    /// Starts a call. After a restart it goes on with a stored wait, or repeats the call that the log shows.
    async fn start_call(&mut self, call: ModelCall, is_repeated: bool) -> Worked<RunningCall> {
        let client = &self.shared.config.client;
        if std::mem::take(&mut self.is_resumed) {
            let stored = client.parked().await;
            let stored = stored.map_err(|unkept| {
                failed(TurnError::new(ErrorClass::Internal, format!("stored waits cannot be read: {unkept}")))
            })?;
            let is_ours = |session: &_, turn: &_| *session == call.session && *turn == call.turn;
            if let Some(parked) = stored.into_iter().find(|stored| is_ours(&stored.session, &stored.turn)) {
                return Ok(client.resume(call, parked));
            }
        }
        if is_repeated {
            // What the earlier call has shown is void when the next one begins.
            let message = Some("the gateway was started again".to_owned());
            let (attempt, reason, until) = (None, Some(ErrorClass::AgentExited), None);
            self.signal(Signal::Retrying { attempt, reason, until, message }).await?;
        }
        let retries = Retries::resume(self.shared.policy.clone(), self.spent.clone());
        Ok(self.shared.config.client.continue_turn(call, retries))
    }

    /// Cancels a call for good, so that its row in the ledger ends and no stored wait stays.
    async fn cancel_call(&self, mut running: RunningCall, translator: &mut Translator) -> Stop {
        running.cancel();
        let rest = async {
            while let Some(event) = running.next().await {
                if matches!(event, CallEvent::Ended { .. }) {
                    return self.signal_all(translator.signals(&event)).await;
                }
            }
            Ok(())
        };
        match timeout(CANCEL_LIMIT, rest).await {
            Ok(Err(stop)) => stop,
            Ok(Ok(())) => Stop::Cancelled,
            Err(_) => {
                tracing::warn!("the cancelled model call did not end in time");
                Stop::Cancelled
            }
        }
    }

    async fn signal_all(&self, signals: Vec<Signal>) -> Worked {
        for signal in signals {
            self.signal(signal).await?;
        }
        Ok(())
    }

    /// Leaves out a part of the conversation that was too long. False if nothing more can be left out.
    async fn compact(&mut self, turn: &str, model: &str, signals: &[Signal]) -> Worked<bool> {
        let Some(compaction) = self.history.shorter(turn) else { return Ok(false) };
        let what = match compaction.drops_turns {
            true => "Turns before this one and all results of tools so far",
            false => "Older results of tools",
        };
        let text = format!("The conversation is longer than the context of {model}. {what} were left out.");
        let key = Key::from(format!("{turn}/compaction/{}", self.history.compactions() + 1));
        self.note(Record::Compacted { compaction }).await?;
        // The call has ended, and the turn has not failed.
        let is_end = |signal: &&Signal| matches!(signal, Signal::AttemptEnded { .. });
        self.signal_all(signals.iter().filter(is_end).cloned().collect()).await?;
        let (kind, field, finality) = (ItemKind::Compaction, Field::Text, Finality::Final);
        let seen = ItemSeen { key: key.clone(), kind, role: None, parent: None, synthetic: false };
        self.signal(Signal::ItemSeen(seen)).await?;
        self.signal(Signal::TextSnapshot { key: key.clone(), field, text, finality }).await?;
        self.signal(Signal::ItemEnded { key, state: ItemState::Completed, reason: None }).await?;
        Ok(true)
    }

    // === tools ===

    async fn run_call(&mut self, planned: PlannedCall) -> Worked {
        let call = match Call::parse(&planned.name, &planned.arguments) {
            Err(problem) => return self.finish_call(planned.key, ToolResult::failed(problem)).await,
            Ok(_) if planned.redacted => {
                let problem = "This was not run: its arguments held a secret, which was not stored when the \
                               gateway stopped. Call the tool again.";
                return self.finish_call(planned.key, ToolResult::failed(problem)).await;
            }
            Ok(call) => call,
        };
        if let Permission::Refused(problem) = self.permission(&planned, &call).await? {
            return self.finish_call(planned.key, ToolResult::failed(problem)).await;
        }
        // A cancel that has come stops it before it begins.
        self.during(std::future::ready(())).await?;
        // Before it runs: after a crash it is unknown, and is not run again.
        self.note(Record::ToolBegan { key: planned.key.clone() }).await?;
        let status = Some(ToolStatus::InProgress);
        let tool = Tool { status, ..described(&planned.name, &planned.arguments) };
        self.signal(Signal::ToolSeen { key: planned.key.clone(), parent: None, tool }).await?;
        turnstream_failpoint::reach("builtin.tool_began");
        let (result, stopped) = self.run_tool(&planned.key, call).await;
        turnstream_failpoint::reach("builtin.tool_ran");
        let finished = self.finish_call(planned.key, result).await;
        // A journal that cannot be written counts more than a cancel.
        finished.and(stopped)
    }

    /// Runs a tool. A tool that is stopped by a cancel, or by the end of the link, has a result too.
    async fn run_tool(&mut self, key: &Key, call: Call) -> (ToolResult, Worked) {
        let (sender, mut shown) = mpsc::channel(OUTPUT_QUEUE);
        let (stopper, stopped) = tools::stopper();
        let mut task = tokio::spawn(call.run(self.cwd.clone(), self.shell.clone(), sender, stopped));
        let mut interrupted = Ok(());
        loop {
            let next = async {
                tokio::select! {
                    biased;
                    Some(text) = shown.recv() => Err(text),
                    ended = &mut task => Ok(ended),
                }
            };
            let next = match interrupted {
                Ok(()) => self.during(next).await,
                Err(_) => Ok(next.await),
            };
            match next {
                Ok(Ok(result)) => {
                    let failed = |error| ToolResult::failed(format!("the tool failed: {error}"));
                    return (result.unwrap_or_else(failed), interrupted);
                }
                Ok(Err(text)) => {
                    let delta = Signal::TextDelta { key: key.clone(), field: Field::Output, text };
                    if interrupted.is_ok() {
                        interrupted = self.signal(delta).await;
                    }
                }
                Err(stop) => interrupted = Err(stop),
            }
            if interrupted.is_err() {
                stopper.stop();
            }
        }
    }

    /// Stores the result of a call, and shows it.
    async fn finish_call(&mut self, key: Key, result: ToolResult) -> Worked {
        let tool = result.shown();
        // Before the next model call.
        self.note(Record::ToolDone { key: key.clone(), result }).await?;
        turnstream_failpoint::reach("builtin.tool_done");
        self.signal(Signal::ToolSeen { key, parent: None, tool }).await
    }

    // === permissions ===

    /// Asks for the permission that a call needs. Returns the key of the question, or nothing if the call
    /// needs none.
    pub(super) async fn ask(&self, planned: &PlannedCall, call: &Call) -> Worked<Option<(Key, Rule)>> {
        let is_allowed = |rule: &Rule| !self.denies && self.history.allows(rule);
        let Some(rule) = call.permission().filter(|rule| !is_allowed(rule)) else { return Ok(None) };
        let key = Key::from(format!("{}/ask", planned.key));
        let option = |id: &str, kind, name: String| ApprovalOption {
            id: id.to_owned(),
            kind,
            name,
            extra: Map::new(),
        };
        let options = vec![
            option("once", OptionKind::AllowOnce, "Allow once".to_owned()),
            option("always", OptionKind::AllowAlways, rule.covers()),
            option("reject", OptionKind::RejectOnce, "Reject".to_owned()),
        ];
        let name = Some(planned.name.clone());
        let tool =
            Tool { name, status: Some(ToolStatus::Pending), ..described(&planned.name, &planned.arguments) };
        let item = Some(planned.key.clone());
        self.signal(Signal::Ask { key: key.clone(), item, tool: Some(tool), options }).await?;
        Ok(Some((key, rule)))
    }

    async fn permission(&mut self, planned: &PlannedCall, call: &Call) -> Worked<Permission> {
        let Some((key, rule)) = self.ask(planned, call).await? else { return Ok(Permission::Granted) };
        let Answer { outcome, message } = loop {
            if let Some(answer) = self.answers.remove(&key) {
                break answer;
            }
            let command = self.inbox.recv().await.ok_or(Stop::Over)?;
            self.handle(command).await?;
        };
        let reason = match outcome {
            ApprovalOutcome::AllowOnce => return Ok(Permission::Granted),
            ApprovalOutcome::AllowAlways => {
                self.note(Record::Always { rule }).await?;
                return Ok(Permission::Granted);
            }
            ApprovalOutcome::Cancelled => return Err(Stop::Cancelled),
            ApprovalOutcome::Reject => "The user rejected this call. It was not run.",
            ApprovalOutcome::Expired => "Nobody answered in time, so this was not run.",
            ApprovalOutcome::Lost => "The permission was lost, so this was not run.",
        };
        let said = message.filter(|message| !message.is_empty());
        Ok(Permission::Refused(
            said.map_or(reason.to_owned(), |said| format!("{reason} The user says: {said}")),
        ))
    }
}

fn failed(error: TurnError) -> Stop {
    Stop::End(End::Failed(error))
}

/// The complete items of an answer.
fn step_of(outcome: &Outcome, attempt: u32, format: llm::Format, model: &str) -> Step {
    let (format, model) = (format.name().to_owned(), model.to_owned());
    let items = outcome.committed.iter().map(item_of).collect();
    Step { attempt, format, model, finish: None, stop: None, usage: None, items }
}

fn item_of(item: &llm::Item) -> Item {
    let number = item.number().0;
    match item {
        llm::Item::Message { text, extra, .. } => {
            let content = Content::Message { text: text.clone() };
            Item { number, id: extra.id.clone(), content, unread: extra.unread.clone() }
        }
        llm::Item::Reasoning { text, kept, extra, .. } => {
            let kept = kept.iter().map(|kept| match kept {
                ReasoningData::Signature(data) => Kept::Signature(data.clone()),
                ReasoningData::Redacted(data) => Kept::Redacted(data.clone()),
                ReasoningData::Encrypted(data) => Kept::Encrypted(data.clone()),
                ReasoningData::Details(data) => Kept::Details(data.clone()),
            });
            let content = Content::Reasoning { text: text.clone(), kept: kept.collect() };
            Item { number, id: extra.id.clone(), content, unread: extra.unread.clone() }
        }
        llm::Item::Call(call) => {
            let (name, arguments) = (call.name.clone(), call.arguments.clone());
            let content = Content::Call { name, arguments, redacted: false };
            Item { number, id: call.id.clone(), content, unread: call.extra.unread.clone() }
        }
        llm::Item::Other { raw, extra, .. } => {
            let content = Content::Other { raw: raw.clone() };
            Item { number, id: extra.id.clone(), content, unread: extra.unread.clone() }
        }
    }
}
