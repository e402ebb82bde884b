//! Events of AG-UI as frames: `{"type":…, …}`. A member that is absent is left out: the client refuses null.

use crate::dialect::FrameSink;
use serde_json::{Map, Value, json};

/// Writes the events that one event of the log becomes.
pub(super) struct Frames<'a, S> {
    out: &'a mut S,
    buffer: &'a mut Vec<u8>,
}

impl<'a, S: FrameSink> Frames<'a, S> {
    pub(super) fn new(out: &'a mut S, buffer: &'a mut Vec<u8>) -> Self {
        Self { out, buffer }
    }

    /// Adds an event with these members.
    pub(super) fn add(&mut self, kind: &'static str, members: Value) {
        let Value::Object(members) = members else { return };
        self.begin(kind);
        for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
            self.buffer.push(b',');
            push(self.buffer, name);
            self.buffer.push(b':');
            push(self.buffer, value);
        }
        self.end(kind);
    }

    /// Adds a list of messages, with how many of them are before the open turn. The client keeps activities
    /// that are not listed, unless it is told that the list has all of their types.
    pub(super) fn messages(&mut self, messages: &[Value], earlier: usize) {
        let owned = json!({"authoritativeActivityTypes": ["plan", "file", "compaction"]});
        let metadata = json!({"turnstream": {"earlier": earlier}, "@ag-ui/client": owned});
        self.add("MESSAGES_SNAPSHOT", json!({"messages": messages, "metadata": metadata}));
    }

    /// Adds a piece of a text.
    pub(super) fn delta(&mut self, kind: &'static str, message: &str, text: &str, subagent: Option<&str>) {
        self.begin(kind);
        self.buffer.extend_from_slice(b",\"messageId\":");
        push(self.buffer, message);
        self.buffer.extend_from_slice(b",\"delta\":");
        push(self.buffer, text);
        if let Some(subagent) = subagent {
            self.buffer.extend_from_slice(b",\"subagentRunId\":");
            push(self.buffer, subagent);
        }
        self.end(kind);
    }

    fn begin(&mut self, kind: &str) {
        self.buffer.clear();
        self.buffer.extend_from_slice(b"{\"type\":\"");
        self.buffer.extend_from_slice(kind.as_bytes());
        self.buffer.push(b'"');
    }

    fn end(&mut self, kind: &str) {
        self.buffer.push(b'}');
        self.out.frame(Some(kind), self.buffer);
    }
}

/// Appends JSON.
fn push(buffer: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    // Fails only for maps with keys that are not strings, and a Vec takes everything.
    let written = serde_json::to_writer(buffer, value);
    debug_assert!(written.is_ok());
}

/// An object without the members that are null.
pub(super) fn object(members: Value) -> Value {
    match members {
        Value::Object(members) => {
            Value::Object(members.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>())
        }
        other => other,
    }
}
