//! The carriers of frames, and the frames of the stream itself, which belong to no dialect.

use bytes::{Bytes, BytesMut};
use memchr::memmem;
use turnstream_model::cursor::CursorOutcome;
use turnstream_sse::encode::{self, Outgoing};

/// The carrier of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Carrier {
    /// Server-sent events.
    Sse,
    /// One line of JSON per frame. Each becomes one WebSocket message.
    Lines,
}

/// The last frame of every stream when the gateway shuts down.
pub(crate) const CLOSING: &str = r#"{"type":"stream","outcome":"closing"}"#;
/// The last frame of a stream whose session was deleted.
pub(crate) const GONE: &str = r#"{"type":"stream","outcome":"gone"}"#;
/// A heartbeat as data.
const HEARTBEAT: &str = r#"{"type":"heartbeat"}"#;

impl Carrier {
    /// The frame with the outcome of a cursor.
    pub(crate) fn outcome(self, outcome: &CursorOutcome) -> Bytes {
        match self {
            Self::Sse => data_frame("stream", &outcome.to_json()),
            Self::Lines => Bytes::from(outcome.to_json() + "\n"),
        }
    }

    /// The end of the first `count` frames, or of all of them if there are fewer.
    pub(crate) fn end_of(self, count: u32, frames: &[u8]) -> usize {
        // The JSON of a frame is one line, so neither separator is inside a frame.
        let end = match self {
            Self::Sse => "\n\n",
            Self::Lines => "\n",
        };
        let Some(last) = (count as usize).checked_sub(1) else { return 0 };
        let found = memmem::find_iter(frames, end.as_bytes()).nth(last);
        found.map_or(frames.len(), |at| at + end.len())
    }
}

/// [`CLOSING`] as a server-sent event.
pub(crate) fn closing() -> Bytes {
    data_frame("stream", CLOSING)
}

/// [`GONE`] as a server-sent event.
pub(crate) fn gone() -> Bytes {
    data_frame("stream", GONE)
}

/// A heartbeat that programs see.
pub(crate) fn heartbeat_data() -> Bytes {
    data_frame("heartbeat", HEARTBEAT)
}

/// A heartbeat that programs do not see.
pub(crate) fn heartbeat_comment() -> Bytes {
    let mut out = BytesMut::new();
    encode::comment("heartbeat", &mut out);
    out.freeze()
}

/// A frame without an id: it does not move a client's cursor.
pub(crate) fn data_frame(event: &str, json: &str) -> Bytes {
    let mut out = BytesMut::new();
    sse_frame(Some(event), None, json, &mut out);
    out.freeze()
}

/// A server-sent event.
pub(super) fn sse_frame(event: Option<&str>, id: Option<&str>, data: &str, out: &mut BytesMut) {
    if encode::event(&Outgoing { event, id, retry: None, data }, out).is_err() {
        // The type of an unknown event may contain a newline. The data has the type too.
        if let Err(error) = encode::event(&Outgoing { event: None, id, retry: None, data }, out) {
            tracing::warn!(%error, "a frame cannot be sent");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Carrier;

    #[test]
    fn frames_are_counted_by_their_ends() {
        for (carrier, frames) in [
            (Carrier::Sse, ["id: 1\ndata: {}\n\n", "data: {}\n\n"]),
            (Carrier::Lines, ["{}\n", "{\"a\":1}\n"]),
        ] {
            let all = frames.concat();
            let (one, two) = (frames[0].len(), all.len());
            let ends = [0, 1, 2, 3].map(|count| carrier.end_of(count, all.as_bytes()));
            assert_eq!(ends, [0, one, two, two]);
        }
    }
}
