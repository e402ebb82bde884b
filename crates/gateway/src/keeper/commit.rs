//! From the machine to the log: a step's events are appended in order, and what must wait for the disk waits.

use super::aftermath::Effect;
use super::ears::Meanwhile;
use super::{Gone, Keeper, now};
use crate::error::RequestError;
use crate::redactor::redact_body;
use crate::tally::Fact;
use tokio::sync::oneshot;
use turnstream_agents::Command;
use turnstream_log::{Appender, Receipt};
use turnstream_model::event::{Body, Draft, Subject};
use turnstream_model::machine::{Machine, Step};
use turnstream_model::signal::Need;
use turnstream_model::time::Time;

/// What a step produced, and what is to happen when it is durable.
#[derive(Default)]
pub(super) struct Work {
    pub(super) drafts: Vec<Draft>,
    pub(super) needs: Vec<Need>,
    /// For the agent, after the events are durable.
    pub(super) commands: Vec<Command>,
    pub(super) effects: Vec<Effect>,
}

impl Work {
    /// Answers somebody when this is durable.
    pub(super) fn reply<T: Send + 'static>(
        &mut self,
        reply: oneshot::Sender<Result<T, RequestError>>,
        value: T,
    ) {
        self.reply_or(reply, value, |error| error);
    }

    /// The same, with another word for what went wrong.
    pub(super) fn reply_or<T: Send + 'static>(
        &mut self,
        reply: oneshot::Sender<Result<T, RequestError>>,
        value: T,
        wrong: impl FnOnce(RequestError) -> RequestError + Send + 'static,
    ) {
        // Whoever asked may have gone away.
        let reply = move |result: Result<(), RequestError>| {
            drop(reply.send(result.map(|()| value).map_err(wrong)));
        };
        self.effects.push(Effect::Reply(Box::new(reply)));
    }
}

impl Keeper {
    /// One step of the machine.
    pub(super) fn step<T>(
        &mut self,
        work: &mut Work,
        act: impl FnOnce(&mut Machine, &mut Step<'_>) -> T,
    ) -> T {
        let before = work.drafts.len();
        let mut step =
            Step { now: now(), ids: &mut self.ids, drafts: &mut work.drafts, needs: &mut work.needs };
        let result = act(&mut self.machine, &mut step);
        for draft in &mut work.drafts[before..] {
            redact_body(&self.shared.settings.secrets, &mut draft.body);
        }
        self.note(before, work);
        result
    }

    /// Hands the events to the log, tells the agent what it has to be told, and goes on as soon as it may.
    pub(super) async fn commit(&mut self, work: Work) -> Result<(), Gone> {
        if work.commands.is_empty() {
            let Work { drafts, needs, effects, .. } = work;
            self.append(drafts, effects).await?;
            return self.fetch(needs).await;
        }
        self.commit_now(work).await
    }

    /// The same, and returns when the events are durable and the agent was told.
    pub(super) async fn commit_now(&mut self, work: Work) -> Result<(), Gone> {
        let Work { drafts, needs, commands, mut effects } = work;
        let (sender, durable) = oneshot::channel();
        effects.push(Effect::Durable(sender));
        self.append(drafts, effects).await?;
        self.clocks.freeze();
        let durable = self.meanwhile().0.wait(durable).await;
        self.thaw();
        durable.map_err(|_| Gone)?;
        turnstream_failpoint::reach("keeper.durable");
        for command in commands {
            match command {
                // Somebody may have told it meanwhile, or the turn may have ended with what was observed.
                Command::Cancel if self.machine.is_cancelling() => self.tell_to_stop().await,
                Command::Cancel => {}
                // It may have got its turn meanwhile: an agent that has stopped that hears nothing new.
                Command::CancelPrompt(name) if self.cancelling_names().contains(&name) => {
                    self.tell_to_stop_prompt(name).await;
                }
                Command::Prompt { native_id, content } => {
                    self.at_agent = Some(native_id.clone());
                    self.connection.tell(Command::Prompt { native_id, content }).await;
                }
                // An adapter that has ended says why, or said it already.
                other => drop(self.connection.tell(other).await),
            }
            turnstream_failpoint::reach("keeper.told");
        }
        self.fetch(needs).await
    }

    async fn append(&mut self, drafts: Vec<Draft>, mut effects: Vec<Effect>) -> Result<(), Gone> {
        if drafts.is_empty() && effects.is_empty() {
            return Ok(());
        }
        let time = now();
        let mut changed = false;
        for draft in &drafts {
            changed |= matches!(draft.about(), Some((Subject::Session, _)));
            self.session.apply(&draft.body, time);
        }
        let facts: Vec<Fact> = drafts.iter().filter_map(|draft| Fact::of(&draft.body)).collect();
        if !facts.is_empty() {
            effects.insert(0, Effect::Count(self.session.agent.clone(), facts));
        }
        if !drafts.is_empty() {
            effects.insert(0, Effect::Touch(time));
        }
        if changed {
            // Before the replies: whoever is answered finds the board as it was promised.
            effects.insert(0, Effect::Show(Box::new(self.session.clone())));
        }
        turnstream_failpoint::reach("keeper.append");
        let mut pieces = pieces(drafts);
        let last = pieces.pop().unwrap_or_default();
        for piece in pieces {
            let receipt = self.hand_over(piece, time).await?;
            self.aftermath.after(receipt, Vec::new())?;
        }
        let receipt = self.hand_over(last, time).await?;
        self.aftermath.after(receipt, effects)
    }

    /// Waits while more than the log's budget is under way.
    async fn hand_over(&mut self, drafts: Vec<Draft>, time: Time) -> Result<Receipt, Gone> {
        self.clocks.freeze();
        let (meanwhile, appender) = self.meanwhile();
        let handed = meanwhile.wait(appender.append(drafts, time)).await;
        self.thaw();
        handed.map_err(|_| Gone)
    }

    fn meanwhile(&mut self) -> (Meanwhile<'_>, &mut Appender) {
        let meanwhile = Meanwhile {
            ears: &mut self.ears,
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
        (meanwhile, &mut self.appender)
    }

    /// Facts need no durability: asking twice does no harm.
    async fn fetch(&mut self, needs: Vec<Need>) -> Result<(), Gone> {
        for need in needs {
            self.connection.tell(Command::Fetch(need)).await;
        }
        Ok(())
    }
}

/// Bytes of text that one event and, about, one append may have. What is more goes into several.
const PIECE: usize = 4 << 20;

/// The events in appends that the log takes, in their order. Text that is too long for one event becomes several.
fn pieces(drafts: Vec<Draft>) -> Vec<Vec<Draft>> {
    let mut pieces: Vec<Vec<Draft>> = Vec::new();
    let (mut piece, mut bytes) = (Vec::new(), 0);
    for draft in drafts.into_iter().flat_map(split) {
        let length = if let Body::ItemDelta { text, .. } | Body::ItemReplaced { text, .. } = &draft.body {
            text.len()
        } else {
            0
        };
        if bytes + length > PIECE && !piece.is_empty() {
            pieces.push(std::mem::take(&mut piece));
            bytes = 0;
        }
        bytes += length;
        piece.push(draft);
    }
    pieces.push(piece);
    pieces
}

/// A piece of text as several deltas, if it is too long for one.
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
