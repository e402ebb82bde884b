//! Writes frames that every decoder reads back unchanged.
//!
//! Each function appends complete frames, ended by a blank line, to a `BytesMut`, and allocates nothing
//! else. Data and comments may be any text: each line ending in them (LF, CRLF or CR) starts a new field
//! line, so nothing can break out of its field. An id or event type with CR, LF or NUL is refused, and
//! nothing is written.

use bytes::{BufMut, BytesMut};
use memchr::{memchr2, memchr3};
use std::fmt::{self, Write};

/// An event to write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// The event type; a client sees `message` if there is none or it is empty.
    pub event: Option<&'a str>,
    /// The id, which becomes the client's last event id; an empty one resets that.
    pub id: Option<&'a str>,
    /// The reconnection time in milliseconds.
    pub retry: Option<u64>,
    /// The data. A client sees its line endings as LF.
    pub data: &'a str,
}

/// Why an event could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The field whose value cannot be on one line.
    pub field: Field,
    /// The offending character.
    pub character: char,
}

/// The fields that must be one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The event type.
    Event,
    /// The event id.
    Id,
}

/// Writes an event.
pub fn event(outgoing: &Outgoing<'_>, out: &mut BytesMut) -> Result<(), Refused> {
    let event = checked(Field::Event, outgoing.event)?;
    let id = checked(Field::Id, outgoing.id)?;
    let fixed = "event: \nid: \nretry: 18446744073709551615\ndata: \n\n".len();
    out.reserve(fixed + event.map_or(0, str::len) + id.map_or(0, str::len) + outgoing.data.len());
    if let Some(event) = event {
        line(b"event: ", event, out);
    }
    if let Some(id) = id {
        line(b"id: ", id, out);
    }
    if let Some(milliseconds) = outgoing.retry {
        retry_line(milliseconds, out);
    }
    lines(b"data: ", outgoing.data, out);
    out.put_u8(b'\n');
    Ok(())
}

/// Writes a comment, such as a heartbeat.
pub fn comment(text: &str, out: &mut BytesMut) {
    lines(b": ", text, out);
    out.put_u8(b'\n');
}

/// Writes a reconnection time on its own, which dispatches no event.
pub fn retry(milliseconds: u64, out: &mut BytesMut) {
    retry_line(milliseconds, out);
    out.put_u8(b'\n');
}

fn checked(field: Field, value: Option<&str>) -> Result<Option<&str>, Refused> {
    match value.and_then(|value| memchr3(b'\r', b'\n', 0, value.as_bytes()).map(|at| value.as_bytes()[at])) {
        Some(byte) => Err(Refused { field, character: char::from(byte) }),
        None => Ok(value),
    }
}

fn line(prefix: &[u8], value: &str, out: &mut BytesMut) {
    out.put_slice(prefix);
    out.put_slice(value.as_bytes());
    out.put_u8(b'\n');
}

fn lines(prefix: &[u8], mut text: &str, out: &mut BytesMut) {
    while let Some(end) = memchr2(b'\n', b'\r', text.as_bytes()) {
        line(prefix, &text[..end], out);
        let ending = if text[end..].starts_with("\r\n") { 2 } else { 1 };
        text = &text[end + ending..];
    }
    line(prefix, text, out);
}

fn retry_line(milliseconds: u64, out: &mut BytesMut) {
    // Writing to a `BytesMut` grows it and does not fail.
    let _ = writeln!(out, "retry: {milliseconds}");
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = match self.field {
            Field::Event => "event type",
            Field::Id => "event id",
        };
        write!(f, "the {field} contains {:?}; it must be one line without NUL", self.character)
    }
}

impl std::error::Error for Refused {}
