//! Messages and their parts: the model calls and items that they stand for.

use super::snapshot::COMPACTION;
use super::thread::{Author, KnownPart};
use super::usage::{dollars, usage_of};
use super::{Translated, Translator, Want, is_finish, retried, text_of};
use crate::event::Delta;
use crate::info::{AgentError, MessageInfo, Todo, Tokens};
use crate::part::{Part, PartBody, PartText, ToolCall};
use crate::tools;
use crate::turn_error::turn_error;
use serde::Deserialize;
use turnstream_json::{Piece, Seam};
use turnstream_model::event::{ErrorClass, Field, ItemKind, ItemState, Origin, Role};
use turnstream_model::id::Key;
use turnstream_model::signal::{Finality, ItemSeen, Signal};

impl Translator {
    pub(super) fn delta(&mut self, delta: &Delta, child: Option<&str>, out: &mut Translated) {
        if delta.field != "text" {
            return;
        }
        let thread = self.thread_mut(child);
        if thread.known(&delta.part).is_none() {
            if thread.is_past(&delta.message) {
                return;
            }
            thread.part(&delta.part, &delta.message);
        }
        // The server's store was ahead of its stream: a part that is over has this piece already.
        let goes_on = |known: &&mut KnownPart| !known.void && !known.over;
        let Some(known) = thread.known_mut(&delta.part).filter(goes_on) else { return };
        let text = known.seam.join(delta.delta.clone()).into_owned();
        // Half a character waits for its other half.
        if text.is_empty() && known.seam.is_holding() {
            return;
        }
        out.signals.push(Signal::TextDelta { key: known.key.clone(), field: Field::Text, text });
    }

    // === messages ===

    pub(super) fn message(&mut self, info: &MessageInfo, child: Option<&str>, out: &mut Translated) {
        if child.is_none() && self.is_past(info) {
            let message = self.main.message(&info.id);
            message.author = Author::EarlierTurn;
            message.held.clear();
            return;
        }
        let thread = self.thread_mut(child);
        let was_known = thread.message(&info.id).author != Author::Unknown;
        let was_over = thread.message(&info.id).over;
        let held = std::mem::take(&mut thread.note(info).held);
        if info.is_assistant() {
            match child {
                None => self.answer(info, was_known, was_over, out),
                Some(_) if !was_known => self.steps += 1,
                Some(_) => {}
            }
            self.count(&info.id, child, info.tokens.as_ref(), info.cost);
            if info.is_over() {
                out.signals.extend(self.usage.changes());
            }
        }
        for part in held {
            self.part(&part, child, out);
        }
    }

    /// Counts tokens and cost of a message, if it belongs to this turn.
    fn count(&mut self, message: &str, child: Option<&str>, tokens: Option<&Tokens>, cost: Option<f64>) {
        let turn = self.turn;
        if self.thread_mut(child).message(message).turn == turn {
            self.usage.count(message, tokens, cost);
        }
    }

    /// True for a message of this turn. The last updates of a turn come up to half a second after its idle
    /// (capture f1): they say nothing about the next one.
    fn is_current(&mut self, message: &str) -> bool {
        self.main.message(message).turn == self.turn
    }

    /// True for an answer of a turn before the prompt was sent: the last updates of an aborted turn come up
    /// to half a second later (capture f1). opencode stores a prompt before it answers it.
    fn is_past(&mut self, info: &MessageInfo) -> bool {
        let Some(own) = &mut self.own else { return false };
        let is_own = own.is_message(&info.id);
        let is_ours = is_own || info.parent.as_deref().is_some_and(|parent| own.is_message(parent));
        if is_own {
            own.created = Some(info.time.created);
        } else if is_ours {
            own.created.get_or_insert(0.0);
        }
        let known = self.main.messages.get(&info.id);
        let is_known =
            known.is_some_and(|message| matches!(message.author, Author::User | Author::Assistant));
        if is_ours || is_known || !info.is_assistant() {
            return false;
        }
        own.created.is_none_or(|created| info.time.created < created)
    }

    /// An answer of the session itself: its model call starts, ends or fails.
    fn answer(&mut self, info: &MessageInfo, was_known: bool, was_over: bool, out: &mut Translated) {
        if !was_known {
            if self.at_rest && info.is_over() {
                // A late end of an answer whose start was not seen.
                return;
            }
            if self.at_rest {
                self.begin_turn();
                let turn = self.turn;
                self.main.note(info).turn = turn;
            }
            self.first.get_or_insert_with(|| info.id.clone());
            self.evidence = true;
            if !info.is_over() {
                let prompts: Vec<String> = info.parent.iter().map(|parent| self.sent_as(parent)).collect();
                let origin = self.is_woken_by_subagent(info).then_some(Origin::Agent);
                out.signals.push(Signal::TurnBegan { origin, prompts, native_id: None });
            }
        }
        let is_current = self.is_current(&info.id);
        if is_current {
            self.usage.answered_by(info);
        }
        let model = match (&info.provider, &info.model) {
            (Some(provider), Some(model)) => Some(format!("{provider}/{model}")),
            _ => info.model.clone(),
        };
        self.begin_call(&info.id, model, out);
        if is_current && let Some(finish) = info.finish.clone().or_else(|| finish_of(info.error.as_ref())) {
            self.finish = Some(finish);
        }
        let error = info.error.as_ref().filter(|error| !is_finish(error)).map(turn_error);
        let finish = match &error {
            Some(error) if error.class == ErrorClass::Cancelled => Some("cancelled".to_owned()),
            Some(_) => Some("error".to_owned()),
            None => info.finish.clone().or_else(|| finish_of(info.error.as_ref())),
        };
        // Repeated while the turn may go on: a late start of the call would look as if it had recovered.
        if let Some(error) = error
            && is_current
            && !(was_over && self.at_rest)
        {
            out.signals.push(Signal::Failed(error));
        }
        if info.is_over() && !was_over {
            self.end_call(&info.id, finish, (info.tokens.as_ref(), info.cost), out);
        }
    }

    /// True for the answer to a prompt by which opencode reports the end of a subagent in the background.
    fn is_woken_by_subagent(&self, answer: &MessageInfo) -> bool {
        let prompt = answer.parent.as_ref().and_then(|prompt| self.main.messages.get(prompt));
        prompt.is_some_and(|prompt| prompt.reports_subagent)
    }

    fn begin_call(&mut self, message: &str, model: Option<String>, out: &mut Translated) {
        let known = self.main.message(message);
        if std::mem::replace(&mut known.begun, true) {
            return;
        }
        let (key, of_turn) = (known.call(message), known.turn);
        if of_turn == self.turn {
            self.steps += 1;
            self.refused = false;
        }
        out.signals.push(Signal::AttemptBegan { key, model });
    }

    fn end_call(
        &mut self,
        message: &str,
        finish: Option<String>,
        (tokens, cost): (Option<&Tokens>, Option<f64>),
        out: &mut Translated,
    ) {
        let key = self.main.message(message).call(message);
        // opencode writes zeros if the provider did not count.
        let counted = tokens.filter(|tokens| usage_of(tokens) != usage_of(&Tokens::default()));
        let cost = cost.filter(|_| counted.is_some()).map(dollars);
        out.signals.push(Signal::AttemptEnded { key, finish, usage: counted.map(usage_of), cost });
    }

    /// An announced retry starts, under the same message (captures j1, g2).
    pub(super) fn start_retries(&mut self, out: &mut Translated) {
        let due: Vec<String> = self
            .main
            .messages
            .iter()
            .filter(|(_, message)| message.repeat_due && !message.over)
            .map(|(id, _)| id.clone())
            .collect();
        for id in due {
            let message = self.main.message(&id);
            message.repeat_due = false;
            message.stepping = false;
            message.repeats += 1;
            let key = message.call(&id);
            self.steps += 1;
            out.signals.push(Signal::AttemptBegan { key, model: None });
        }
    }

    /// A subagent repeats its model call: its open parts are void. opencode does not report that.
    pub(super) fn child_retries(&mut self, child: &str, out: &mut Translated) {
        let Some(thread) = self.children.get(child) else { return };
        let open: Vec<&str> = thread.open_answers().collect();
        for message in open {
            let parts = thread.parts_of(message).filter(|(_, known)| known.introduced && !known.over);
            out.signals.extend(parts.map(|(_, known)| retried(known.key.clone())));
        }
        self.thread_mut(Some(child)).drop_half_characters();
    }

    pub(super) fn message_removed(&mut self, message: &str, child: Option<&str>, out: &mut Translated) {
        let thread = self.thread_mut(child);
        let mut parts: Vec<String> = thread.parts_of(message).map(|(part, _)| part.clone()).collect();
        thread.messages.remove(message);
        if child.is_none() {
            parts.extend(self.past.remove(message));
        }
        for part in parts {
            self.part_removed(&part, child, out);
        }
    }

    pub(super) fn part_removed(&mut self, part: &str, child: Option<&str>, out: &mut Translated) {
        match self.thread_mut(child).forget_part(part) {
            Some(known) => out.signals.push(Signal::ItemRemoved(known.key)),
            // It may be of an earlier turn or an earlier link: the log may know it.
            None if child.is_none() => out.signals.push(Signal::ItemRemoved(Key::from(part))),
            None => {}
        }
    }

    // === parts ===

    pub(super) fn part(&mut self, part: &Part, child: Option<&str>, out: &mut Translated) {
        if child.is_none() && part.body == PartBody::Other(COMPACTION.to_owned()) {
            self.compaction_stored(&part.message);
        }
        // Before a sign of the prompt was seen, a part may belong to the turn before.
        let early = child.is_none() && self.own.as_ref().is_some_and(|own| own.created.is_none());
        let thread = self.thread_mut(child);
        let session = thread.session().to_owned();
        let message = thread.message(&part.message);
        // Tool calls, reasoning and steps are the model's. The author of a text is in its message.
        let is_models = matches!(
            part.body,
            PartBody::Tool(_) | PartBody::Reasoning(_) | PartBody::StepStart | PartBody::StepFinish { .. }
        );
        if message.author == Author::EarlierTurn {
            return;
        }
        if is_models && message.author == Author::Unknown && !early {
            message.author = Author::Assistant;
        }
        if (!is_models || early) && !message.informed {
            message.held.retain(|held| held.id != part.id);
            message.held.push(part.clone());
            let message = part.message.clone();
            out.wants.push(Want::Message { session, message });
            return;
        }
        let author = message.author;
        let of_turn = message.turn;
        if author == Author::Assistant && child.is_none() {
            // Late updates of the turn before say nothing about this one.
            if of_turn == self.turn {
                self.evidence = true;
                self.first.get_or_insert_with(|| part.message.clone());
            }
            self.begin_call(&part.message, None, out);
        }
        match &part.body {
            PartBody::Text(text) if author == Author::User => self.users_text(part, text, child, out),
            PartBody::Text(text) => self.text(part, text, ItemKind::Message, child, out),
            PartBody::Reasoning(text) => self.text(part, text, ItemKind::Reasoning, child, out),
            PartBody::Tool(call) => self.tool(part, call, child, out),
            PartBody::StepStart => self.step_start(part, child, out),
            PartBody::StepFinish { finish, tokens, cost } => {
                self.count(&part.message, child, tokens.as_ref(), *cost);
                if child.is_none() {
                    self.step_finish(&part.message, finish, (tokens.as_ref(), *cost), out);
                }
                out.signals.extend(self.usage.changes());
            }
            PartBody::File { name, mime } => {
                if author == Author::Assistant {
                    let text = name.clone().or_else(|| mime.clone()).unwrap_or_default();
                    let text = PartText { text: Piece::whole(text), over: true, synthetic: false };
                    self.text(part, &text, ItemKind::File, child, out);
                }
            }
            PartBody::Other(_) => {}
        }
    }

    /// A model call starts or is repeated: a second step of a message whose first step has not finished is
    /// a retry, also if it was not announced.
    fn step_start(&mut self, part: &Part, child: Option<&str>, out: &mut Translated) {
        if child.is_some() {
            return;
        }
        let known = self.main.part(&part.id, &part.message);
        let was_known = std::mem::replace(&mut known.introduced, true);
        known.over = true;
        let (stored, turn) = (self.reading_stored, self.turn);
        let message = self.main.message(&part.message);
        if was_known {
            // The stream has caught up with the snapshot.
            message.ahead.take_if(|ahead| !stored && *ahead == part.id);
            return;
        }
        // A step of the turn before is no retry in this one.
        if message.turn != turn {
            return;
        }
        if stored {
            message.ahead = Some(part.id.clone());
        }
        if stored && message.seen_steps > 0 {
            message.seen_steps -= 1;
            message.stepping = true;
            return;
        }
        if message.stepping && !message.repeat_due {
            message.repeat_due = true;
            self.main.void_texts(&part.message, out);
            out.signals.push(Signal::Retrying { attempt: None, reason: None, until: None, message: None });
        }
        if self.main.message(&part.message).repeat_due {
            self.start_retries(out);
        }
        self.main.message(&part.message).stepping = true;
    }

    /// A model call of the session itself ends.
    fn step_finish(
        &mut self,
        message: &str,
        finish: &Option<String>,
        used: (Option<&Tokens>, Option<f64>),
        out: &mut Translated,
    ) {
        self.main.message(message).stepping = false;
        if self.is_current(message) {
            self.finish.clone_from(finish);
        }
        self.end_call(message, finish.clone(), used, out);
    }

    /// A user message of another client, or one that opencode wrote in the user's name. The gateway's own
    /// prompts are already in the log, and the prompt of a subagent is the input of its call.
    fn users_text(&mut self, part: &Part, text: &PartText, child: Option<&str>, out: &mut Translated) {
        if child.is_some() || self.ours.contains(&part.message) {
            return;
        }
        let known = self.main.part(&part.id, &part.message);
        if std::mem::replace(&mut known.introduced, true) {
            return;
        }
        known.over = true;
        let key = known.key.clone();
        // opencode writes other texts in the user's name too, for example about a command of the user.
        let names = |child: &String| text.text.to_string().contains(child.as_str());
        let reports_subagent = text.synthetic && self.children.keys().any(names);
        self.main.message(&part.message).reports_subagent |= reports_subagent;
        let (kind, role, parent) = (ItemKind::Message, Some(Role::User), None);
        let seen = ItemSeen { key: key.clone(), kind, role, parent, synthetic: text.synthetic };
        out.signals.push(Signal::ItemSeen(seen));
        self.whole(key, text.text.to_string(), out);
    }

    fn whole(&self, key: Key, text: String, out: &mut Translated) {
        let (field, finality) = (Field::Text, Finality::Final);
        out.signals.push(Signal::TextSnapshot { key: key.clone(), field, text, finality });
        out.signals.push(Signal::ItemEnded { key, state: ItemState::Completed, reason: None });
    }

    fn text(
        &mut self,
        part: &Part,
        text: &PartText,
        kind: ItemKind,
        child: Option<&str>,
        out: &mut Translated,
    ) {
        let thread = self.thread_mut(child);
        let is_summary = thread.message(&part.message).summary;
        let parent = thread.parent();
        let known = thread.part(&part.id, &part.message);
        if known.void {
            return;
        }
        let key = known.key.clone();
        let is_new = !std::mem::replace(&mut known.introduced, true);
        let was_over = known.over;
        known.over |= text.over;
        // A text that still streams may end in the middle of a character.
        let shown = match text.over || text.text.is_empty() {
            true => text.text.to_string(),
            false => known.seam.restart(text.text.clone()).into_owned(),
        };
        if text.over {
            known.seam = Seam::default();
        }
        if is_new || parent.is_some() {
            let kind = if is_summary && kind == ItemKind::Message { ItemKind::Compaction } else { kind };
            let role = (kind == ItemKind::Message).then_some(Role::Assistant);
            let synthetic = text.synthetic;
            out.signals.push(Signal::ItemSeen(ItemSeen { key: key.clone(), kind, role, parent, synthetic }));
        }
        if text.over {
            if was_over {
                let (field, finality) = (Field::Text, Finality::Final);
                out.signals.push(Signal::TextSnapshot { key, field, text: shown, finality });
            } else {
                self.whole(key, shown, out);
            }
        } else if !shown.is_empty() {
            let (field, finality) = (Field::Text, Finality::SoFar);
            out.signals.push(Signal::TextSnapshot { key, field, text: shown, finality });
        }
    }

    fn tool(&mut self, part: &Part, call: &ToolCall, child: Option<&str>, out: &mut Translated) {
        // A refusal may have been missed: the call fails while its permission is open, or both ended in a
        // gap.
        let may_be_refused = self.reading_stored || !self.asks.is_empty();
        let thread = self.thread_mut(child);
        let parent = thread.parent();
        let known = thread.part(&part.id, &part.message);
        let ends = !known.over && call.state.is_over();
        let fails = ends && call.state.status == "error";
        known.introduced = true;
        known.is_text = false;
        known.over |= call.state.is_over();
        let key = known.key.clone();
        thread.note_call(&call.call, &key);
        self.refused |= fails && may_be_refused && child.is_none();
        out.signals.push(Signal::ToolSeen {
            key: key.clone(),
            parent,
            tool: tools::Call::of_part(call).describe(),
        });
        if call.state.status == "running"
            && let Some(output) = text_of(call.state.metadata.get("output"))
            && !output.is_empty()
        {
            let (field, finality) = (Field::Output, Finality::SoFar);
            let text = output.to_owned();
            out.signals.push(Signal::TextSnapshot { key: key.clone(), field, text, finality });
        }
        if let Some(session) = call.state.child() {
            self.link(session, &key, out);
        }
        // The event with the to-do list may have been missed, together with the end of its call (capture s1).
        if self.reading_stored
            && ends
            && child.is_none()
            && call.tool == "todowrite"
            && let Some(Ok(todos)) = call.state.input.get("todos").map(Vec::<Todo>::deserialize)
        {
            self.todos(&todos, out);
        }
    }
}

/// The finish reason that opencode reports as an error.
fn finish_of(error: Option<&AgentError>) -> Option<String> {
    let finish = match error?.name.as_str() {
        "ContentFilterError" => "content-filter",
        "MessageOutputLengthError" => "length",
        _ => return None,
    };
    Some(finish.to_owned())
}
