//! Items as parts: texts grow by deltas, and tool calls are shown whenever they change.

use super::encoder::Opencode;
use super::infos;
use super::parts;
use super::place::{Place, is_at_work};
use super::todo;
use super::tools::Call;
use super::write::{Events, delta_head};
use crate::dialect::FrameSink;
use crate::said::{is_echo, is_users};
use serde_json::json;
use turnstream_model::event::{Body, Event, Field, ItemKind, Tool, ToolStatus};
use turnstream_model::fold::Item;
use turnstream_model::id::ItemId;

impl Opencode {
    pub(super) fn delta<S: FrameSink>(
        &mut self,
        event: &Event,
        item: Option<&ItemId>,
        field: Field,
        text: &str,
        out: &mut Events<'_, S>,
    ) {
        self.fold.apply(event);
        let Some(id) = item else { return };
        match field {
            Field::Text => {
                if let Some(head) = self.heads.get(id) {
                    return out.delta(head, text);
                }
                let Some(item) = self.fold.item(id) else { return };
                if item.kind == ItemKind::Plan && todo::is_whole(item) {
                    return self.show(Some(id), out);
                }
                let Some(place) = Place::of(item, self.state()).filter(|_| is_text(item)) else { return };
                let head = self.head(item, &place);
                out.delta(&head, text);
                self.heads.insert(id.clone(), head);
            }
            Field::Output => {
                let length = self.fold.item(id).and_then(|item| item.output.as_ref()).map_or(0, String::len);
                if shown_length(length) != shown_length(length.saturating_sub(text.len())) {
                    self.show(Some(id), out);
                }
            }
            Field::Input => {}
        }
    }

    /// Shows an item as it is. Nothing is shown of an item that is not open to changes.
    pub(super) fn show<S: FrameSink>(&self, item: Option<&ItemId>, out: &mut Events<'_, S>) {
        let Some(item) = item.and_then(|id| self.fold.item(id)) else { return };
        if item.kind == ItemKind::Plan {
            if item.parent.is_none() {
                out.add("todo.updated", &json!({"sessionID": self.names.session(), "todos": todo::of(item)}));
            }
        } else if let Some(part) = parts::of_item(item, out.time(), self.state(), &self.names) {
            out.part(&part);
        }
    }

    pub(super) fn item_started<S: FrameSink>(
        &mut self,
        event: &Event,
        id: Option<&ItemId>,
        out: &mut Events<'_, S>,
    ) {
        self.fold.apply(event);
        let Some(item) = id.and_then(|id| self.fold.item(id)) else { return };
        if item.kind == ItemKind::Plan {
            if item.text.as_ref().is_some_and(|text| !text.is_empty()) {
                self.show(id, out);
            }
            return;
        }
        let Some(place) = Place::of(item, self.state()) else { return };
        self.announce(&place, id, out);
        let Some(item) = id.and_then(|id| self.fold.item(id)) else { return };
        let text = item.text.as_deref().filter(|text| !text.is_empty() && is_text(item));
        let Some(text) = text else { return self.show(id, out) };
        // A text is announced empty, and grows from there.
        let empty = Item { text: None, ..item.clone() };
        if let Some(part) = parts::of_item(&empty, out.time(), self.state(), &self.names) {
            out.part(&part);
        }
        out.delta(&self.head(item, &place), text);
    }

    fn head(&self, item: &Item, place: &Place) -> String {
        delta_head(&place.session(&self.names), &place.message(&self.names), &self.names.part(&item.id))
    }

    /// Makes the message of an item known, if it is not yet. The first work of a subagent makes its session
    /// known. Work that begins while it does nothing else makes it busy.
    fn announce<S: FrameSink>(&mut self, place: &Place, item: Option<&ItemId>, out: &mut Events<'_, S>) {
        let Place::Subagent(call) = place else {
            if !place.is_announced(self.state(), item) {
                self.message(place, out);
            }
            return;
        };
        if self.children.insert(call.clone()) {
            let (state, names) = (self.state(), &self.names);
            let (session, task) = (names.subagent(call), names.task(call));
            let info = infos::subagent(call, state);
            out.session("session.created", &info);
            // The TUI learns of sessions by this one only.
            out.session("session.updated", &info);
            if let Some(made_by) = self.fold.item(call) {
                out.message(&infos::user(&task, &session, made_by.turn.as_ref(), state, made_by.time));
                let text = task_of(made_by, &state.session.cwd);
                out.part(&parts::users_text(&text, false, &session, &task, names));
                self.show(Some(call), out);
            }
            out.status(&session, "busy");
        } else if is_at_work(call, self.state(), item) {
            return;
        } else {
            out.status(&self.names.subagent(call), "busy");
        }
        self.message(place, out);
    }

    pub(super) fn item_updated<S: FrameSink>(
        &mut self,
        event: &Event,
        id: Option<&ItemId>,
        tool: Option<&Tool>,
        out: &mut Events<'_, S>,
    ) {
        let shown = |this: &Self| {
            let item = id.and_then(|id| this.fold.item(id))?;
            parts::of_item(item, out.time(), this.state(), &this.names)
        };
        let before = shown(self);
        let place =
            |this: &Self| id.and_then(|id| this.fold.item(id)).and_then(|item| Place::of(item, this.state()));
        let (from, after) = {
            let from = place(self);
            self.fold.apply(event);
            (from, shown(self))
        };
        let to = place(self);
        if let (Some(from), Some(to), Some(id)) = (&from, &to, id)
            && from != to
        {
            self.heads.remove(id);
            self.part_removed(from, id, out);
            self.message_removed(from, out);
            self.announce(to, Some(id), out);
            return self.show(Some(id), out);
        }
        // The end of the call shows its result.
        let is_over = match tool.and_then(|tool| tool.status) {
            Some(ToolStatus::Completed | ToolStatus::Failed) => true,
            Some(ToolStatus::Pending | ToolStatus::InProgress) | None => false,
        };
        if before != after && !is_over {
            self.show(id, out);
        }
    }

    pub(super) fn item_ended<S: FrameSink>(
        &mut self,
        event: &Event,
        id: Option<&ItemId>,
        out: &mut Events<'_, S>,
    ) {
        self.fold.apply(event);
        let Some(item) = id.and_then(|id| self.fold.item(id)) else { return };
        if is_users(item) {
            self.users_message(item, out);
        }
        self.subagent_ended(&item.id, out);
        // A plan was shown whenever it could be read.
        if item.kind != ItemKind::Plan || !todo::is_whole(item) {
            self.show(id, out);
        }
        if let Some(call) = &item.parent {
            self.subagent_ended(call, out);
        }
        if item.kind == ItemKind::Compaction && item.parent.is_none() {
            out.add("session.compacted", &json!({"sessionID": self.names.session()}));
        }
        if item.turn.is_none() {
            if let Some(place @ Place::Background { .. }) = Place::of(item, self.state()) {
                self.message(&place, out);
            }
            self.prune();
        }
    }

    /// The subagent of a call is done when the call and all its work have ended.
    fn subagent_ended<S: FrameSink>(&self, call: &ItemId, out: &mut Events<'_, S>) {
        if self.children.contains(call) && !is_at_work(call, self.state(), None) {
            self.message(&Place::Subagent(call.clone()), out);
            out.idle(&self.names.subagent(call));
        }
    }

    /// A message of another client, or one that the agent wrote in the user's name.
    fn users_message<S: FrameSink>(&self, item: &Item, out: &mut Events<'_, S>) {
        if item.parent.is_some() || is_echo(item, self.state()) {
            return;
        }
        let (session, message) = (self.names.session(), self.names.users_item(&item.id, item.time));
        out.message(&infos::user(&message, &session, item.turn.as_ref(), self.state(), item.time));
        let text = item.text.as_deref().unwrap_or_default();
        out.part(&parts::users_text(text, item.synthetic, &session, &message, &self.names));
    }

    // === removals ===

    /// The agent took items back, or repeated the model call that they belong to.
    pub(super) fn removed<S: FrameSink>(&mut self, event: &Event, out: &mut Events<'_, S>) {
        let gone: Vec<Item> =
            event.draft.voided_items().iter().filter_map(|id| self.fold.item(id)).cloned().collect();
        let places: Vec<Option<Place>> = gone.iter().map(|item| Place::of(item, self.state())).collect();
        let echoes: Vec<bool> = gone.iter().map(|item| is_echo(item, self.state())).collect();
        let before: Vec<(ItemId, Option<Place>)> = self.places();
        self.fold.apply(event);
        if let Body::AttemptSuperseded { .. } = &event.draft.body {
            self.call_removed(event, out);
        }
        for ((item, place), is_echo) in gone.iter().zip(&places).zip(echoes) {
            self.heads.remove(&item.id);
            match place {
                Some(place) => self.part_removed(place, &item.id, out),
                None if is_users(item) && !item.is_open() && !is_echo && item.parent.is_none() => {
                    let message = self.names.users_item(&item.id, item.time);
                    out.message_removed(&self.names.session(), &message);
                }
                None if item.kind == ItemKind::Plan && item.parent.is_none() => {
                    out.add("todo.updated", &json!({"sessionID": self.names.session(), "todos": []}));
                }
                None => {}
            }
        }
        let mut messages: Vec<&Place> = places.iter().flatten().collect();
        messages.dedup();
        for place in messages {
            self.message_removed(place, out);
        }
        self.moved(&before, out);
        for id in event.draft.voided_items() {
            self.ended.remove(id, out);
        }
    }

    fn places(&self) -> Vec<(ItemId, Option<Place>)> {
        let items = self.state().items.iter().enumerate();
        items.map(|(index, item)| (item.id.clone(), Place::at(index, self.state()))).collect()
    }

    /// Items whose place depended on one that is gone.
    fn moved<S: FrameSink>(&mut self, before: &[(ItemId, Option<Place>)], out: &mut Events<'_, S>) {
        for (id, to) in self.places() {
            let from = before.iter().find(|(known, _)| *known == id).and_then(|(_, place)| place.as_ref());
            if let (Some(from), Some(to)) = (from, &to)
                && from != to
            {
                self.heads.remove(&id);
                self.part_removed(from, &id, out);
                self.message_removed(from, out);
                self.message(to, out);
                self.show(Some(&id), out);
            }
        }
    }

    fn part_removed<S: FrameSink>(&self, place: &Place, id: &ItemId, out: &mut Events<'_, S>) {
        out.part_removed(&place.session(&self.names), &place.message(&self.names), &self.names.part(id));
    }

    /// The message of a place whose last item is gone.
    fn message_removed<S: FrameSink>(&mut self, place: &Place, out: &mut Events<'_, S>) {
        if place.is_announced(self.state(), None) {
            return;
        }
        let session = place.session(&self.names);
        match place {
            Place::Step { .. } | Place::Background { .. } => {
                out.message_removed(&session, &place.message(&self.names));
            }
            Place::Subagent(call) => {
                self.children.remove(call);
                out.session("session.deleted", &infos::subagent(call, self.state()));
            }
        }
    }

    /// The beginning of a model call that was repeated.
    fn call_removed<S: FrameSink>(&self, event: &Event, out: &mut Events<'_, S>) {
        let (Some(turn), Some(id)) = (&event.draft.turn, &event.draft.attempt) else { return };
        let turn = super::place::turn_of(turn, self.state());
        let attempt = turn.and_then(|turn| turn.attempts.iter().find(|attempt| attempt.attempt == *id));
        if let (Some(turn), Some(attempt)) = (turn, attempt) {
            let place = Place::step(turn, attempt.step);
            let (session, message) = (place.session(&self.names), place.message(&self.names));
            out.part_removed(&session, &message, &self.names.step_start(id));
        }
    }
}

/// Whether an item is a text that grows.
fn is_text(item: &Item) -> bool {
    match item.kind {
        ItemKind::Message | ItemKind::Reasoning | ItemKind::Compaction => true,
        ItemKind::Tool | ItemKind::Plan | ItemKind::File => false,
    }
}

/// What a subagent was asked to do.
pub(super) fn task_of(call: &Item, cwd: &str) -> String {
    let Some(tool) = call.tool.as_deref() else { return String::new() };
    let asked = tool.input.as_ref().and_then(|input| input["prompt"].as_str());
    asked.map_or_else(|| Call::of(tool, cwd).title, str::to_owned)
}

/// The length of an output after which it is shown again. The whole output is repeated each time, so a long
/// one is shown less often.
fn shown_length(length: usize) -> usize {
    const EACH: usize = 4_096;
    match length {
        0..EACH => length,
        _ => EACH + (length as f64).log2().mul_add(8.0, 0.0) as usize,
    }
}
