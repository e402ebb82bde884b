//! Items as JSON lines, with all of their data.

use super::item::{Content, Item, Line};
use crate::escape;
use crate::out::Lines;
use serde_json::{Value, json};
use std::io;
use turnstream_sse::{Cut, Event, Frame, Text};

/// Writes one object per item.
pub(super) struct JsonLines {
    out: Lines,
}

impl JsonLines {
    pub(super) fn new(out: Lines) -> Self {
        Self { out }
    }

    pub(super) fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        let (range, mut members) = match item {
            Item::Frame(frame) => (frame.range(), frame_members(frame)),
            Item::Line(line) => (&line.range, line_members(line)),
        };
        members["offset"] = json!(range.start);
        members["length"] = json!(range.end - range.start);
        self.out.line(&escape::json(&members.to_string()))
    }

    pub(super) fn end(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn frame_members(frame: &Frame<'_>) -> Value {
    match frame {
        Frame::Event(event) => event_members("event", event),
        Frame::Undispatched(event) => event_members("undispatched", event),
        Frame::Comment(comment) => with_text(json!({"kind": "comment"}), "text", comment.text),
        Frame::Anomaly(anomaly) => {
            let members = json!({"kind": "anomaly", "anomaly": anomaly.kind.name()});
            with_text(members, "raw", Text::new(anomaly.raw))
        }
        Frame::Residue(residue) => {
            let mut members = event_members("residue", &residue.parsed);
            members["cut"] = json!(match residue.cut {
                Cut::InLine => "within a line",
                Cut::AfterLine => "after a line",
            });
            with_text(members, "raw", Text::new(residue.parsed.raw))
        }
    }
}

fn event_members(kind: &str, event: &Event<'_>) -> Value {
    let mut members = json!({"kind": kind, "event": event.event, "last_id": event.last_id});
    if let Some(id) = event.id {
        members["id"] = json!(id);
    }
    if let Some(retry) = event.retry {
        members["retry"] = json!(retry);
    }
    with_text(members, "data", event.data)
}

/// Text that is not UTF-8 is written with U+FFFD, and marked.
fn with_text(mut members: Value, name: &str, text: Text<'_>) -> Value {
    members[name] = json!(text.to_string());
    if text.utf8().is_none() {
        members["utf8"] = json!(false);
    }
    members
}

fn line_members(line: &Line<'_>) -> Value {
    let raw = || json!(String::from_utf8_lossy(line.raw));
    match &line.content {
        Content::Json(value) => {
            let mut members = json!({"kind": "line", "value": value});
            if let Some(kind) = line.kind() {
                members["type"] = json!(kind);
            }
            if let Some(id) = line.id() {
                members["id"] = json!(id);
            }
            members
        }
        Content::NotJson(error) => {
            json!({"kind": "anomaly", "anomaly": "not JSON", "error": error, "raw": raw()})
        }
        Content::Oversize => json!({"kind": "anomaly", "anomaly": "oversize", "raw": raw()}),
        Content::Cut => json!({"kind": "residue", "cut": "within a line", "raw": raw()}),
    }
}
