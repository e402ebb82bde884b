//! A session as the messages that a page begins with.

use super::chunks::OURS;
use super::encoder::Encoder;
use super::entries::{Form, form};
use super::held::Held;
use super::message::UiMessage;
use super::profile::Profile;
use super::turns::{self, is_waiting};
use serde_json::{Value, json};
use std::collections::HashMap;
use turnstream_model::fold::{Item, Prompt, State};
use turnstream_model::id::TurnId;

/// The id of a message that we name: the answer of a turn, or a prompt that has no id of a client.
pub fn message_id(session: &str, of: &str) -> String {
    format!("{session}/{of}")
}

/// Whether the gateway made this id of a message of the session.
pub fn is_ours(session: &str, id: &str) -> bool {
    id.strip_prefix(session).is_some_and(|rest| rest.starts_with('/'))
}

/// The messages of a session, oldest first. The answer of a turn that runs is left out: the stream brings
/// all of it, and a client would add it to a part of it. The answer of one that waits for a person is there.
///
/// Work of no turn that has ended is a message of its own, after the turn in which or after which it began.
/// An open turn is not followed by one: clients continue the last message.
pub fn messages(state: &State, profile: Profile) -> Vec<Value> {
    // A page takes from its own server what a stream has no word for.
    let profile = match profile {
        Profile::Safe | Profile::V6 | Profile::V7 => Profile::V7,
        Profile::V5 => Profile::V5,
    };
    let session = state.session.id.as_ref().map(turnstream_model::id::SessionId::as_str).unwrap_or_default();
    let between = between_turns(state);
    let background = |turn: Option<&TurnId>| {
        between.get(&turn).map(|items| background_message(session, state, items, profile))
    };
    let mut messages: Vec<Value> = background(None).into_iter().collect();
    for turn in &state.turns {
        let of_turn = |prompt: &&Prompt| turn.prompts.contains(&prompt.prompt);
        messages.extend(state.prompts.iter().filter(of_turn).map(|prompt| user_message(session, prompt)));
        if turn.is_open() && !is_waiting(state, turn) {
            continue;
        }
        let mut answer = UiMessage::default();
        Encoder::catch_up(state, &turn.turn, &Held::default(), profile, &mut answer);
        messages.push(answer.into_json());
        messages.extend(background(Some(&turn.turn)).filter(|_| !turn.is_open()));
    }
    messages.extend(state.queue.iter().map(|prompt| user_message(session, prompt)));
    messages
}

/// The ended items of no turn that can be shown, by the turn before them.
fn between_turns(state: &State) -> HashMap<Option<&TurnId>, Vec<&Item>> {
    let mut between: HashMap<Option<&TurnId>, Vec<&Item>> = HashMap::new();
    let mut last = None;
    for item in &state.items {
        if item.turn.is_some() {
            last = item.turn.as_ref();
        } else if !item.is_open() && form(item) != Form::Hidden {
            between.entry(last).or_default().push(item);
        }
    }
    between
}

/// Work of no turn as one message, whose id is made of the first item's.
fn background_message(session: &str, state: &State, items: &[&Item], profile: Profile) -> Value {
    let mut message = UiMessage::default();
    let first = items.first().map(|item| item.id.as_str()).unwrap_or_default();
    message.take(&json!({"type": "start", "messageId": message_id(session, first)}));
    items.iter().for_each(|item| turns::item(&mut message, state, item, profile));
    message.into_json()
}

/// A prompt. Its id is that of the client that sent it, if it gave one.
fn user_message(session: &str, prompt: &Prompt) -> Value {
    let id = prompt.key.clone().unwrap_or_else(|| message_id(session, prompt.prompt.as_str()));
    let parts: Vec<Value> = prompt.content.iter().map(part).collect();
    json!({"id": id, "role": "user", "parts": parts, "metadata": {OURS: {"prompt": prompt.prompt}}})
}

/// A block of a prompt as a part.
fn part(block: &Value) -> Value {
    let word = |member: &str| block[member].as_str();
    match (word("type"), word("data"), word("mimeType")) {
        (Some("text"), ..) => json!({"type": "text", "text": block["text"], "state": "done"}),
        (Some("image"), Some(data), Some(mime)) => {
            json!({"type": "file", "mediaType": mime, "url": format!("data:{mime};base64,{data}")})
        }
        _ => json!({"type": "data-block", "data": block}),
    }
}
