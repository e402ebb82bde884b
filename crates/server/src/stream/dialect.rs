//! The native dialect on its two carriers. Pure: events in, bytes out.

use bytes::{BufMut, Bytes, BytesMut};
use memchr::memmem;
use std::fmt::Write;
use turnstream_log::Committed;
use turnstream_model::cursor::{CursorOutcome, Generation};
use turnstream_sse::encode::{self, Outgoing};

/// What carries the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Dialect {
    /// Server-sent events.
    Sse,
    /// One line of JSON per frame, each of which becomes one WebSocket message.
    Lines,
}

/// Said on every stream that the gateway ends because it shuts down.
pub(crate) const CLOSING: &str = r#"{"type":"stream","outcome":"closing"}"#;
/// Said at the end of a stream whose session was deleted.
pub(crate) const GONE: &str = r#"{"type":"stream","outcome":"gone"}"#;
/// Said on a stream that was asked to show its life by data.
const HEARTBEAT: &str = r#"{"type":"heartbeat"}"#;

/// Encodes the events of one session.
pub(crate) struct Encoder {
    dialect: Dialect,
    /// `GENERATION:`, and behind it the place of the event at hand.
    id: String,
    generation: usize,
}

impl Encoder {
    pub(crate) fn new(dialect: Dialect, generation: &Generation) -> Self {
        let id = format!("{}:", generation.as_str());
        Self { dialect, generation: id.len(), id }
    }

    /// Adds the frame of one event.
    pub(crate) fn event(&mut self, event: &Committed, out: &mut BytesMut) {
        self.id.truncate(self.generation);
        // Writing to a String does not fail.
        let _ = write!(self.id, "{}", event.seq());
        let json = event.json();
        match self.dialect {
            Dialect::Sse => {
                // What was committed is UTF-8, so this copies nothing.
                let data = String::from_utf8_lossy(json);
                frame(Some(type_of(&data)), Some(&self.id), &data, out);
            }
            Dialect::Lines => {
                out.reserve(json.len() + self.id.len() + 10);
                out.put_slice(b"{\"id\":\"");
                out.put_slice(self.id.as_bytes());
                out.put_slice(b"\",");
                out.put_slice(json.get(1..).unwrap_or_default());
                out.put_u8(b'\n');
            }
        }
    }
}

/// The frames of events, in one piece.
pub(crate) fn encode(encoder: &mut Encoder, events: &[Committed]) -> (Bytes, Vec<u32>) {
    let weight: usize = events.iter().map(|event| event.json().len() + 96).sum();
    let mut out = BytesMut::with_capacity(weight);
    let mut ends = Vec::with_capacity(events.len());
    for event in events {
        encoder.event(event, &mut out);
        // A batch is far below 4 GiB: an event is at most a body of 10 MiB or what an agent said in one piece.
        ends.push(u32::try_from(out.len()).unwrap_or(u32::MAX));
    }
    (out.freeze(), ends)
}

/// The first frame of a stream.
pub(crate) fn outcome(outcome: &CursorOutcome) -> Bytes {
    data_frame("stream", &outcome.to_json())
}

/// The last frame of a stream that the gateway ends.
pub(crate) fn closing() -> Bytes {
    data_frame("stream", CLOSING)
}

/// The last frame of a stream whose session was deleted.
pub(crate) fn gone() -> Bytes {
    data_frame("stream", GONE)
}

/// What became of a reader's place, in the form of its carrier.
pub(crate) fn outcome_in(dialect: Dialect, outcome: &CursorOutcome) -> Bytes {
    match dialect {
        Dialect::Sse => self::outcome(outcome),
        Dialect::Lines => Bytes::from(outcome.to_json() + "\n"),
    }
}

/// A sign of life that programs see.
pub(crate) fn heartbeat_data() -> Bytes {
    data_frame("heartbeat", HEARTBEAT)
}

/// A sign of life that programs do not see.
pub(crate) fn heartbeat_comment() -> Bytes {
    let mut out = BytesMut::new();
    encode::comment("heartbeat", &mut out);
    out.freeze()
}

/// A frame without an id: it does not move a client's cursor.
pub(crate) fn data_frame(event: &str, json: &str) -> Bytes {
    let mut out = BytesMut::new();
    frame(Some(event), None, json, &mut out);
    out.freeze()
}

fn frame(event: Option<&str>, id: Option<&str>, data: &str, out: &mut BytesMut) {
    if encode::event(&Outgoing { event, id, retry: None, data }, out).is_err() {
        // A type of a newer version that is no single line: the data says it all the same.
        let _ = encode::event(&Outgoing { event: None, id, retry: None, data }, out);
    }
}

/// The type of an event. Before it in the line are only two numbers, so the first member of that name is it.
fn type_of(json: &str) -> &str {
    const MEMBER: &str = "\"type\":\"";
    let Some(start) = memmem::find(json.as_bytes(), MEMBER.as_bytes()) else { return "" };
    let rest = &json[start + MEMBER.len()..];
    rest.split('"').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::type_of;

    #[test]
    fn the_type_is_the_envelopes_own() {
        let line = r#"{"seq":1,"time":2,"type":"item.delta","item":"i1","text":"\"type\":\"x\""}"#;
        assert_eq!(type_of(line), "item.delta");
        assert_eq!(type_of("{}"), "");
    }
}
