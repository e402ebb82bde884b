//! Requests of clients. Each is answered once: done and durable, or refused with an error.

use super::commit::Work;
use super::connection::Connection;
use super::waits::{check_answer, check_answers};
use super::{AppenderClosed, Keeper};
use crate::budget::CapsChange;
use crate::disk_failure;
use crate::error::RequestError;
use crate::redactor::Forgotten;
use crate::request::{
    AnswerQuestion, Change, ClientRequest, NewPrompt, Reply, Request, ResolveApproval, answer,
};
use serde_json::{Map, Value};
use turnstream_adapter::Command;
use turnstream_model::event::{ApprovalOutcome, By, Resolution, SessionPatch};
use turnstream_model::id::{ApprovalId, Key, PromptId, QuestionId, TurnId};
use turnstream_model::machine::{Accepted, Cancel, Cancelled, Refusal};

impl Keeper {
    /// Carries out a request, or refuses it.
    pub(super) async fn request(&mut self, request: ClientRequest) -> Result<(), AppenderClosed> {
        let ClientRequest { actor, request } = request;
        let work = Work::by(actor);
        match request {
            Request::Prompt(prompt, reply) => self.accept(prompt, work, reply).await,
            Request::Withdraw(prompt, reply) => self.withdraw(&prompt, work, reply).await,
            Request::Cancel(what, reply) => self.cancel(&what, work, reply).await,
            Request::Resolve(approval, answer, reply) => self.resolve(&approval, answer, work, reply).await,
            Request::Answer(question, answer, reply) => self.answer(&question, answer, work, reply).await,
            Request::Change(change, reply) => self.change(change, work, reply).await,
            Request::Wake(reply) => self.wake_parked(work, reply).await,
            Request::Budget(change, reply) => self.set_budget(&change, work, reply).await,
            Request::HandOver(to, agent, reply) => self.note_successor(to, agent, work, reply).await,
            Request::Resume(choice, reply) => self.resume_as(choice, work, reply).await,
            Request::End(reason, reply) => self.end(reason, work, reply, ()).await,
            Request::EndIfQuiet(_, reply) if !self.is_quiet() => {
                answer(reply, Ok(false));
                Ok(())
            }
            Request::EndIfQuiet(reason, reply) => self.end(reason, work, reply, true).await,
        }
    }

    async fn accept(
        &mut self,
        new: NewPrompt,
        mut work: Work,
        reply: Reply<Accepted>,
    ) -> Result<(), AppenderClosed> {
        let NewPrompt { content, key, budget } = new;
        if let Some((prompt, same)) = key.as_ref().and_then(|key| self.keys.find(key, &content)) {
            return self.accepted_before(prompt, same, key, reply).await;
        }
        if let Some(failure) = disk_failure::current(&self.shared.log) {
            return refuse(reply, failure.refused());
        }
        if self.recovery.is_some() {
            return refuse(reply, RequestError::Recovering(self.id.clone()));
        }
        if let Err(problem) = self.check_content(&content) {
            return refuse(reply, RequestError::BadPrompt(problem));
        }
        if let Err(error) = self.check_room(&content) {
            return refuse(reply, error);
        }
        if let Some(native_id) = self.forgotten().await {
            let (agent, session) = (self.session.agent.clone(), self.id.clone());
            return refuse(reply, RequestError::AgentForgot { agent, session, native_id });
        }
        let caps = (budget != CapsChange::default()).then(|| budget.applied_to(&self.machine.budget().turn));
        let accepted = self.step(&mut work, |machine, step| {
            let accepted = machine.accept(key.clone(), content.clone(), step)?;
            if let Some(caps) = caps {
                machine.cap_prompt(&accepted.prompt, caps, By::Client, step);
            }
            Ok(accepted)
        });
        match accepted {
            Ok(accepted) => {
                if let Some(key) = key {
                    self.keys.add(key, accepted.prompt.clone(), &content);
                }
                self.contents.insert(accepted.prompt.clone(), content);
                work.reply(reply, accepted);
                self.commit(work).await
            }
            Err(refusal) => refuse(reply, Refusal::into(refusal)),
        }
    }

    /// Refuses a prompt that would wait for an agent that the gateway may not start, and one for which the
    /// queue has no room.
    fn check_room(&self, content: &[Value]) -> Result<(), RequestError> {
        let full = match &self.connection {
            Connection::Down => self.shared.live_agents.full(),
            Connection::WaitingForRoom(waiting) => waiting.place.full(),
            Connection::Connecting(_) | Connection::Up(..) => None,
        };
        if let Some(most) = full {
            return Err(RequestError::TooManyAgents { most });
        }
        self.contents.check_room(content, &self.shared.settings.limits)
    }

    /// Refuses invalid content, and blocks that the session's agent does not support. An agent that is not
    /// configured refuses nothing.
    fn check_content(&self, content: &[Value]) -> Result<(), String> {
        check_content(content)?;
        let Some(agent) = &self.agent else { return Ok(()) };
        let refused = |(index, block)| agent.check_block(block).err().map(|problem| (index, problem));
        match content.iter().enumerate().find_map(refused) {
            Some((index, problem)) => Err(format!("content[{index}]: {problem}")),
            None => Ok(()),
        }
    }

    /// Answers a repeated request like the first one, when that is durable.
    async fn accepted_before(
        &mut self,
        prompt: PromptId,
        same: bool,
        key: Option<String>,
        reply: Reply<Accepted>,
    ) -> Result<(), AppenderClosed> {
        if !same {
            let (key, differs) = (key.unwrap_or_default(), format!("other content, as prompt {prompt}"));
            return refuse(reply, RequestError::KeyReused { key, differs });
        }
        let position = self.machine.position(&prompt).unwrap_or(0);
        let mut work = Work::default();
        work.reply(reply, Accepted { prompt, position });
        self.commit(work).await
    }

    async fn withdraw(
        &mut self,
        prompt: &PromptId,
        mut work: Work,
        reply: Reply<()>,
    ) -> Result<(), AppenderClosed> {
        match self.step(&mut work, |machine, step| machine.withdraw(prompt, step)) {
            Ok(()) => {
                work.reply(reply, ());
                self.commit(work).await
            }
            Err(refusal) => refuse(reply, refusal.into()),
        }
    }

    async fn cancel(
        &mut self,
        what: &Cancel,
        mut work: Work,
        reply: Reply<Cancelled>,
    ) -> Result<(), AppenderClosed> {
        match self.step(&mut work, |machine, step| machine.cancel(what, By::Client, step)) {
            Ok(cancelled) => {
                // Stopping needs no disk, so the agent is told at once. The client is answered when the
                // event is durable.
                if self.recovery.is_some() {
                    self.stop_leftover().await;
                } else {
                    for name in self.cancelling_names() {
                        self.tell_to_stop_prompt(name).await;
                    }
                    if cancelled.turn.is_some() {
                        self.tell_to_stop().await;
                    }
                }
                turnstream_failpoint::reach("keeper.cancelling");
                let told = self.clocks.was_told_to_stop();
                work.reply_or(reply, cancelled, move |error| match error {
                    RequestError::NotDurableYet(problem) if told => RequestError::StopNotDurableYet(problem),
                    other => other,
                });
                self.commit(work).await
            }
            Err(refusal) => refuse(reply, refusal.into()),
        }
    }

    /// Cancels a turn on behalf of a rule or of an answer. The agent is told when that is durable, and
    /// during a recovery when that is over.
    pub(super) fn cancel_turn(&mut self, turn: &TurnId, by: By, work: &mut Work) {
        let what = Cancel::Turn(turn.clone());
        let cancelled = self.step(work, |machine, step| machine.cancel(&what, by, step));
        if cancelled.is_ok() && self.recovery.is_none() {
            work.commands.push(Command::Cancel);
        }
    }

    /// Most agents are told of a cancel when the recovery is over. One that waits for a process of an earlier
    /// gateway need not wait for its end.
    pub(super) async fn stop_leftover(&self) {
        let is_cancelled = self.machine.is_cancelling() || !self.machine.cancelling_prompts().is_empty();
        let takes_it = self.agent.as_ref().is_some_and(|agent| agent.takes_cancel_in_recovery());
        if is_cancelled && takes_it && self.connection.is_up() {
            self.connection.tell(Command::Cancel).await;
        }
    }

    pub(super) async fn tell_to_stop(&mut self) {
        self.clocks.tell_to_stop(&self.connection, self.shared.settings.cancel).await;
    }

    pub(super) async fn tell_to_stop_prompt(&mut self, name: String) {
        self.clocks.tell_to_stop_prompt(&self.connection, self.shared.settings.cancel, name).await;
    }

    /// The agent's names of cancelled prompts that have no turn.
    pub(super) fn cancelling_names(&self) -> Vec<String> {
        self.machine.cancelling_prompts().into_iter().filter_map(|(_, name)| name).collect()
    }

    async fn resolve(
        &mut self,
        approval: &ApprovalId,
        answer: ResolveApproval,
        mut work: Work,
        reply: Reply<()>,
    ) -> Result<(), AppenderClosed> {
        if let Some(failure) = disk_failure::current(&self.shared.log) {
            return refuse(reply, failure.refused());
        }
        let option = match self.waits.asks.get(approval).map(|ask| check_answer(ask, &answer)) {
            Some(Ok(option)) => option,
            Some(Err(error)) => return refuse(reply, error),
            // It is not open: the machine's refusal says why.
            None => None,
        };
        let native = self.machine.ask_key(approval).cloned();
        let turn = self.machine.turn_of_ask(approval).cloned();
        let ResolveApproval { outcome, message, stop, key, .. } = answer;
        let resolution =
            Resolution { outcome, by: By::Client, option: option.clone(), message: message.clone(), key };
        if let Err(refusal) =
            self.step(&mut work, |machine, step| machine.resolve(approval, resolution, step))
        {
            return refuse(reply, refusal.into());
        }
        if let Some(native) = native {
            self.tell_decision(Command::Approve { key: native, outcome, option, message }, &mut work);
        }
        if let Some(turn) = turn.filter(|_| stop && outcome == ApprovalOutcome::Reject) {
            self.cancel_turn(&turn, By::Client, &mut work);
        }
        work.reply(reply, ());
        self.commit_answer(work).await
    }

    /// Returns when the answer is durable and was sent to the agent.
    async fn commit_answer(&mut self, work: Work) -> Result<(), AppenderClosed> {
        self.commit_now(work).await?;
        self.waits.forget_keys();
        Ok(())
    }

    async fn answer(
        &mut self,
        question: &QuestionId,
        answer: AnswerQuestion,
        mut work: Work,
        reply: Reply<()>,
    ) -> Result<(), AppenderClosed> {
        if let Some(failure) = disk_failure::current(&self.shared.log) {
            return refuse(reply, failure.refused());
        }
        if let Some(Err(error)) =
            self.waits.questions.get(question).map(|asked| check_answers(asked, &answer))
        {
            return refuse(reply, error);
        }
        let native = self.machine.question_key(question).cloned();
        let told = match self.as_offered(question, native.as_ref(), answer.answers.as_ref()) {
            Ok(told) => told,
            Err(Forgotten { question, label }) => {
                return refuse(
                    reply,
                    RequestError::BadAnswer(format!(
                        "choice {label:?} of question {question:?} contains a secret, and the agent's own label was \
                         not kept over a restart; answer in your own words, or with the outcome rejected"
                    )),
                );
            }
        };
        let AnswerQuestion { outcome, answers, key } = answer;
        if let Err(refusal) =
            self.step(&mut work, |machine, step| machine.answer(question, outcome, answers, key, step))
        {
            return refuse(reply, refusal.into());
        }
        if let Some(native) = native {
            self.tell_decision(Command::Answer { key: native, outcome, answers: told }, &mut work);
        }
        work.reply(reply, ());
        self.commit_answer(work).await
    }

    /// The answers with the agent's own labels, where a label was redacted.
    fn as_offered(
        &self,
        question: &QuestionId,
        native: Option<&Key>,
        answers: Option<&Map<String, Value>>,
    ) -> Result<Option<Map<String, Value>>, Forgotten> {
        let (Some(native), Some(answers)) = (native, answers) else { return Ok(answers.cloned()) };
        let asked = self.waits.questions.get(question).map_or(&[][..], |asked| &asked.questions);
        self.redactor.labels().as_offered(native, asked, answers).map(Some)
    }

    async fn change(
        &mut self,
        change: Change,
        mut work: Work,
        reply: Reply<()>,
    ) -> Result<(), AppenderClosed> {
        let Change { title, model, mode, permissions, unattended } = change;
        let rules = unattended.applied_to(self.machine.unattended());
        let patch = SessionPatch {
            title,
            model: model.clone(),
            mode: mode.clone(),
            permissions,
            ..SessionPatch::default()
        };
        let changed = self.step(&mut work, |machine, step| {
            machine.change(patch, step)?;
            machine.set_unattended(rules, By::Client, step)
        });
        match changed {
            Ok(()) => {
                work.commands.push(Command::Change { model, mode, permissions });
                work.reply(reply, ());
                self.commit_now(work).await
            }
            Err(refusal) => refuse(reply, refusal.into()),
        }
    }

    /// Whether nothing is open in the session.
    pub(super) fn is_quiet(&self) -> bool {
        self.machine.is_quiet() && self.recovery.is_none()
    }

    /// Whether nothing is open in the session but prompts that wait until a cap is raised.
    pub(super) fn is_resting(&self) -> bool {
        self.machine.is_resting() && self.recovery.is_none()
    }

    /// Whether the session could leave memory at once.
    pub(super) fn is_spare(&self) -> bool {
        self.connection.is_down() && self.is_resting()
    }

    async fn end<T: Send + 'static>(
        &mut self,
        reason: String,
        mut work: Work,
        reply: Reply<T>,
        done: T,
    ) -> Result<(), AppenderClosed> {
        let works = self.machine.open_turn().is_some();
        let sent = self.sent_names();
        // What the agent has said so far is not the client's.
        let actor = work.actor.take();
        self.flush_texts(&mut work);
        work.actor = actor;
        match self.step(&mut work, |machine, step| machine.end_session(reason, step)) {
            Ok(()) => {
                // Before the end is durable: stopping needs no disk, and an ended session has no turn to
                // cancel. A crash in between leaves a session whose turn was stopped.
                for name in sent {
                    self.connection.tell(Command::CancelPrompt(name)).await;
                }
                if works {
                    self.connection.tell(Command::Cancel).await;
                }
                self.close_link();
                self.recovery = None;
                work.reply(reply, done);
                self.commit_now(work).await
            }
            Err(refusal) => refuse(reply, refusal.into()),
        }
    }
}

pub(super) fn refuse<T>(reply: Reply<T>, error: RequestError) -> Result<(), AppenderClosed> {
    answer(reply, Err(error));
    Ok(())
}

/// Deepest nesting of a block. JSON parsers stop at 128, and a snapshot nests a block deeper than its
/// request.
const DEEPEST: usize = 64;

fn is_shallow(value: &Value, most: usize) -> bool {
    match value {
        Value::Array(values) => most > 0 && values.iter().all(|value| is_shallow(value, most - 1)),
        Value::Object(members) => most > 0 && members.values().all(|value| is_shallow(value, most - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Checks for ACP content blocks: objects with a type, not nested too deep.
fn check_content(content: &[Value]) -> Result<(), String> {
    if content.is_empty() {
        return Err(
            "content is empty; give at least one block, for example {\"type\":\"text\",\"text\":\"Hi\"}"
                .to_owned(),
        );
    }
    for (index, block) in content.iter().enumerate() {
        let kind = block.get("type").and_then(Value::as_str);
        let Some(kind) = kind else {
            return Err(format!("content[{index}] is not an object with a \"type\""));
        };
        if kind == "text" && block.get("text").and_then(Value::as_str).is_none() {
            return Err(format!("content[{index}] is of type text and has no \"text\""));
        }
        if !is_shallow(block, DEEPEST) {
            return Err(format!("content[{index}] is nested more than {DEEPEST} deep"));
        }
    }
    Ok(())
}
