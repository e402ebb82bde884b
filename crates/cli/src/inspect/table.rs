//! Rows in aligned columns, one line each. Columns have fixed widths, so that a file of any size is shown as it is read.

use super::item::{Content, Item};
use crate::escape::preview;
use std::borrow::Cow;
use std::io::{self, Write};
use turnstream_sse::{Cut, Event, Frame};

/// The columns to the left of the data.
const BEFORE_DATA: usize = OFFSET + LENGTH + KIND + NAME + ID + 5 * GAP.len();
const OFFSET: usize = 9;
const LENGTH: usize = 8;
const KIND: usize = 12;
const NAME: usize = 20;
const ID: usize = 10;
const GAP: &str = "  ";
/// A terminal narrower than the usual 80 columns wraps rather than hide all data.
const LEAST_DATA: usize = 10;
/// No preview is longer than this many bytes of data, whatever the width.
const MOST_DATA: usize = 4096;

/// Writes the table.
pub(super) struct Table<W> {
    out: W,
    data_width: usize,
    began: bool,
}

struct Row<'a> {
    kind: &'a str,
    name: &'a str,
    id: Cow<'a, str>,
    data: &'a [u8],
}

impl<W: Write> Table<W> {
    /// For a terminal of that many columns.
    pub(super) fn new(out: W, width: usize) -> Self {
        Self { out, data_width: width.saturating_sub(BEFORE_DATA).max(LEAST_DATA), began: false }
    }

    pub(super) fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        if !self.began {
            self.began = true;
            self.line(["offset", "length"], ["kind", "event or type", "id"], "data")?;
        }
        let (range, row) = match item {
            Item::Frame(frame) => (frame.range(), frame_row(frame)),
            Item::Line(line) => (&line.range, line_row(line)),
        };
        let numbers = [range.start.to_string(), (range.end - range.start).to_string()];
        let data = String::from_utf8_lossy(&row.data[..row.data.len().min(MOST_DATA)]);
        let data = preview(&data, self.data_width);
        let name = preview(row.name, NAME);
        let id = preview(&row.id, ID);
        self.line([&numbers[0], &numbers[1]], [row.kind, &name, &id], &data)
    }

    fn line(&mut self, numbers: [&str; 2], words: [&str; 3], data: &str) -> io::Result<()> {
        let [offset, length] = numbers;
        let [kind, name, id] = words;
        let line = format!(
            "{offset:>OFFSET$}{GAP}{length:>LENGTH$}{GAP}{kind:<KIND$}{GAP}{name:<NAME$}{GAP}{id:<ID$}{GAP}{data}"
        );
        writeln!(self.out, "{}", line.trim_end())
    }

    /// The last line.
    pub(super) fn end(mut self, summary: &str) -> io::Result<()> {
        writeln!(self.out, "{summary}")?;
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

fn event_row<'a>(kind: &'a str, event: &Event<'a>) -> Row<'a> {
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
