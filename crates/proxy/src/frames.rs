//! Cuts a body into the frames of an event stream, without changing a byte.

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde::de::IgnoredAny;
use turnstream_llm::{Format, repaired_payloads};
use turnstream_sse::{Decoder, Frame, Text};

/// Collects bytes until a frame is whole: fields and the blank line after them.
#[derive(Default)]
pub(crate) struct Splitter {
    pending: BytesMut,
    /// Where the search for a blank line goes on.
    searched: usize,
}

/// What a proxy needs to know of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// Nothing but comments and blank lines, or a ping.
    KeepAlive,
    /// The end marker of chat completions.
    Done,
    /// One JSON payload.
    Payload,
    /// Anything else.
    Other,
}

impl Splitter {
    /// Adds bytes of the body.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next whole frame, with its blank line.
    pub(crate) fn next_frame(&mut self) -> Option<Bytes> {
        let bytes = &self.pending[..];
        let mut at = self.searched;
        while at < bytes.len() {
            let first = line_end(bytes, at);
            if let Some(first) = first
                && let Some(second) = line_end(bytes, at + first)
            {
                // A `\r` at the end of the bytes may be half of a `\r\n`.
                let end = at + first + second;
                if bytes[end - 1] == b'\r' && end == bytes.len() {
                    break;
                }
                self.searched = 0;
                return Some(self.pending.split_to(end).freeze());
            }
            at += 1;
        }
        self.searched = bytes.len().saturating_sub(4);
        None
    }

    /// The bytes after the last whole frame.
    pub(crate) fn rest(&mut self) -> Bytes {
        self.searched = 0;
        self.pending.split().freeze()
    }

    /// The number of bytes that wait for the end of their frame.
    pub(crate) fn waiting(&self) -> usize {
        self.pending.len()
    }
}

/// The length of a line end at this place.
fn line_end(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'\n' => Some(1),
        b'\r' if bytes.get(at + 1) == Some(&b'\n') => Some(2),
        b'\r' => Some(1),
        _ => None,
    }
}

/// How keep-alive events begin.
const PINGS: [&[u8]; 2] = [b"event: ping\n", b"event: keepalive\n"];

/// What a frame is.
pub(crate) fn kind(frame: &[u8]) -> FrameKind {
    if PINGS.iter().any(|ping| frame.starts_with(ping)) {
        return FrameKind::KeepAlive;
    }
    match data(frame) {
        None if frame.iter().all(|byte| byte.is_ascii_whitespace()) || frame.starts_with(b":") => {
            FrameKind::KeepAlive
        }
        None => FrameKind::Other,
        Some(data) if data.trim() == "[DONE]" => FrameKind::Done,
        Some(data) if serde_json::from_str::<IgnoredAny>(&data).is_ok() => FrameKind::Payload,
        Some(_) => FrameKind::Other,
    }
}

/// The data of the only event in a frame.
fn data(frame: &[u8]) -> Option<String> {
    let mut decoder = Decoder::new();
    let text = |frame: Frame<'_>| match frame {
        Frame::Event(event) => match event.data {
            Text::Utf8(data) => Some(data.to_owned()),
            Text::Broken(_) => None,
        },
        Frame::Residue(residue) => match residue.parsed.data {
            Text::Utf8(data) if !data.is_empty() => Some(data.to_owned()),
            Text::Utf8(_) | Text::Broken(_) => None,
        },
        Frame::Undispatched(_) | Frame::Comment(_) | Frame::Anomaly(_) => None,
    };
    let mut found = None;
    let mut frames = decoder.feed(frame);
    while let Some(frame) = frames.next_frame() {
        found = found.or(text(frame));
    }
    drop(frames);
    if found.is_some() { found } else { text(decoder.finish()?) }
}

/// A frame that a plain reader could not read, written anew with the same payloads. The reader has said that
/// nothing is lost.
pub(crate) fn rewritten(format: Format, frame: &[u8]) -> Option<Bytes> {
    #[derive(Deserialize)]
    struct Named {
        r#type: Option<String>,
    }
    let payloads = repaired_payloads(&data(frame)?)?;
    let mut written = String::new();
    for payload in payloads {
        let named = match format {
            Format::Chat => None,
            Format::Responses | Format::Messages => serde_json::from_str::<Named>(&payload).ok(),
        };
        if let Some(name) = named.and_then(|named| named.r#type) {
            written.push_str(&format!("event: {name}\n"));
        }
        for line in payload.lines() {
            written.push_str(&format!("data: {line}\n"));
        }
        written.push('\n');
    }
    Some(Bytes::from(written))
}

/// Items of the responses format that a client only shows: the provider runs these tools itself.
const SHOWN: [&str; 8] = [
    "message",
    "reasoning",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
    "mcp_list_tools",
];

/// Whether a frame without content is the end of a block.
pub(crate) fn ends_block(format: Format, frame: &[u8]) -> bool {
    const END: &[u8] = b"content_block_stop";
    format == Format::Messages && frame.windows(END.len()).any(|window| window == END)
}

/// Whether a frame has a part of a call that a client would run. The reader has no event for some of them:
/// kinds that it does not know, items without a beginning, and calls without a name.
pub(crate) fn has_call(format: Format, frame: &[u8]) -> bool {
    let Some(data) = data(frame) else { return false };
    let payloads = repaired_payloads(&data).unwrap_or_else(|| vec![data]);
    payloads.iter().any(|payload| match format {
        Format::Chat => has_chat_call(payload),
        Format::Responses => has_response_call(payload),
        // Each block of this format has a beginning, and each call a name.
        Format::Messages => false,
    })
}

fn has_chat_call(payload: &str) -> bool {
    #[derive(Deserialize)]
    struct Chunk {
        choices: Vec<Choice>,
    }
    #[derive(Deserialize)]
    struct Choice {
        delta: Option<Delta>,
    }
    #[derive(Deserialize)]
    struct Delta {
        tool_calls: Option<Vec<IgnoredAny>>,
        function_call: Option<IgnoredAny>,
    }
    let Ok(chunk) = serde_json::from_str::<Chunk>(payload) else { return false };
    chunk
        .choices
        .into_iter()
        .filter_map(|choice| choice.delta)
        .any(|delta| delta.tool_calls.is_some_and(|calls| !calls.is_empty()) || delta.function_call.is_some())
}

fn has_response_call(payload: &str) -> bool {
    #[derive(Deserialize)]
    struct Event {
        r#type: Option<String>,
        item: Option<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        r#type: String,
    }
    match serde_json::from_str::<Event>(payload) {
        Ok(Event { item: Some(item), .. }) => !SHOWN.contains(&item.r#type.as_str()),
        // Such as `response.function_call_arguments.done`.
        Ok(Event { r#type: Some(name), item: None }) => {
            name.contains("_call") && !SHOWN.iter().any(|shown| name.contains(shown))
        }
        Ok(Event { r#type: None, item: None }) | Err(_) => false,
    }
}

/// The last frame of a body, with the blank line that is missing. `None` if it is half a frame.
pub(crate) fn completed(rest: &[u8]) -> Option<Bytes> {
    match kind(rest) {
        FrameKind::Done | FrameKind::Payload => {
            let end: &[u8] = if rest.ends_with(b"\n") || rest.ends_with(b"\r") { b"\n" } else { b"\n\n" };
            Some([rest, end].concat().into())
        }
        FrameKind::KeepAlive | FrameKind::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{FrameKind, Splitter, completed, has_call, kind, rewritten};
    use turnstream_llm::Format;

    fn frames(body: &[u8], size: usize) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut splitter = Splitter::default();
        let mut frames = Vec::new();
        for chunk in body.chunks(size) {
            splitter.push(chunk);
            while let Some(frame) = splitter.next_frame() {
                frames.push(frame.to_vec());
            }
        }
        (frames, splitter.rest().to_vec())
    }

    #[test]
    fn frames_do_not_depend_on_the_split_and_lose_no_byte() {
        let body = b"data: 1\n\nevent: a\r\ndata: 2\r\n\r\n: c\n\ndata: 3\r\rdata: 4\n\n\ndata: half\n";
        let whole = frames(body, body.len());
        for size in 1..body.len() {
            let cut = frames(body, size);
            assert_eq!([cut.0.concat(), cut.1.clone()].concat(), body, "{size}");
            let payloads = |frames: &[Vec<u8>]| -> Vec<Vec<u8>> {
                let data = frames.iter().filter(|frame| kind(frame) != FrameKind::KeepAlive);
                data.map(|frame| frame.trim_ascii().to_vec()).collect()
            };
            assert_eq!(payloads(&cut.0), payloads(&whole.0), "{size}");
        }
        assert_eq!(whole.1.trim_ascii(), b"data: half");
    }

    #[test]
    fn calls_that_the_reader_has_no_event_for_are_seen() {
        let chat = |delta: &str| {
            let frame = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n");
            has_call(Format::Chat, frame.as_bytes())
        };
        assert!(chat(r#"{"tool_calls":[{"index":0,"id":"call_1"}]}"#));
        assert!(chat(r#"{"function_call":{"arguments":""}}"#));
        assert!(!chat(r#"{"content":"text","tool_calls":[],"function_call":null}"#));
        let response = |event: &str| has_call(Format::Responses, format!("data: {event}\n\n").as_bytes());
        for kind in ["local_shell_call", "shell_call", "apply_patch_call", "computer_call", "function_call"] {
            assert!(response(&format!(
                r#"{{"type":"response.output_item.done","item":{{"type":"{kind}"}}}}"#
            )));
        }
        assert!(response(r#"{"type":"response.output_item.done","item":{"type":"mcp_approval_request"}}"#));
        assert!(response(r#"{"type":"response.function_call_arguments.done","arguments":"{}"}"#));
        assert!(!response(r#"{"type":"response.output_item.added","item":{"type":"web_search_call"}}"#));
        assert!(!response(r#"{"type":"response.mcp_call_arguments.delta","delta":"{}"}"#));
        assert!(!response(r#"{"type":"response.output_text.delta","delta":"a function_call"}"#));
    }

    #[test]
    fn kinds_and_repairs() {
        assert_eq!(kind(b": keep-alive\n\n"), FrameKind::KeepAlive);
        assert_eq!(kind(b"data: [DONE] \n\n"), FrameKind::Done);
        assert_eq!(kind(b"event: a\ndata: {\"a\":1}\n\n"), FrameKind::Payload);
        assert_eq!(kind(b"data: {\"a\n\n"), FrameKind::Other);
        let glued = b"event: a\ndata: {\"type\":\"a\"}\nevent: b\ndata: {\"type\":\"b\"}\n\n";
        let separate = rewritten(Format::Messages, glued).unwrap();
        assert_eq!(
            &separate[..],
            b"event: a\ndata: {\"type\":\"a\"}\n\nevent: b\ndata: {\"type\":\"b\"}\n\n"
        );
        assert_eq!(completed(b"data: {}\n").as_deref(), Some(&b"data: {}\n\n"[..]));
        assert_eq!(completed(b"data: [DO"), None);
    }
}
