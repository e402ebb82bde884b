//! From the machine to the log: appends the events of a step, and sends commands to the agent once the events
//! are durable.

use super::after_durable::{OnceDurable, log_append_error};
use super::disk_wait::DiskWait;
use super::spans::TracedEvent;
use super::{AppenderClosed, Keeper, oversized};
use crate::error::RequestError;
use crate::event_counts::Counted;
use crate::redactor::redact_body;
use crate::request::answer;
use crate::short_texts;
use std::collections::HashSet;
use tokio::sync::oneshot;
use turnstream_adapter::Command;
use turnstream_log::{Appender, Receipt};
use turnstream_model::Chain;
use turnstream_model::event::{Actor, Body, Draft, Effect, Subject, Weigh as _};
use turnstream_model::machine::{Machine, Refusal, Step};
use turnstream_model::signal::Need;
use turnstream_model::time::Time;

/// The events of a step, and what happens when they are durable.
#[derive(Default)]
pub(super) struct Work {
    /// The client whose request this is. The events of further steps name it.
    pub(super) actor: Option<Actor>,
    pub(super) drafts: Vec<Draft>,
    pub(super) needs: Vec<Need>,
    /// Sent to the agent when the events are durable.
    pub(super) commands: Vec<Command>,
    pub(super) effects: Vec<OnceDurable>,
}

impl Work {
    /// The work of a client's request.
    pub(super) fn by(actor: Option<Actor>) -> Self {
        Self { actor, ..Self::default() }
    }

    /// Answers a request when the events are durable.
    pub(super) fn reply<T: Send + 'static>(
        &mut self,
        reply: oneshot::Sender<Result<T, RequestError>>,
        value: T,
    ) {
        self.reply_or(reply, value, |error| error);
    }

    /// The same, with a function that changes the error.
    pub(super) fn reply_or<T: Send + 'static>(
        &mut self,
        reply: oneshot::Sender<Result<T, RequestError>>,
        value: T,
        change_error: impl FnOnce(RequestError) -> RequestError + Send + 'static,
    ) {
        let reply = move |result: Result<(), RequestError>| {
            answer(reply, result.map(|()| value).map_err(change_error));
        };
        self.effects.push(OnceDurable::Reply(Box::new(reply)));
    }
}

impl Keeper {
    /// Runs one step of the machine and redacts its events. Cuts texts that are too long, and events that are
    /// too large for the log. All of them name the client whose request this is.
    pub(super) fn step<T>(
        &mut self,
        work: &mut Work,
        act: impl FnOnce(&mut Machine, &mut Step<'_>) -> T,
    ) -> T {
        let before = work.drafts.len();
        let mut step =
            Step { now: Time::now(), ids: &mut self.ids, drafts: &mut work.drafts, needs: &mut work.needs };
        let result = act(&mut self.machine, &mut step);
        let is_over_budget = self.machine.account(before, &mut step);
        let mut notices = Vec::new();
        for draft in &mut work.drafts[before..] {
            redact_body(&self.shared.settings.redaction, &mut draft.body);
            short_texts::cut(&mut draft.body, &self.shared.settings.limits.texts);
            notices.extend(oversized::cut(draft));
        }
        work.drafts.append(&mut notices);
        for draft in &mut work.drafts[before..] {
            draft.actor.clone_from(&work.actor);
        }
        self.track(before, work);
        // Before the events are durable: the wall clock may be set until then.
        self.set_alarm();
        if is_over_budget {
            let turn = self.machine.open_turn().map(|turn| turn.as_str());
            tracing::warn!(turn, "the turn has reached a cap of its budget, and is stopped");
            // During a recovery the agent is told when that is over.
            if self.recovery.is_none() {
                work.commands.push(Command::Cancel);
            }
        }
        result
    }

    /// Hands the events to the log. Waits until they are durable only if commands for the agent depend on it.
    pub(super) async fn commit(&mut self, work: Work) -> Result<(), AppenderClosed> {
        if work.commands.is_empty() {
            let Work { actor: _, drafts, needs, commands: _, effects } = work;
            self.append(drafts, effects).await?;
            return self.fetch(needs).await;
        }
        self.commit_now(work).await
    }

    /// Hands the events to the log, and returns when they are durable and the commands were sent.
    pub(super) async fn commit_now(&mut self, work: Work) -> Result<(), AppenderClosed> {
        let Work { actor: _, drafts, needs, commands, mut effects } = work;
        let (sender, durable) = oneshot::channel();
        effects.push(OnceDurable::Durable(sender));
        self.append(drafts, effects).await?;
        self.clocks.freeze();
        let durable = self.disk_wait().0.wait(durable).await;
        self.thaw();
        durable.map_err(|_| AppenderClosed)?;
        turnstream_failpoint::reach("keeper.durable");
        let mut unsent = Vec::new();
        for command in commands {
            match command {
                // The agent may have been told during the wait, or the turn may have ended.
                Command::Cancel if self.machine.is_cancelling() => self.tell_to_stop().await,
                Command::Cancel => {}
                Command::CancelPrompt(name) if self.cancelling_names().contains(&name) => {
                    self.tell_to_stop_prompt(name).await;
                }
                // The prompt is settled. The agent is told all the same, without a deadline: the prompt may
                // still be on its way to the agent.
                Command::CancelPrompt(name) => {
                    self.connection.tell(Command::CancelPrompt(name)).await;
                }
                Command::Prompt { native_id, content } => match self.with_transcript(content).await {
                    Ok(content) => {
                        self.at_agent = Some(native_id.clone());
                        self.connection.tell(Command::Prompt { native_id, content }).await;
                    }
                    Err(error) => unsent.push((native_id, error)),
                },
                // `tell` logs a command that the agent did not take; its link then reports why.
                other @ (Command::Approve { .. }
                | Command::Answer { .. }
                | Command::Change { .. }
                | Command::Fetch(_)) => drop(self.connection.tell(other).await),
            }
            turnstream_failpoint::reach("keeper.told");
        }
        for (native_id, error) in unsent {
            self.fail_unsent(&native_id, &error).await?;
        }
        self.fetch(needs).await
    }

    pub(super) async fn append(
        &mut self,
        drafts: Vec<Draft>,
        mut effects: Vec<OnceDurable>,
    ) -> Result<(), AppenderClosed> {
        if drafts.is_empty() && effects.is_empty() {
            return Ok(());
        }
        let time = self.appender.stamp(Time::now());
        let mut changed = false;
        let pending = self.pending_contexts();
        for draft in &drafts {
            changed |=
                matches!(draft.about(), Some((Subject::Session, _) | (Subject::Turn(_), Effect::Ends)));
            self.session.apply(&draft.body, time);
        }
        changed |= pending != self.pending_contexts();
        let counted: Vec<Counted> = drafts.iter().filter_map(|draft| Counted::of(&draft.body)).collect();
        if !counted.is_empty() {
            effects.insert(0, OnceDurable::Count(self.session.agent.clone(), counted));
        }
        let traced: Vec<TracedEvent> = drafts.iter().filter_map(TracedEvent::of).collect();
        if !traced.is_empty() {
            effects.insert(0, OnceDurable::Trace(traced, time));
        }
        if !drafts.is_empty() {
            effects.insert(0, OnceDurable::Touch(time));
        }
        if changed {
            // Before the replies: a client that was answered sees the new state.
            effects.insert(0, OnceDurable::Show(Box::new(self.session.clone())));
        }
        turnstream_failpoint::reach("keeper.append");
        let mut pieces = pieces(drafts);
        let last = pieces.pop().unwrap_or_default();
        for piece in pieces {
            let receipt = self.hand_over(piece, time).await?;
            self.after_durable.after(receipt, Vec::new())?;
        }
        let receipt = self.hand_over(last, time).await?;
        self.after_durable.after(receipt, effects)
    }

    /// Waits while the log's budget is used up.
    async fn hand_over(&mut self, drafts: Vec<Draft>, time: Time) -> Result<Receipt, AppenderClosed> {
        self.clocks.freeze();
        let (disk_wait, appender) = self.disk_wait();
        let handed = disk_wait.wait(appender.append(drafts, time)).await;
        self.thaw();
        handed.map_err(|error| {
            log_append_error(&error);
            AppenderClosed
        })
    }

    fn disk_wait(&mut self) -> (DiskWait<'_>, &mut Appender) {
        let disk_wait = DiskWait {
            inbox: &mut self.inbox,
            log: &self.shared.log,
            settings: &self.shared.settings,
            machine: &self.machine,
            clocks: &mut self.clocks,
            connection: &self.connection,
            keys: &self.keys,
            waits: &self.waits,
            at_agent: self.at_agent.as_deref(),
            recovering: self.recovery.is_some(),
        };
        (disk_wait, &mut self.appender)
    }

    /// Asks the agent for missing facts. This needs no durability: asking twice does no harm.
    async fn fetch(&mut self, needs: Vec<Need>) -> Result<(), AppenderClosed> {
        // Once each: an agent that does not read its commands would make the keeper wait for every one.
        let needs: HashSet<Need> = needs.into_iter().collect();
        for need in needs {
            self.connection.tell(Command::Fetch(need)).await;
        }
        Ok(())
    }
}

/// Reports a step that the keeper's checks should have made possible. What it was to end stays open.
pub(super) fn report_refused<T>(result: Result<T, Refusal>, step: &'static str) {
    if let Err(refusal) = result {
        tracing::error!(step, error = %Chain(&refusal), "the turn machine refused a step of the keeper");
        debug_assert!(false, "refused to {step}: {refusal}");
    }
}

/// Most bytes of text in one `item.delta`, and about the most of several events in one append.
const PIECE: usize = 4 << 20;

/// Splits the events into appends that the log accepts, in order. A delta that is too long becomes several
/// events. Any other event is never split, and one that is large has an append of its own.
fn pieces(drafts: Vec<Draft>) -> Vec<Vec<Draft>> {
    let mut pieces: Vec<Vec<Draft>> = Vec::new();
    let (mut piece, mut bytes) = (Vec::new(), 0);
    for draft in drafts.into_iter().flat_map(split) {
        let weight = draft.weight();
        if bytes + weight > PIECE && !piece.is_empty() {
            pieces.push(std::mem::take(&mut piece));
            bytes = 0;
        }
        bytes += weight;
        piece.push(draft);
    }
    pieces.push(piece);
    pieces
}

/// Splits a delta that is too long for one event.
fn split(mut draft: Draft) -> Vec<Draft> {
    let Body::ItemDelta { field, text } = &mut draft.body else { return vec![draft] };
    if text.len() <= PIECE {
        return vec![draft];
    }
    let (field, text) = (*field, std::mem::take(text));
    let mut parts = Vec::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (part, more) = rest.split_at(rest.floor_char_boundary(PIECE));
        let body = Body::ItemDelta { field, text: part.to_owned() };
        parts.push(Draft { body, ..draft.clone() });
        rest = more;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::{Refusal, report_refused};
    use turnstream_testkit::diagnostics::{Level, capture};

    #[test]
    fn a_step_that_the_machine_refuses_is_an_error_in_the_log() {
        let (_, lines) = capture(|| {
            report_refused(Ok::<(), Refusal>(()), "do nothing");
            // It also panics, but only in builds for debugging.
            std::panic::catch_unwind(|| report_refused(Err::<(), _>(Refusal::SessionEnded), "end it"))
        });
        let lines: Vec<_> = lines.iter().filter(|line| line.message.contains("refused a step")).collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!((lines[0].level, lines[0].field("step")), (Level::ERROR, Some("end it")));
    }
}
