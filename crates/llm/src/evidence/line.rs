//! Removes model text from the lines of a body.

use super::{payload, vocabulary};

/// The kind of body that the lines belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An event stream.
    Stream,
    /// JSON or a part of it, or binary data: a completion that was not streamed, or compressed.
    Json,
    /// A page or plain text.
    Document,
}

/// Replaces text by its length.
pub(super) fn without_text(bytes: &[u8], kind: Kind) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    if kind == Kind::Json && (payload::as_error(bytes, &mut out) || payload::as_json(bytes, &mut out)) {
        return out;
    }
    for line in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
        let ending = line.last().filter(|byte| matches!(byte, b'\n' | b'\r')).map_or(0, |_| 1);
        let (line, ending) = line.split_at(line.len() - ending);
        match kind {
            Kind::Stream => stream_line(line, &mut out),
            Kind::Document => out.extend_from_slice(line),
            Kind::Json => {
                if !payload::as_json(line, &mut out) {
                    payload::by_words(line, &mut out);
                }
            }
        }
        out.extend_from_slice(ending);
    }
    out
}

fn stream_line(line: &[u8], out: &mut Vec<u8>) {
    let colon = line.iter().position(|byte| *byte == b':');
    match colon.map(|colon| line.split_at(colon + 1)) {
        Some((b"data:", value)) => {
            out.extend_from_slice(b"data:");
            let space = usize::from(value.first() == Some(&b' '));
            out.extend_from_slice(&value[..space]);
            glued(&value[space..], out);
        }
        Some((b"event:", name)) if is_name(name.trim_ascii()) => out.extend_from_slice(line),
        // Also comments: a torn line of data may begin with a colon.
        Some(_) | None => payload::by_words(line, out),
    }
}

/// Whether an event name consists of known words.
fn is_name(name: &[u8]) -> bool {
    name.split(|byte| matches!(byte, b'_' | b'.')).all(vocabulary::has)
}

/// Handles a payload that may contain glued payloads, each on its own.
fn glued(mut value: &[u8], out: &mut Vec<u8>) {
    const DATA: &[u8] = b"data:";
    if payload::as_json(value, out) {
        return;
    }
    while let Some(at) = value.windows(DATA.len()).position(|window| window == DATA) {
        let (before, after) = value.split_at(at);
        payload::by_words(before, out);
        out.extend_from_slice(DATA);
        value = &after[DATA.len()..];
        if payload::as_json(value, out) {
            return;
        }
    }
    payload::by_words(value, out);
}
