//! Which message of the user a model call follows.

use super::state::{Item, Prompt, State, Turn};
use crate::event::{ItemKind, Role};
use crate::id::{ItemId, PromptId, TurnId};
use crate::time::Time;
use serde::{Deserialize, Serialize};

/// A message of the user in a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum UserMessage {
    /// A prompt of the session.
    Prompt {
        /// Its id.
        prompt: PromptId,
        /// When it was accepted.
        time: Time,
    },
    /// A message that the agent reported: of another client, or of the agent in the user's name.
    Item {
        /// Its id.
        item: ItemId,
        /// When it started.
        time: Time,
    },
}

impl UserMessage {
    /// The time of the message.
    pub fn time(&self) -> Time {
        match self {
            Self::Prompt { time, .. } | Self::Item { time, .. } => *time,
        }
    }

    /// The last message of the user in a turn so far. `None` if that is the prompt that the turn began with,
    /// or if there is none.
    pub(super) fn last_in(turn: &TurnId, state: &State) -> Option<Self> {
        let turn = state.turns.iter().rev().find(|known| known.turn == *turn)?;
        let prompt = last_prompt(turn, state);
        let item = last_item(turn, state);
        let is_later = |item: &&Item| prompt.is_none_or(|prompt| prompt.time <= item.time);
        if let Some(item) = item.filter(is_later) {
            return Some(Self::Item { item: item.id.clone(), time: item.time });
        }
        let began_with =
            |prompt: &Prompt| turn.prompts.first() == Some(&prompt.prompt) && prompt.time <= turn.started;
        let prompt = prompt.filter(|prompt| !began_with(prompt))?;
        Some(Self::Prompt { prompt: prompt.prompt.clone(), time: prompt.time })
    }
}

fn last_prompt<'a>(turn: &Turn, state: &'a State) -> Option<&'a Prompt> {
    let last = turn.prompts.last()?;
    state.prompts.iter().rev().chain(&state.queue).find(|prompt| prompt.prompt == *last)
}

/// One that is still growing is not there yet.
fn last_item<'a>(turn: &Turn, state: &'a State) -> Option<&'a Item> {
    let is_near = |item: &&Item| item.turn.as_ref().is_none_or(|id| *id == turn.turn);
    let is_message = |item: &&Item| {
        let is_users = item.kind == ItemKind::Message && item.role == Some(Role::User);
        is_users && item.turn.is_some() && item.parent.is_none() && !item.is_open()
    };
    state.items.iter().rev().take_while(is_near).find(is_message)
}
