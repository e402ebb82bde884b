//! Prompts that have no outcome yet: in the queue, or sent and not taken by a turn.

use crate::event::{Aside, Body, By, Continuation, Draft};
use crate::id::{PromptId, TurnId};
use serde_json::Value;

/// How far a prompt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptState {
    /// In the queue.
    Waiting,
    /// Sent to the agent, which has not confirmed it yet.
    Sent,
}

/// Whether a prompt is sent with the context that waits for one: the text of another session, or the
/// transcript of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentContext {
    /// It is, if there is one.
    Included,
    /// It waits for the next prompt.
    Withheld,
}

struct Prompt {
    id: PromptId,
    state: PromptState,
    native_id: Option<String>,
    /// It was cancelled, and the log says so.
    cancelling: bool,
    /// The gateway made it, to continue a turn.
    continues: Option<Continuation>,
}

/// A prompt that a turn has taken.
pub(crate) struct TakenPrompt {
    /// It was cancelled before.
    pub(crate) cancelling: bool,
    /// The turn that it continues.
    pub(crate) continues: Option<Continuation>,
}

/// In the order in which they were accepted.
#[derive(Default)]
pub(crate) struct Prompts {
    open: Vec<Prompt>,
}

impl Prompts {
    /// Returns how many prompts are before it.
    pub(crate) fn accept(
        &mut self,
        id: PromptId,
        key: Option<String>,
        content: Vec<Value>,
        out: &mut Vec<Draft>,
    ) -> usize {
        out.push(Draft::new(Body::PromptAccepted { prompt: id.clone(), key, content }));
        self.resume(id, PromptState::Waiting, None, false, None);
        self.open.len() - 1
    }

    /// Adds the prompt that continues a turn. It is the next one: prompts that wait came after the turn.
    pub(crate) fn accept_continuation(
        &mut self,
        id: PromptId,
        content: Vec<Value>,
        continuation: Continuation,
        out: &mut Vec<Draft>,
    ) {
        out.push(Draft::new(Body::PromptAccepted { prompt: id.clone(), key: None, content }));
        let body =
            Aside::PromptContinues { prompt: id.clone(), continuation: Box::new(continuation.clone()) };
        out.push(Draft::new(body.into()));
        let is_waiting = |prompt: &Prompt| prompt.state == PromptState::Waiting;
        let first = self.open.iter().position(is_waiting).unwrap_or(self.open.len());
        let (state, continues) = (PromptState::Waiting, Some(continuation));
        self.open.insert(first, Prompt { id, state, native_id: None, cancelling: false, continues });
    }

    /// Adds a prompt that was accepted under the last owner.
    pub(crate) fn resume(
        &mut self,
        id: PromptId,
        state: PromptState,
        native_id: Option<String>,
        cancelling: bool,
        continues: Option<Continuation>,
    ) {
        self.open.push(Prompt { id, state, native_id, cancelling, continues });
    }

    pub(crate) fn state(&self, id: &PromptId) -> Option<PromptState> {
        self.open.iter().find(|prompt| prompt.id == *id).map(|prompt| prompt.state)
    }

    /// Marks a waiting prompt as sent; false when it does not wait.
    pub(crate) fn send(
        &mut self,
        id: &PromptId,
        native_id: Option<String>,
        context: SentContext,
        out: &mut Vec<Draft>,
    ) -> bool {
        let waiting = |prompt: &&mut Prompt| prompt.id == *id && prompt.state == PromptState::Waiting;
        let Some(prompt) = self.open.iter_mut().find(waiting) else { return false };
        prompt.state = PromptState::Sent;
        prompt.native_id.clone_from(&native_id);
        let bare = context == SentContext::Withheld;
        out.push(Draft::new(Body::PromptSent { prompt: id.clone(), native_id, bare }));
        true
    }

    /// Withdraws a waiting prompt; false when it does not wait.
    pub(crate) fn withdraw(&mut self, id: &PromptId, out: &mut Vec<Draft>) -> bool {
        let waiting = |prompt: &Prompt| prompt.id == *id && prompt.state == PromptState::Waiting;
        let Some(index) = self.open.iter().position(waiting) else { return false };
        self.open.remove(index);
        out.push(Draft::new(Body::PromptWithdrawn { prompt: id.clone() }));
        true
    }

    /// Withdraws every prompt in the queue, because the session ends.
    pub(crate) fn withdraw_all(&mut self, out: &mut Vec<Draft>) {
        let waiting: Vec<PromptId> = self.in_state(PromptState::Waiting);
        for id in waiting {
            self.withdraw(&id, out);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// How many are before it.
    pub(crate) fn position(&self, id: &PromptId) -> Option<usize> {
        self.open.iter().position(|prompt| prompt.id == *id)
    }

    /// The prompt that has waited longest.
    pub(crate) fn first_waiting(&self) -> Option<PromptId> {
        self.open.iter().find(|prompt| prompt.state == PromptState::Waiting).map(|prompt| prompt.id.clone())
    }

    /// The prompt that continues a turn and was not sent yet.
    pub(crate) fn waiting_continuation(&self) -> Option<(&PromptId, &Continuation)> {
        let mut waiting = self.open.iter().filter(|prompt| prompt.state == PromptState::Waiting);
        waiting.find_map(|prompt| Some((&prompt.id, prompt.continues.as_ref()?)))
    }

    /// Cancels a sent prompt. There is one event, however often it is requested. Does nothing if it was not
    /// sent.
    pub(crate) fn cancel(&mut self, id: &PromptId, by: By, out: &mut Vec<Draft>) {
        let sent = |prompt: &&mut Prompt| prompt.id == *id && prompt.state == PromptState::Sent;
        if let Some(prompt) = self.open.iter_mut().find(sent)
            && !std::mem::replace(&mut prompt.cancelling, true)
        {
            out.push(Draft::new(Aside::PromptCancelling { prompt: id.clone(), by }.into()));
        }
    }

    /// Sent prompts that were cancelled, with the native ids they were sent with.
    pub(crate) fn cancelling(&self) -> impl Iterator<Item = (&PromptId, Option<&str>)> {
        let cancelling = self.open.iter().filter(|prompt| prompt.cancelling);
        cancelling.map(|prompt| (&prompt.id, prompt.native_id.as_deref()))
    }

    pub(crate) fn sent_with_names(&self) -> Vec<(PromptId, Option<String>)> {
        let sent = self.open.iter().filter(|prompt| prompt.state == PromptState::Sent);
        sent.map(|prompt| (prompt.id.clone(), prompt.native_id.clone())).collect()
    }

    pub(crate) fn any_sent(&self) -> bool {
        self.open.iter().any(|prompt| prompt.state == PromptState::Sent)
    }

    pub(crate) fn sent(&self) -> Vec<PromptId> {
        self.in_state(PromptState::Sent)
    }

    pub(crate) fn sent_as(&self, native_id: &str) -> Option<PromptId> {
        let sent = self.open.iter().filter(|prompt| prompt.state == PromptState::Sent);
        sent.into_iter()
            .find(|prompt| prompt.native_id.as_deref() == Some(native_id))
            .map(|prompt| prompt.id.clone())
    }

    /// A turn took the prompt, which is its outcome. A turn that takes a continuation says so.
    pub(crate) fn take_into_turn(
        &mut self,
        id: &PromptId,
        turn: &TurnId,
        out: &mut Vec<Draft>,
    ) -> TakenPrompt {
        let Some(index) = self.open.iter().position(|prompt| prompt.id == *id) else {
            return TakenPrompt { cancelling: false, continues: None };
        };
        let Prompt { cancelling, continues, .. } = self.open.remove(index);
        let body = Body::PromptTaken { prompt: id.clone() };
        out.push(Draft { turn: Some(turn.clone()), ..Draft::new(body) });
        if let Some(continuation) = continues.clone() {
            let body = Aside::TurnContinues { continuation: Box::new(continuation) };
            out.push(Draft { turn: Some(turn.clone()), ..Draft::new(body.into()) });
        }
        TakenPrompt { cancelling, continues }
    }

    fn in_state(&self, state: PromptState) -> Vec<PromptId> {
        self.open.iter().filter(|prompt| prompt.state == state).map(|prompt| prompt.id.clone()).collect()
    }
}
