//! A machine that resumes a session from its state, with everything that is open in it.

use super::archive::Archived;
use super::item::OpenItem;
use super::items::Items;
use super::prompts::PromptState;
use super::turn::ClosedTurn;
use super::waits::WaitPlace;
use super::{CLOSED_KEPT, Machine, OpenTurn, Shown};
use crate::event::{ItemKind, Role, SessionPatch, Status};
use crate::fold::{Activity, Item, ItemStage, PromptStage, State, Turn};
use crate::id::{Key, TurnId};

impl Machine {
    /// Resumes a session from its state. New ids continue from [`State::counters`].
    pub fn resume(state: &State) -> Self {
        let open = state.open_turn();
        let mut machine = Self {
            turn: open.map(|turn| resume_turn(turn, state)),
            background: resume_items(state, None),
            status: Shown(resume_status(state)),
            // It keeps waiting until a signal shows that the call was repeated.
            retrying: open
                .filter(|_| state.session.status == Activity::Retrying)
                .map(|_| resume_status(state)),
            created: state.session.id.is_some(),
            ended: state.session.ended.is_some(),
            session: SessionPatch {
                title: state.session.title.clone(),
                model: state.session.model.clone(),
                mode: state.session.mode.clone(),
                native_id: state.session.native_id.clone(),
                context: state.session.context.clone(),
                permissions: state.session.permissions,
                redact_prompts: state.session.redact_prompts,
                mcp: (!state.session.mcp.is_empty()).then(|| state.session.mcp.clone()),
            },
            meter: state.session.budget.clone(),
            unattended: state.session.unattended.as_ref().map(|it| it.rules.clone()).unwrap_or_default(),
            parked: state.session.unattended.as_ref().and_then(|it| it.parked.clone()),
            released: open.is_none() && state.session.status == Activity::Retrying,
            ..Self::default()
        };
        machine.resume_budget(open.and_then(|turn| turn.cancelling));
        for prompt in &state.queue {
            let stage = match prompt.state {
                PromptStage::Sent => PromptState::Sent,
                PromptStage::Waiting | PromptStage::Taken | PromptStage::Withdrawn => PromptState::Waiting,
            };
            let cancelling = prompt.cancelling.is_some();
            let (id, native_id) = (prompt.prompt.clone(), prompt.native_id.clone());
            machine.prompts.resume(id, stage, native_id, cancelling, prompt.continues.clone());
        }
        machine.resume_waits(state);
        machine.resume_closed(state);
        machine
    }

    /// The turns that can still be revised, and the ids of older items.
    fn resume_closed(&mut self, state: &State) {
        let ended = state.turns.iter().filter(|turn| !turn.is_open());
        let recent: Vec<&Turn> = ended.rev().take(CLOSED_KEPT).collect();
        let is_recent = |id: Option<&TurnId>| recent.iter().any(|turn| Some(&turn.turn) == id);
        let open = self.open_turn().cloned();
        for item in &state.items {
            let turn = item.turn.as_ref();
            if turn.is_some() && turn != open.as_ref() && !is_recent(turn) {
                let is_tool = item.kind == ItemKind::Tool;
                self.archive.add(
                    key(item.native_id.as_deref(), item.id.as_str()),
                    Archived { id: item.id.clone(), is_tool },
                );
            }
        }
        for turn in recent {
            let calls = turn.attempts.iter().filter_map(|attempt| attempt.native_id.as_deref());
            self.closed.push_back(ClosedTurn {
                id: turn.turn.clone(),
                native_id: turn.native_id.clone(),
                items: resume_items(state, Some(&turn.turn)),
                calls: calls.map(Key::from).collect(),
            });
        }
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
    let of_turn = |item: &&Item| item.turn.as_ref() == Some(&turn.turn);
    let worked = state.items.iter().filter(of_turn).any(|item| item.role != Some(Role::User));
    let taken = state.prompts.iter().filter(|prompt| prompt.turn.as_ref() == Some(&turn.turn));
    let unwanted = taken.filter(|prompt| prompt.cancelling.is_some()).map(|prompt| prompt.prompt.clone());
    OpenTurn::resumed(turn, resume_items(state, Some(&turn.turn)), worked, unwanted.collect())
}

fn resume_items(state: &State, turn: Option<&TurnId>) -> Items {
    let mut items = Items::default();
    for item in state.items.iter().filter(|item| item.turn.as_ref() == turn) {
        let key = key(item.native_id.as_deref(), item.id.as_str());
        match item.state {
            ItemStage::Streaming => items.resume(key, OpenItem::resumed(item)),
            ItemStage::Completed | ItemStage::Failed | ItemStage::Abandoned | ItemStage::Unknown => {
                let ended = OpenItem::resumed(item).into_ended(item);
                items.resume_ended(key, ended, item.parent.as_ref());
            }
        }
    }
    items
}

/// Something without a native id gets a key that no agent uses, so that it can still be closed.
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
                message: retry.and_then(|retry| retry.message.clone()),
            }
        }
    }
}
