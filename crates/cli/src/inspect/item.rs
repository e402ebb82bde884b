//! One item of a file, in any format, and the counts of items.

use serde_json::Value;
use std::fmt;
use std::ops::Range;
use turnstream_sse::Frame;

/// One row of the output.
pub(super) enum Item<'a> {
    /// Of an SSE stream.
    Frame(Frame<'a>),
    /// Of an NDJSON file.
    Line(Line<'a>),
}

/// A line of an NDJSON file, without its ending.
pub(super) struct Line<'a> {
    pub(super) raw: &'a [u8],
    pub(super) range: Range<u64>,
    pub(super) content: Content,
}

/// The content of a line.
pub(super) enum Content {
    /// A JSON value.
    Json(Value),
    /// Not JSON, with the error of the parser.
    NotJson(String),
    /// Longer than the limit; `raw` is the beginning.
    Oversize,
    /// The last line, cut off: no line ending, and not a JSON value.
    Cut,
}

impl Line<'_> {
    /// The kind of message: `type` (Claude Code, opencode) or `method` (JSON-RPC: Codex, ACP).
    pub(super) fn kind(&self) -> Option<&str> {
        ["type", "method"].iter().find_map(|member| self.message()?.get(member)?.as_str())
    }

    /// Its `id`, if it has one.
    pub(super) fn id(&self) -> Option<String> {
        match self.message()?.get("id")? {
            Value::String(id) => Some(id.clone()),
            Value::Number(id) => Some(id.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// The message itself. Recordings of both directions of a pipe wrap it:
    /// `{"t_ms":…,"dir":"out","line":{…}}`.
    fn message(&self) -> Option<&Value> {
        match &self.content {
            Content::Json(value) => {
                Some(value.get("line").filter(|_| value.get("dir").is_some()).unwrap_or(value))
            }
            Content::NotJson(_) | Content::Oversize | Content::Cut => None,
        }
    }
}

/// The counts of items.
#[derive(Default)]
pub(super) struct Summary {
    events: u64,
    undispatched: u64,
    comments: u64,
    lines: u64,
    anomalies: u64,
    residues: u64,
}

impl Summary {
    pub(super) fn count(&mut self, item: &Item<'_>) {
        let counter = match item {
            Item::Frame(Frame::Event(_)) => &mut self.events,
            Item::Frame(Frame::Undispatched(_)) => &mut self.undispatched,
            Item::Frame(Frame::Comment(_)) => &mut self.comments,
            Item::Frame(Frame::Anomaly(_)) => &mut self.anomalies,
            Item::Frame(Frame::Residue(_)) => &mut self.residues,
            Item::Line(line) => match line.content {
                Content::Json(_) => &mut self.lines,
                Content::NotJson(_) | Content::Oversize => &mut self.anomalies,
                Content::Cut => &mut self.residues,
            },
        };
        *counter += 1;
    }
}

/// For example `29 events, 3 comments, no anomalies, no residue`. Problems are always counted.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.events, "event", "events"),
            (self.undispatched, "block without data", "blocks without data"),
            (self.comments, "comment", "comments"),
            (self.lines, "line", "lines"),
        ];
        for (count, one, many) in counts {
            if count > 0 {
                write!(f, "{count} {}, ", if count == 1 { one } else { many })?;
            }
        }
        match self.anomalies {
            0 => f.write_str("no anomalies, ")?,
            1 => f.write_str("1 anomaly, ")?,
            many => write!(f, "{many} anomalies, ")?,
        }
        f.write_str(if self.residues == 0 { "no residue" } else { "a residue" })
    }
}
