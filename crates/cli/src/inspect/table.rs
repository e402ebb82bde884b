//! Rows in columns of fixed width, so that a file of any size is shown while it is read.

use super::item::{Content, Item};
use crate::escape::{Safe, Untrusted, preview, safe};
use crate::out::Lines;
use std::borrow::Cow;
use std::io;
use turnstream_sse::{Cut, Event, Frame};

/// The columns to the left of the data.
const BEFORE_DATA: usize = OFFSET + LENGTH + KIND + NAME + ID + 5 * GAP.len();
const OFFSET: usize = 9;
const LENGTH: usize = 8;
const KIND: usize = 12;
const NAME: usize = 20;
const ID: usize = 10;
const GAP: &str = "  ";
/// The least width. A narrower terminal wraps the lines.
const LEAST_DATA: usize = 10;
/// The longest preview, in bytes of data.
const MOST_DATA: usize = 4096;

/// Writes the table.
pub(super) struct Table {
    out: Lines,
    data_width: usize,
    began: bool,
}

struct Row<'a> {
    kind: &'static str,
    name: &'a str,
    id: Cow<'a, str>,
    data: &'a [u8],
}

impl Table {
    /// A table for a terminal of that many columns.
    pub(super) fn new(out: Lines, width: usize) -> Self {
        Self { out, data_width: width.saturating_sub(BEFORE_DATA).max(LEAST_DATA), began: false }
    }

    pub(super) fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        if !self.began {
            self.began = true;
            let words = ["kind", "event or type", "id"].map(|word| safe![word]);
            self.line(["offset", "length"].map(|word| safe![word]), words, safe!["data"])?;
        }
        let (range, row) = match item {
            Item::Frame(frame) => (frame.range(), frame_row(frame)),
            Item::Line(line) => (&line.range, line_row(line)),
        };
        let numbers = [safe![range.start], safe![range.end - range.start]];
        let data = String::from_utf8_lossy(&row.data[..row.data.len().min(MOST_DATA)]);
        let data = preview(&data, self.data_width);
        let (name, id) = (Untrusted(row.name).preview(NAME), Untrusted(&row.id).preview(ID));
        self.line(numbers, [safe![row.kind], name, id], data)
    }

    fn line(&mut self, numbers: [Safe; 2], words: [Safe; 3], data: Safe) -> io::Result<()> {
        let [offset, length] = numbers;
        let [kind, name, id] = words;
        let (offset, length) = (offset.indented(OFFSET), length.indented(LENGTH));
        let (kind, name, id) = (kind.padded(KIND), name.padded(NAME), id.padded(ID));
        let line = safe![offset, GAP, length, GAP, kind, GAP, name, GAP, id, GAP, data];
        self.out.line(&line.trimmed())
    }

    /// The last line.
    pub(super) fn end(mut self, summary: &Safe) -> io::Result<()> {
        self.out.line(summary)?;
        self.out.flush()
    }
}

fn frame_row<'a>(frame: &'a Frame<'a>) -> Row<'a> {
    match frame {
        Frame::Event(event) => event_row("event", event),
        Frame::Undispatched(event) => event_row("undispatched", event),
        Frame::Comment(comment) => {
            Row { kind: "comment", name: "", id: Cow::Borrowed(""), data: comment.text.bytes() }
        }
        Frame::Anomaly(anomaly) => {
            Row { kind: "anomaly", name: anomaly.kind.name(), id: Cow::Borrowed(""), data: anomaly.raw }
        }
        Frame::Residue(residue) => {
            let name = match residue.cut {
                Cut::InLine => "cut within a line",
                Cut::AfterLine => "cut after a line",
            };
            Row { name, data: residue.parsed.raw, ..event_row("residue", &residue.parsed) }
        }
    }
}

fn event_row<'a>(kind: &'static str, event: &Event<'a>) -> Row<'a> {
    Row { kind, name: event.event, id: Cow::Borrowed(event.id.unwrap_or("")), data: event.data.bytes() }
}

fn line_row<'a>(line: &'a super::item::Line<'a>) -> Row<'a> {
    let (kind, name) = match &line.content {
        Content::Json(_) => ("line", line.kind().unwrap_or("")),
        Content::NotJson(_) => ("anomaly", "not JSON"),
        Content::Oversize => ("anomaly", "oversize"),
        Content::Cut => ("residue", "cut within a line"),
    };
    Row { kind, name, id: Cow::Owned(line.id().unwrap_or_default()), data: line.raw }
}
