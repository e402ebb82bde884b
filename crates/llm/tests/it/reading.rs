//! Reads a stream to its end, and queries the result.

use crate::corpus::Stream;
use turnstream_llm::{
    AnomalyKind, Format, Head, Item, Outcome, Profile, Reader, SpliceEvidence, StreamEvent, ToolCall,
    Transport,
};

/// All events of a stream, and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) said: Vec<StreamEvent>,
    pub(crate) outcome: Outcome,
}

pub(crate) fn read_pieces<'a>(
    format: Format,
    profile: &Profile,
    head: Head,
    transport: Transport,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Read {
    let mut reader = Reader::new(format, profile, head);
    let mut said = Vec::new();
    for piece in pieces {
        reader.push(piece, &mut said);
    }
    let outcome = reader.end(transport, &mut said);
    Read { said, outcome }
}

/// Reads a stream with a correct head and an orderly end.
pub(crate) fn read(format: Format, profile: &Profile, bytes: &[u8]) -> Read {
    read_pieces(format, profile, Head::stream(), Transport::Clean, [bytes])
}

pub(crate) fn read_stream(stream: &Stream) -> Read {
    read(stream.format, &stream.profile, &stream.bytes())
}

/// Positions at which these bytes are split or cut. `TURNSTREAM_FULL=1` takes all of them. By default these
/// are all near the end of a line, in an escape or in a character, and every seventh of the others.
pub(crate) fn positions(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let full = std::env::var_os("TURNSTREAM_FULL").is_some();
    let is_delicate = |at: usize| {
        let around = &bytes[at.saturating_sub(2)..bytes.len().min(at + 2)];
        let is_in_character = bytes.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
        is_in_character || around.iter().any(|byte| matches!(byte, b'\n' | b'\r' | b'\\'))
    };
    (0..=bytes.len()).filter(move |at| full || at % 7 == 0 || is_delicate(*at))
}

/// Reads a stream whole, split at each of the `positions` and byte by byte, and asserts equal results.
#[track_caller]
pub(crate) fn read_in_every_split(format: Format, profile: &Profile, head: &Head, bytes: &[u8]) -> Read {
    read_in_every_split_ended(format, profile, head, Transport::Clean, bytes)
}

/// The same with another end of the transport.
#[track_caller]
pub(crate) fn read_in_every_split_ended(
    format: Format,
    profile: &Profile,
    head: &Head,
    transport: Transport,
    bytes: &[u8],
) -> Read {
    let pieces =
        |pieces: &[&[u8]]| read_pieces(format, profile, head.clone(), transport, pieces.iter().copied());
    let whole = pieces(&[bytes]);
    for at in positions(bytes) {
        let (first, second) = bytes.split_at(at);
        assert_eq!(pieces(&[first, second]), whole, "split at {at}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(pieces(&single), whole, "in single bytes");
    whole
}

impl Read {
    /// The text that was shown.
    pub(crate) fn text(&self) -> String {
        let texts = self.said.iter().filter_map(|said| match said {
            StreamEvent::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The reasoning that was shown.
    pub(crate) fn reasoning(&self) -> String {
        let texts = self.said.iter().filter_map(|said| match said {
            StreamEvent::Reasoning { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The committed calls, without their place.
    pub(crate) fn calls(&self) -> Vec<(Option<&str>, &str, &str)> {
        self.outcome.committed.iter().filter_map(Item::call).map(named).collect()
    }

    /// Calls that may run.
    pub(crate) fn runnable(&self) -> Vec<(Option<&str>, &str, &str)> {
        self.outcome.runnable().into_iter().map(named).collect()
    }

    /// The calls of `Committed` events.
    pub(crate) fn told_calls(&self) -> Vec<(Option<&str>, &str, &str)> {
        let calls = self.said.iter().filter_map(|said| match said {
            StreamEvent::Committed(item) => item.call(),
            _ => None,
        });
        calls.map(named).collect()
    }

    /// The committed texts.
    pub(crate) fn messages(&self) -> Vec<&str> {
        let texts = self.outcome.committed.iter().filter_map(|item| match item {
            Item::Message { text, .. } => Some(text.as_str()),
            Item::Reasoning { .. } | Item::Call(_) | Item::Other { .. } => None,
        });
        texts.collect()
    }

    pub(crate) fn anomalies(&self) -> Vec<AnomalyKind> {
        self.outcome.anomalies.iter().map(|anomaly| anomaly.kind).collect()
    }

    pub(crate) fn evidence(&self) -> Vec<SpliceEvidence> {
        self.outcome.identity.findings.iter().map(|finding| finding.evidence).collect()
    }

    /// Asserts that the events and the outcome commit the same items.
    pub(crate) fn committed_as_said(&self) -> bool {
        let said = self.said.iter().filter_map(|said| match said {
            StreamEvent::Committed(item) => Some(item.number()),
            _ => None,
        });
        let mut said: Vec<_> = said.collect();
        let mut listed: Vec<_> = self.outcome.committed.iter().map(Item::number).collect();
        said.sort_unstable();
        listed.sort_unstable();
        said == listed
    }
}

fn named(call: &ToolCall) -> (Option<&str>, &str, &str) {
    (call.id.as_deref(), &call.name, &call.arguments)
}
