//! The type of an event as a value. It is carried beside the JSON, so that nobody searches it there.

use super::Known;
use std::fmt;
use std::sync::Arc;

/// The type of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One that this version knows.
    Known(Known),
    /// One of a newer version, by its name.
    Other(Arc<str>),
}

impl Kind {
    /// The type of that name.
    pub fn named(name: &str) -> Self {
        Known::from_word(name).map_or_else(|| Self::Other(name.into()), Self::Known)
    }

    /// The type of a line that [`Event::write_json`](super::Event::write_json) wrote: only two numbers
    /// precede it there. The name is empty if the line has none.
    pub fn of_line(json: &[u8]) -> Self {
        const MEMBER: &[u8] = b"\"type\":";
        let found = json.windows(MEMBER.len()).position(|window| window == MEMBER);
        let rest = &json[found.map_or(json.len(), |at| at + MEMBER.len())..];
        let plain = rest.strip_prefix(b"\"").and_then(|rest| {
            let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
            (rest[end] == b'"').then(|| std::str::from_utf8(&rest[..end]).ok()).flatten()
        });
        plain.map_or_else(|| Self::Other(escaped(rest).into()), Self::named)
    }

    /// Its name on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(known) => known.as_str(),
            Self::Other(name) => name,
        }
    }

    /// Whether it is this one.
    pub fn is(&self, known: Known) -> bool {
        *self == Self::Known(known)
    }
}

/// The string at the beginning of this JSON, which is written with escapes.
fn escaped(json: &[u8]) -> String {
    let mut values = serde_json::Deserializer::from_slice(json).into_iter::<String>();
    values.next().and_then(Result::ok).unwrap_or_default()
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Kind;
    use crate::cursor::Seq;
    use crate::event::{Body, Draft, Known};
    use crate::time::Time;

    #[test]
    fn the_type_is_the_envelopes_own() {
        let line = br#"{"seq":1,"time":2,"type":"item.delta","item":"i1","text":"\"type\":\"x\""}"#;
        assert!(Kind::of_line(line).is(Known::ItemDelta));
        assert_eq!(Kind::of_line(b"{}").as_str(), "");
        assert_eq!(Kind::of_line(b"{\"type\":").as_str(), "");
    }

    #[test]
    fn a_line_says_the_type_that_its_event_has_whatever_its_name() {
        for name in ["session.ended", "a.b", "", "a\"b", "a\\b", "é", "line\nfeed"] {
            let event = Draft::new(Body::Unknown { r#type: name.to_owned() }).at(Seq(7), Time(8));
            assert_eq!(Kind::of_line(event.to_json().as_bytes()), event.draft.body.kind(), "{name:?}");
            assert_eq!(event.draft.body.kind().as_str(), name);
        }
    }
}
