//! Adds ids to the frames of a dialect.
//!
//! If an event has one frame, its id is `GENERATION:SEQ`. If it has several, their ids are
//! `GENERATION:SEQ.1`, `.2` and so on. A client that reconnects with the id of frame K gets the frames
//! after it.

use super::carrier::{Carrier, sse_frame};
use bytes::{BufMut, BytesMut};
use memchr::memmem;
use std::fmt::Write;
use turnstream_dialects::Frames;
use turnstream_model::cursor::{Generation, Seq};

/// Writes the frames of one session's stream.
pub(crate) struct Framing {
    carrier: Carrier,
    /// The beginning of a line, up to its id.
    prefix: String,
    /// The id of the current frame: `GENERATION:` and its place.
    id: String,
    generation: usize,
}

/// The frames of one event.
pub(crate) struct EventFrames<'a> {
    framing: &'a mut Framing,
    out: &'a mut BytesMut,
    seq: Seq,
    count: u32,
    first: usize,
}

/// The frames of a replay. Only the last one has an id: a client without it does not have the whole replay,
/// and gets everything again.
pub(crate) struct ReplayFrames<'a> {
    framing: &'a mut Framing,
    out: &'a mut BytesMut,
    seq: Seq,
    last: Option<usize>,
}

impl Framing {
    /// On a carrier without ids of its own, the id is in this member.
    pub(crate) fn new(carrier: Carrier, id_member: &str, generation: &Generation) -> Self {
        let id = format!("{}:", generation.as_str());
        Self { carrier, prefix: format!("{{\"{id_member}\":\""), generation: id.len(), id }
    }

    /// For the frames of this event.
    pub(crate) fn event<'a>(&'a mut self, seq: Seq, out: &'a mut BytesMut) -> EventFrames<'a> {
        let first = out.len();
        EventFrames { framing: self, out, seq, count: 0, first }
    }

    /// For the frames of a replay up to this event.
    pub(crate) fn replay<'a>(&'a mut self, seq: Seq, out: &'a mut BytesMut) -> ReplayFrames<'a> {
        ReplayFrames { framing: self, out, seq, last: None }
    }

    fn set_id(&mut self, seq: Seq, number: Option<u32>) {
        self.id.truncate(self.generation);
        let written = match number {
            None => write!(self.id, "{seq}"),
            Some(number) => write!(self.id, "{seq}.{number}"),
        };
        debug_assert!(written.is_ok(), "writing to a String does not fail");
    }

    /// Adds a frame with the current id.
    fn write(&self, name: Option<&str>, json: &[u8], out: &mut BytesMut) {
        match self.carrier {
            // Frames are UTF-8, so this copies nothing.
            Carrier::Sse => sse_frame(name, Some(&self.id), &String::from_utf8_lossy(json), out),
            Carrier::Lines => {
                out.reserve(json.len() + self.prefix.len() + self.id.len() + 3);
                out.put_slice(self.prefix.as_bytes());
                out.put_slice(self.id.as_bytes());
                out.put_slice(b"\",");
                out.put_slice(json.get(1..).unwrap_or_default());
                out.put_u8(b'\n');
            }
        }
    }

    /// The end of the id in a frame that was written with the current id.
    fn end_of_id(&self, frame: &[u8]) -> usize {
        let before = match self.carrier {
            // A name is one line, so the first line with this prefix is the id.
            Carrier::Sse => match memmem::find(frame, b"\nid: ") {
                Some(at) if !frame.starts_with(b"id: ") => at + "\nid: ".len(),
                _ => "id: ".len(),
            },
            Carrier::Lines => self.prefix.len(),
        };
        before + self.id.len()
    }
}

impl Frames for EventFrames<'_> {
    fn frame(&mut self, name: Option<&str>, json: &[u8]) {
        self.count += 1;
        if self.count == 1 {
            self.framing.set_id(self.seq, None);
        } else {
            if self.count == 2 {
                // The first frame was written as the only one.
                let end = self.first + self.framing.end_of_id(&self.out[self.first..]);
                insert(end, b".1", self.out);
            }
            self.framing.set_id(self.seq, Some(self.count));
        }
        self.framing.write(name, json, self.out);
    }
}

impl Frames for ReplayFrames<'_> {
    fn frame(&mut self, name: Option<&str>, json: &[u8]) {
        self.last = Some(self.out.len());
        match self.framing.carrier {
            Carrier::Sse => sse_frame(name, None, &String::from_utf8_lossy(json), self.out),
            Carrier::Lines => {
                self.out.put_slice(json);
                self.out.put_u8(b'\n');
            }
        }
    }
}

impl ReplayFrames<'_> {
    /// Gives the last frame its id.
    pub(crate) fn finish(self) {
        let Some(last) = self.last else { return };
        self.framing.set_id(self.seq, None);
        let Framing { carrier, prefix, id, .. } = self.framing;
        match carrier {
            Carrier::Sse => insert(last, format!("id: {id}\n").as_bytes(), self.out),
            // The frame already has its brace.
            Carrier::Lines => insert(last + 1, format!("{}{id}\",", &prefix[1..]).as_bytes(), self.out),
        }
    }
}

/// Inserts bytes.
fn insert(at: usize, bytes: &[u8], out: &mut BytesMut) {
    let end = out.len();
    out.put_slice(bytes);
    out.copy_within(at..end, at + bytes.len());
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::{Carrier, Framing};
    use bytes::BytesMut;
    use turnstream_dialects::Frames;
    use turnstream_model::cursor::{Generation, Seq};

    fn framing(carrier: Carrier) -> Framing {
        Framing::new(carrier, "cursor", &Generation::new("g1").unwrap())
    }

    fn text(out: &BytesMut) -> &str {
        std::str::from_utf8(out).unwrap()
    }

    #[test]
    fn a_frame_is_numbered_only_where_an_event_makes_several() {
        let (mut framing, mut out) = (framing(Carrier::Lines), BytesMut::new());
        framing.event(Seq(1), &mut out).frame(None, br#"{"a":1}"#);
        framing.event(Seq(2), &mut out);
        let mut frames = framing.event(Seq(3), &mut out);
        for json in [br#"{"b":1}"#, br#"{"c":1}"#, br#"{"d":1}"#] {
            frames.frame(None, json);
        }
        let lines = r#"{"cursor":"g1:1","a":1}
{"cursor":"g1:3.1","b":1}
{"cursor":"g1:3.2","c":1}
{"cursor":"g1:3.3","d":1}
"#;
        assert_eq!(text(&out), lines);
    }

    #[test]
    fn the_number_of_the_first_frame_goes_into_its_id_and_nowhere_else() {
        let (mut framing, mut out) = (framing(Carrier::Sse), BytesMut::new());
        let mut frames = framing.event(Seq(3), &mut out);
        frames.frame(Some("id: g1:3"), br#"{"id: g1:3":1}"#);
        frames.frame(None, b"{}");
        let want = "event: id: g1:3\nid: g1:3.1\ndata: {\"id: g1:3\":1}\n\nid: g1:3.2\ndata: {}\n\n";
        assert_eq!(text(&out), want);

        out.clear();
        let mut frames = framing.event(Seq(4), &mut out);
        frames.frame(None, b"{}");
        frames.frame(Some("x"), b"{}");
        assert_eq!(text(&out), "id: g1:4.1\ndata: {}\n\nevent: x\nid: g1:4.2\ndata: {}\n\n");
    }

    #[test]
    fn only_the_last_frame_of_a_replay_moves_the_cursor() {
        for (carrier, want) in [
            (Carrier::Sse, "data: {\"a\":1}\n\nid: g1:9\ndata: {\"b\":1}\n\n"),
            (Carrier::Lines, "{\"a\":1}\n{\"cursor\":\"g1:9\",\"b\":1}\n"),
        ] {
            let (mut framing, mut out) = (framing(carrier), BytesMut::new());
            let mut frames = framing.replay(Seq(9), &mut out);
            frames.frame(None, br#"{"a":1}"#);
            frames.frame(None, br#"{"b":1}"#);
            frames.finish();
            assert_eq!(text(&out), want);
        }
        let mut out = BytesMut::new();
        framing(Carrier::Sse).replay(Seq(9), &mut out).finish();
        assert_eq!(text(&out), "");
    }
}
