//! An encoder that starts from a state.

use super::asks::Question;
use super::encoder::Encoder;
use super::event::AcpEvent;
use super::item::ItemStart;
use super::tag::Ended;
use std::collections::HashSet;
use turnstream_model::event::{Field, ItemState, SessionPatch, Status};
use turnstream_model::fold::{Activity, Item, ItemStage, Session, State, Turn};
use turnstream_model::id::{PromptId, TurnId};

impl Encoder {
    /// Continues after this state, for a client that has everything up to it. Nothing is repeated: an open
    /// tool call is updated and not announced again.
    pub fn resume(state: &State) -> Self {
        Self::replay(state, &mut Vec::new())
    }

    /// Adds the conversation up to this state, for a client that has nothing, and continues after it. This
    /// is what `session/load` requires. Every text comes once and whole. Void items are left out, ended
    /// turns get no terminator, and open approvals and questions are asked again.
    pub fn replay(state: &State, out: &mut Vec<AcpEvent>) -> Self {
        let mut encoder = Self { seq: state.seq, ..Self::default() };
        encoder.replay_session(&state.session, out);
        for prompt in state.prompts.iter().chain(&state.queue) {
            encoder.prompts.insert(prompt.prompt.clone(), prompt.content.clone());
        }
        let waiting: HashSet<&PromptId> = state.queue.iter().map(|prompt| &prompt.prompt).collect();
        let mut turns = state.turns.iter();
        let mut begun: HashSet<&TurnId> = HashSet::new();
        for item in &state.items {
            // Items are in the order of their start, so the turns before this item's turn have started too.
            while let Some(turn) = item.turn.as_ref().filter(|turn| !begun.contains(turn)) {
                let Some(next) = turns.next() else { break };
                begun.insert(&next.turn);
                encoder.replay_turn(next, &waiting, out);
                if next.turn == *turn {
                    break;
                }
            }
            encoder.replay_item(item, out);
        }
        for turn in turns {
            encoder.replay_turn(turn, &waiting, out);
        }
        for turn in state.turns.iter().filter(|turn| !turn.is_open()) {
            encoder.turns.remove(&turn.turn);
            encoder.items.end_turn(&turn.turn);
        }
        encoder.prompts.retain(|prompt, _| waiting.contains(prompt));
        encoder.open_asks(state, out);
        encoder.show_usage(out);
        out.push(AcpEvent::Status(status(&state.session)));
        encoder
    }

    fn replay_session(&mut self, session: &Session, out: &mut Vec<AcpEvent>) {
        let patch = SessionPatch {
            title: session.title.clone(),
            model: session.model.clone(),
            mode: session.mode.clone(),
            native_id: session.native_id.clone(),
            context: None,
            permissions: session.permissions,
            redact_prompts: None,
            mcp: None,
        };
        self.session_updated(&patch, out);
        self.context.clone_from(&session.context);
    }

    fn replay_turn(&mut self, turn: &Turn, waiting: &HashSet<&PromptId>, out: &mut Vec<AcpEvent>) {
        self.turn_started(Some(&turn.turn), &turn.prompts);
        // A turn names its prompts before it takes them: `prompt.taken` of a queued one is still to come.
        for prompt in turn.prompts.iter().filter(|prompt| !waiting.contains(prompt)) {
            self.prompt_taken(Some(&turn.turn), prompt, out);
        }
        let last = turn.attempts.iter().rev().find(|attempt| attempt.superseded_by.is_none());
        if let Some(open) = self.turns.get_mut(&turn.turn) {
            open.finish = last.and_then(|attempt| attempt.finish.clone());
        }
        if let Some(cost) = &turn.cost {
            self.add_cost(cost);
        }
    }

    fn replay_item(&mut self, item: &Item, out: &mut Vec<AcpEvent>) {
        let (turn, parent) = (item.turn.clone(), item.parent.clone());
        let head = ItemStart { turn, parent, kind: item.kind, role: item.role, synthetic: item.synthetic };
        self.items.start(&item.id, head, item.tool.as_deref(), out);
        if let Some(text) = &item.text {
            self.items.delta(&item.id, Field::Text, text, out);
        }
        for (field, text) in [(Field::Input, &item.input), (Field::Output, &item.output)] {
            if let Some(text) = text.as_ref().filter(|text| !text.is_empty()) {
                self.items.replace(&item.id, field, text, out);
            }
        }
        if let Some(state) = state_of(item.state) {
            let (reason, caused_by) = (item.reason.clone(), item.caused_by.clone());
            let ended = Ended { state, reason, incomplete: item.incomplete, caused_by };
            self.items.end(&item.id, ended, out);
        }
    }

    fn open_asks(&self, state: &State, out: &mut Vec<AcpEvent>) {
        let open = state.open();
        for ask in open.approvals {
            out.push(self.permission(&ask.approval, ask.item.as_ref(), ask.tool.as_deref(), &ask.options));
        }
        for asked in open.questions {
            let (question, item) = (asked.question.clone(), asked.item.clone());
            let questions = asked.questions.clone();
            out.push(AcpEvent::Question(Box::new(Question { question, item, questions })));
        }
    }
}

fn state_of(stage: ItemStage) -> Option<ItemState> {
    match stage {
        ItemStage::Streaming => None,
        ItemStage::Completed => Some(ItemState::Completed),
        ItemStage::Failed => Some(ItemState::Failed),
        ItemStage::Abandoned => Some(ItemState::Abandoned),
        ItemStage::Unknown => Some(ItemState::Unknown),
    }
}

fn status(session: &Session) -> Status {
    match session.status {
        Activity::Idle => Status::Idle,
        Activity::Busy => Status::Busy,
        Activity::Waiting => Status::Waiting,
        Activity::Recovering => Status::Recovering,
        Activity::Retrying => {
            let retry = session.retry.as_ref();
            Status::Retrying {
                attempt: retry.and_then(|retry| retry.attempt),
                reason: retry.and_then(|retry| retry.reason),
                until: retry.and_then(|retry| retry.until),
                message: retry.and_then(|retry| retry.message.clone()),
            }
        }
    }
}
