//! Events of opencode as frames: `{"id":…,"type":…,"properties":…}`.

use crate::dialect::FrameSink;
use serde_json::{Value, json};
use turnstream_model::cursor::Seq;
use turnstream_model::time::Time;

/// Writes the events that one event of the log becomes.
pub(super) struct Events<'a, S> {
    out: &'a mut S,
    buffer: &'a mut Vec<u8>,
    seq: Seq,
    time: Time,
    count: u64,
}

impl<'a, S: FrameSink> Events<'a, S> {
    pub(super) fn new(out: &'a mut S, buffer: &'a mut Vec<u8>, seq: Seq, time: Time) -> Self {
        Self { out, buffer, seq, time, count: 0 }
    }

    /// The time of the event of the log.
    pub(super) fn time(&self) -> Time {
        self.time
    }

    /// Adds an event.
    pub(super) fn add(&mut self, kind: &str, properties: &Value) {
        self.begin();
        self.buffer.extend_from_slice(b"\",\"type\":\"");
        self.buffer.extend_from_slice(kind.as_bytes());
        self.buffer.extend_from_slice(b"\",\"properties\":");
        push(self.buffer, properties);
        self.end();
    }

    /// A message as it is now.
    pub(super) fn message(&mut self, info: &Value) {
        self.add("message.updated", &json!({"sessionID": info["sessionID"], "info": info}));
    }

    /// A message that is gone.
    pub(super) fn message_removed(&mut self, session: &str, message: &str) {
        self.add("message.removed", &json!({"sessionID": session, "messageID": message}));
    }

    /// A part as it is now.
    pub(super) fn part(&mut self, part: &Value) {
        let properties = json!({"sessionID": part["sessionID"], "part": part, "time": self.time});
        self.add("message.part.updated", &properties);
    }

    /// A part that is gone.
    pub(super) fn part_removed(&mut self, session: &str, message: &str, part: &str) {
        let gone = json!({"sessionID": session, "messageID": message, "partID": part});
        self.add("message.part.removed", &gone);
    }

    /// A session, or a subagent, as it is now.
    pub(super) fn session(&mut self, kind: &str, info: &Value) {
        self.add(kind, &json!({"sessionID": info["id"], "info": info}));
    }

    /// The status of a session: `busy` or `idle`.
    pub(super) fn status(&mut self, session: &str, kind: &str) {
        self.add("session.status", &json!({"sessionID": session, "status": {"type": kind}}));
    }

    /// Both events that say that a session is idle.
    pub(super) fn idle(&mut self, session: &str) {
        self.status(session, "idle");
        self.add("session.idle", &json!({"sessionID": session}));
    }

    /// Adds a piece of a text. `head` is the event from its type up to the text.
    pub(super) fn delta(&mut self, head: &str, text: &str) {
        self.begin();
        self.buffer.extend_from_slice(head.as_bytes());
        push(self.buffer, text);
        self.buffer.push(b'}');
        self.end();
    }

    /// The beginning of an event, up to its id. Ids ascend, and are the same whenever the log is read.
    fn begin(&mut self) {
        self.count += 1;
        self.buffer.clear();
        self.buffer.extend_from_slice(b"{\"id\":\"evt_");
        let digits = self.time.0.wrapping_mul(4_096).wrapping_add(self.count) & ((1 << 48) - 1);
        push_hex(self.buffer, digits, 12);
        push_hex(self.buffer, self.seq.0, 14);
    }

    fn end(&mut self) {
        self.buffer.push(b'}');
        self.out.frame(None, self.buffer);
    }
}

/// The event from its type up to the text of a delta.
pub(super) fn delta_head(session: &str, message: &str, part: &str) -> String {
    // These ids have no character that JSON escapes.
    format!(
        "\",\"type\":\"message.part.delta\",\"properties\":{{\"sessionID\":\"{session}\",\"messageID\":\"{message}\",\
         \"partID\":\"{part}\",\"field\":\"text\",\"delta\":"
    )
}

fn push_hex(buffer: &mut Vec<u8>, number: u64, digits: usize) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    buffer.extend((0..digits).rev().map(|place| HEX[(number >> (4 * place).min(63) & 15) as usize]));
}

/// Appends JSON.
fn push(buffer: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    // Fails only for maps with keys that are not strings, and a Vec takes everything.
    let written = serde_json::to_writer(buffer, value);
    debug_assert!(written.is_ok());
}
