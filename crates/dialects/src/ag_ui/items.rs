//! Items: texts in pieces, tool calls with their results, and the rest as activities.
//!
//! A text is open at the client while its item is, and a tool call until its arguments are known. While the
//! turn waits for a person nothing is open.

use super::encoder::{AgUi, Stage, is_streamed, user_message};
use super::frames::Frames;
use super::messages::{self, ACTIVITY, Shape, arguments, is_called, of_item, shape, tool_name};
use crate::dialect::FrameSink;
use crate::said::is_echo;
use serde_json::{Value, json};
use turnstream_model::event::Event;
use turnstream_model::fold::Item;
use turnstream_model::id::ItemId;

impl AgUi {
    /// A text grew.
    pub(super) fn delta<S: FrameSink>(&mut self, event: &Event, text: &str, out: &mut Frames<'_, S>) {
        self.fold.apply(event);
        let Some(item) = self.shown(event.draft.item.as_ref()).filter(|_| !text.is_empty()) else { return };
        if let Shape::Activity(kind) = shape(item) {
            let grown = item.text.as_deref().unwrap_or_default();
            // The rest is shown when the item has ended.
            if grown.len() - text.len() < ACTIVITY {
                self.in_run(out, |_, out| activity(item, kind, out));
            }
            return;
        }
        if !is_streamed(item) {
            return;
        }
        self.in_run(out, |stage, out| {
            if stage == Stage::Waiting {
                start(item, out);
            }
            content(item, text, out);
            if stage == Stage::Waiting {
                end(item, &Value::Null, out);
            }
        });
    }

    /// An item began, changed or ended.
    pub(super) fn item_changed<S: FrameSink>(&mut self, event: &Event, out: &mut Frames<'_, S>) {
        let Some(id) = &event.draft.item else {
            self.fold.apply(event);
            return;
        };
        let before = self.fold.item(id).cloned();
        let was_called = before.as_ref().is_some_and(|item| is_called(item, self.state()));
        self.fold.apply(event);
        if let Some(item) = self.fold.item(id).filter(|item| item.turn.is_none()) {
            if before.as_ref().is_none_or(Item::is_open) && !item.is_open() {
                self.in_any_run(event.seq, out, |out| whole(item, out));
            }
            return;
        }
        let Some(item) = self.shown(Some(id)) else { return };
        let begins = before.is_none();
        match shape(item) {
            Shape::Text | Shape::Reasoning => self.text_changed(item, before.as_ref(), out),
            Shape::User => {
                let ends = before.as_ref().is_none_or(Item::is_open) && !item.is_open();
                if ends && !is_echo(item, self.state()) {
                    let text = item.text.as_deref().unwrap_or_default();
                    let metadata = messages::metadata(item);
                    self.in_run(out, |_, out| {
                        user_message(id.as_str(), text, item.parent.as_ref(), &metadata, out);
                    });
                } else if !begins && !ends && !item.is_open() {
                    self.list_anew(&[], None, out);
                }
            }
            Shape::Activity(kind) => self.in_run(out, |_, out| activity(item, kind, out)),
            Shape::Tool => self.tool_changed(item, before.as_ref(), was_called, out),
        }
    }

    fn text_changed<S: FrameSink>(&self, item: &Item, before: Option<&Item>, out: &mut Frames<'_, S>) {
        let text = item.text.as_deref().unwrap_or_default();
        let Some(before) = before else {
            return self.in_run(out, |stage, out| {
                start(item, out);
                content(item, text, out);
                if stage == Stage::Waiting || !item.is_open() {
                    end(item, &messages::metadata(item), out);
                }
            });
        };
        let is_moved = before.parent != item.parent;
        let grown = text.strip_prefix(before.text.as_deref().unwrap_or_default());
        match grown.filter(|_| !is_moved && (before.is_open() || before.state == item.state)) {
            Some("") if before.is_open() == item.is_open() => {}
            Some(more) if before.is_open() => self.in_run(out, |stage, out| {
                let metadata = messages::metadata(item);
                let is_closed = stage == Stage::Waiting;
                if is_closed && more.is_empty() && metadata.is_null() {
                    return;
                }
                if is_closed {
                    start(item, out);
                }
                content(item, more, out);
                if is_closed || !item.is_open() {
                    end(item, &metadata, out);
                }
            }),
            Some(_) | None => {
                self.list_anew(&[], None, out);
                if before.is_open() && !item.is_open() && self.stage() == Stage::Running {
                    end(item, &messages::metadata(item), out);
                }
            }
        }
    }

    fn tool_changed<S: FrameSink>(
        &self,
        item: &Item,
        before: Option<&Item>,
        was_called: bool,
        out: &mut Frames<'_, S>,
    ) {
        let is_called = is_called(item, self.state());
        let ends = before.is_none_or(Item::is_open) && !item.is_open();
        let is_changed = before.is_some_and(|before| {
            tool_name(before) != tool_name(item)
                || before.parent != item.parent
                || (was_called && arguments(before) != arguments(item))
                || (!before.is_open() && messages::result(before) != messages::result(item))
        });
        if before.is_some() && !is_changed && was_called == is_called && !ends {
            return;
        }
        if is_changed {
            // The client counts results by their events, so one that is new is not in the list.
            self.list_anew(&[], ends.then_some(&item.id), out);
        }
        self.in_run(out, |stage, out| {
            let is_open = before.is_some() && stage == Stage::Running;
            if !was_called && !is_open && !is_changed {
                start(item, out);
            }
            if is_called && !was_called && !is_changed {
                call_arguments(item, out);
            }
            let has_begun = !was_called && (is_open || !is_changed);
            if has_begun && (is_called || stage == Stage::Waiting) {
                end(item, &Value::Null, out);
            }
            if ends {
                call_result(item, out);
            }
        });
    }

    /// Items are void: those that are open are closed, and the messages that stay are listed.
    pub(super) fn voided<S: FrameSink>(&mut self, event: &Event, gone: &[ItemId], out: &mut Frames<'_, S>) {
        let was: Vec<Item> = gone.iter().filter_map(|id| self.fold.item(id)).cloned().collect();
        let was: Vec<Item> = was.into_iter().filter(|item| self.is_shown(item)).collect();
        let open: Vec<ItemId> = self.open_parts();
        let open: Vec<&Item> = was.iter().filter(|item| open.contains(&item.id)).collect();
        for item in open {
            end(item, &Value::Null, out);
        }
        self.fold.apply(event);
        if was.iter().any(|item| !of_item(item, self.state()).is_empty()) {
            self.list_anew(&was, None, out);
        }
    }

    /// Lists all messages anew. The client drops thinking only if some is listed, so void thinking is listed
    /// without its text.
    fn list_anew<S: FrameSink>(
        &self,
        void: &[Item],
        without_result: Option<&ItemId>,
        out: &mut Frames<'_, S>,
    ) {
        let (mut messages, earlier) = messages::list(self.state());
        if let Some(call) = without_result {
            messages.retain(|message| message["toolCallId"] != json!(call));
        }
        let void = void.iter().filter(|item| shape(item) == Shape::Reasoning);
        messages.extend(void.map(|item| json!({"id": item.id, "role": "reasoning", "content": ""})));
        self.in_run(out, |_, out| out.messages(&messages, earlier));
    }

    /// An item of the open turn.
    pub(super) fn shown(&self, id: Option<&ItemId>) -> Option<&Item> {
        self.fold.item(id?).filter(|item| self.is_shown(item))
    }

    /// Whether an item belongs to the open turn.
    fn is_shown(&self, item: &Item) -> bool {
        item.turn.is_some() && self.state().open_turn().map(|turn| &turn.turn) == item.turn.as_ref()
    }

    /// What is open at the client while a run is.
    pub(super) fn open_parts(&self) -> Vec<ItemId> {
        if self.stage() != Stage::Running {
            return Vec::new();
        }
        let is_open = |item: &&Item| {
            self.is_shown(item)
                && item.is_open()
                && match shape(item) {
                    Shape::Text | Shape::Reasoning => true,
                    Shape::Tool => !is_called(item, self.state()),
                    Shape::User | Shape::Activity(_) => false,
                }
        };
        self.state().items.iter().filter(is_open).map(|item| item.id.clone()).collect()
    }

    /// Closes a part before its run ends. A call that a person is asked about is told with its arguments.
    pub(super) fn close<S: FrameSink>(&self, id: &ItemId, out: &mut Frames<'_, S>) {
        let Some(item) = self.fold.item(id) else { return };
        if shape(item) == Shape::Tool && is_called(item, self.state()) {
            call_arguments(item, out);
        }
        end(item, &Value::Null, out);
    }

    /// Begins again what is open, in a new run.
    pub(super) fn reopen<S: FrameSink>(&self, out: &mut Frames<'_, S>) {
        for id in self.open_parts() {
            if let Some(item) = self.fold.item(&id) {
                start(item, out);
            }
        }
    }
}

/// An item that has ended, at once.
fn whole<S: FrameSink>(item: &Item, out: &mut Frames<'_, S>) {
    let text = item.text.as_deref().unwrap_or_default();
    let metadata = messages::metadata(item);
    match shape(item) {
        Shape::Text | Shape::Reasoning => {
            start(item, out);
            content(item, text, out);
            end(item, &metadata, out);
        }
        Shape::User => user_message(item.id.as_str(), text, item.parent.as_ref(), &metadata, out),
        Shape::Activity(kind) => activity(item, kind, out),
        Shape::Tool => {
            start(item, out);
            call_arguments(item, out);
            end(item, &Value::Null, out);
            call_result(item, out);
        }
    }
}

fn call_result<S: FrameSink>(item: &Item, out: &mut Frames<'_, S>) {
    let result = messages::result(item);
    out.add(
        "TOOL_CALL_RESULT",
        json!({
            "messageId": result["id"], "toolCallId": item.id, "role": "tool",
            "content": result["content"], "subagentRunId": item.parent, "metadata": result["metadata"],
        }),
    );
}

fn activity<S: FrameSink>(item: &Item, kind: &str, out: &mut Frames<'_, S>) {
    let content = messages::activity(item);
    let metadata = messages::metadata(item);
    let members =
        json!({"messageId": item.id, "activityType": kind, "content": content, "metadata": metadata});
    out.add("ACTIVITY_SNAPSHOT", tagged(members, item));
}

fn tagged(mut members: Value, item: &Item) -> Value {
    if let Some(parent) = &item.parent {
        members["subagentRunId"] = json!(parent);
    }
    members
}

fn start<S: FrameSink>(item: &Item, out: &mut Frames<'_, S>) {
    let id = &item.id;
    match shape(item) {
        Shape::Text => {
            out.add("TEXT_MESSAGE_START", tagged(json!({"messageId": id, "role": "assistant"}), item));
        }
        Shape::Reasoning => {
            out.add("REASONING_START", tagged(json!({"messageId": id}), item));
            let message = json!({"messageId": id, "role": "reasoning"});
            out.add("REASONING_MESSAGE_START", tagged(message, item));
        }
        Shape::Tool => {
            let call = json!({"toolCallId": id, "toolCallName": tool_name(item)});
            out.add("TOOL_CALL_START", tagged(call, item));
        }
        Shape::User | Shape::Activity(_) => {}
    }
}

fn content<S: FrameSink>(item: &Item, text: &str, out: &mut Frames<'_, S>) {
    let kind = match shape(item) {
        Shape::Text => "TEXT_MESSAGE_CONTENT",
        Shape::Reasoning => "REASONING_MESSAGE_CONTENT",
        Shape::Tool | Shape::User | Shape::Activity(_) => return,
    };
    if !text.is_empty() {
        out.delta(kind, item.id.as_str(), text, item.parent.as_ref().map(|parent| parent.as_str()));
    }
}

fn call_arguments<S: FrameSink>(item: &Item, out: &mut Frames<'_, S>) {
    out.add("TOOL_CALL_ARGS", tagged(json!({"toolCallId": item.id, "delta": arguments(item)}), item));
}

fn end<S: FrameSink>(item: &Item, metadata: &Value, out: &mut Frames<'_, S>) {
    let id = &item.id;
    let message = |id: &ItemId| tagged(json!({"messageId": id, "metadata": metadata}), item);
    match shape(item) {
        Shape::Text => out.add("TEXT_MESSAGE_END", message(id)),
        Shape::Reasoning => {
            out.add("REASONING_MESSAGE_END", message(id));
            out.add("REASONING_END", tagged(json!({"messageId": id}), item));
        }
        Shape::Tool => out.add("TOOL_CALL_END", tagged(json!({"toolCallId": id}), item)),
        Shape::User | Shape::Activity(_) => {}
    }
}
