//! A machine for a session that another owner left: it takes up what the fold says is open.

use super::attempt::Attempts;
use super::item::OpenItem;
use super::items::Items;
use super::prompts::PromptState;
use super::waits::WaitPlace;
use super::{Machine, OpenTurn, Shown};
use crate::event::{SessionPatch, Status, Usage};
use crate::fold::{Activity, ItemStage, PromptStage, State, Turn};
use crate::id::{Key, TurnId};

impl Machine {
    /// The machine of a session as its log left it. Ids go on from [`State::counters`].
    pub fn resume(state: &State) -> Self {
        let open = state.turns.iter().rev().find(|turn| turn.outcome.is_none());
        let mut machine = Self {
            turn: open.map(|turn| resume_turn(turn, state)),
            background: resume_items(state, None),
            status: Shown(resume_status(state)),
            ended: state.session.ended.is_some(),
            session: SessionPatch {
                title: state.session.title.clone(),
                model: state.session.model.clone(),
                mode: state.session.mode.clone(),
                native_id: state.session.native_id.clone(),
                context: state.session.context,
            },
            ..Self::default()
        };
        for prompt in &state.queue {
            let stage = match prompt.state {
                PromptStage::Sent => PromptState::Sent,
                PromptStage::Waiting | PromptStage::Taken | PromptStage::Withdrawn => PromptState::Waiting,
            };
            machine.prompts.resume(prompt.prompt.clone(), stage, prompt.native_id.clone());
        }
        machine.resume_waits(state);
        machine
    }

    fn resume_waits(&mut self, state: &State) {
        for ask in &state.approvals {
            let key = key(ask.native_id.as_deref(), ask.approval.as_str());
            let id = ask.approval.clone();
            match ask.outcome {
                Some(outcome) => self.waits.resume_settled_ask(id, key, outcome),
                None => {
                    let place = WaitPlace { turn: ask.turn.clone(), item: ask.item.clone() };
                    self.waits.resume_ask(id, key, place);
                }
            }
        }
        for asked in &state.questions {
            let key = key(asked.native_id.as_deref(), asked.question.as_str());
            let id = asked.question.clone();
            match asked.outcome {
                Some(outcome) => self.waits.resume_settled_question(id, key, outcome),
                None => {
                    let place = WaitPlace { turn: asked.turn.clone(), item: asked.item.clone() };
                    self.waits.resume_question(id, key, place);
                }
            }
        }
    }
}

fn resume_turn(turn: &Turn, state: &State) -> OpenTurn {
    let steps = turn.attempts.iter().map(|attempt| attempt.step).max().unwrap_or(0);
    let open = turn.attempts.iter().rev().find(|attempt| !attempt.ended);
    let open = open.map(|attempt| (attempt.attempt.clone(), attempt.model.clone()));
    let mut usage: Option<Usage> = None;
    for used in turn.attempts.iter().filter_map(|attempt| attempt.usage.as_ref()) {
        usage.get_or_insert_default().add(used);
    }
    let items = resume_items(state, Some(&turn.turn));
    OpenTurn::resumed(turn.turn.clone(), turn.native_id.clone(), items, Attempts::resumed(steps, open, usage))
}

fn resume_items(state: &State, turn: Option<&TurnId>) -> Items {
    let mut items = Items::default();
    for item in state.items.iter().filter(|item| item.turn.as_ref() == turn) {
        let key = key(item.native_id.as_deref(), item.id.as_str());
        match item.state {
            ItemStage::Streaming => items.resume(key, OpenItem::resumed(item)),
            ItemStage::Completed | ItemStage::Failed | ItemStage::Abandoned | ItemStage::Unknown => {
                items.resume_ended(key, OpenItem::resumed(item).into_ended(item));
            }
        }
    }
    items
}

/// What was never named natively gets a key that no agent uses, so that it can still be closed.
fn key(native_id: Option<&str>, id: &str) -> Key {
    native_id.map_or_else(|| Key::from(format!("\u{0}{id}")), Key::from)
}

fn resume_status(state: &State) -> Status {
    match state.session.status {
        Activity::Idle => Status::Idle,
        Activity::Busy => Status::Busy,
        Activity::Waiting => Status::Waiting,
        Activity::Recovering => Status::Recovering,
        Activity::Retrying => {
            let retry = state.session.retry.as_ref();
            Status::Retrying {
                attempt: retry.and_then(|retry| retry.attempt),
                reason: retry.and_then(|retry| retry.reason),
                until: retry.and_then(|retry| retry.until),
            }
        }
    }
}
