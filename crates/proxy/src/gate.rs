//! Which frames of an answer may leave, and when.
//!
//! Nothing leaves before the first content. From the first tool call or the finish on, everything waits until
//! the reader says that the answer is whole. So a client never gets half a call, and no end of an answer that
//! is not one.
//!
//! The end of a text waits for what follows it. Claude Code 2.1.197 repeats a request whose text has no end,
//! and gives up one whose text is complete. So a loss in a tool call after a text leaves the text open.

use crate::frames::{self, FrameKind, Splitter};
use bytes::Bytes;
use turnstream_llm::account::ReceivedBytes;
use turnstream_llm::{Format, Item, Outcome, Reader, StreamEnd, StreamEvent, Transport};

/// The most bytes that wait for the end of an answer.
const MOST_HELD: usize = 64 * 1024 * 1024;

/// The frames of one answer.
pub(crate) struct Gate {
    format: Format,
    splitter: Splitter,
    reader: Reader,
    events: Vec<StreamEvent>,
    mode: Mode,
    held: Vec<Bytes>,
    held_bytes: usize,
    is_damaged: bool,
    has_begun: bool,
    received: ReceivedBytes,
}

/// What happens to the next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// No content yet: it waits.
    Before,
    /// It leaves.
    Open,
    /// A text has ended: it waits for the content of the next one, or for the end.
    Between,
    /// A call or the finish has begun: it waits for the end.
    Closing,
}

/// What a frame means for those that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Meaning {
    /// Nothing: an opening, a count, a keep-alive.
    Neutral,
    /// The end of a text, in an event of its own.
    TextEnd,
    /// Content that may be shown.
    Content,
    /// A part of a call, or a finish.
    Closing,
    /// Bytes may be lost.
    Damage,
}

/// A body that is over.
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) received: ReceivedBytes,
    /// The frames that waited. They may leave if the answer is whole.
    pub(crate) held: Vec<Bytes>,
    /// Bytes after the last whole frame that was read.
    pub(crate) rest: Bytes,
    /// Whether the body is a document and no stream.
    pub(crate) is_document: bool,
}

impl Gate {
    pub(crate) fn new(format: Format, reader: Reader) -> Self {
        Self {
            format,
            splitter: Splitter::default(),
            reader,
            events: Vec::new(),
            mode: Mode::Before,
            held: Vec::new(),
            held_bytes: 0,
            is_damaged: false,
            has_begun: false,
            received: ReceivedBytes::default(),
        }
    }

    /// Takes bytes of the body, and returns the frames that may leave now. `progressed` is called if the
    /// model made progress.
    pub(crate) fn push(&mut self, bytes: &[u8], mut progressed: impl FnMut()) -> Vec<Bytes> {
        let mut leaving = Vec::new();
        self.splitter.push(bytes);
        while !self.is_decided()
            && let Some(frame) = self.splitter.next_frame()
        {
            let rewrites = self.reader.rewrites();
            self.reader.push(&frame, &mut self.events);
            let mut meaning = self.meaning(&mut progressed);
            if self.reader.is_over() {
                meaning = meaning.max(Meaning::Closing);
            }
            if self.reader.ignores() {
                // It is of another completion. If it has several payloads, one of them may be of this one.
                self.is_damaged = frames::kind(&frame) != FrameKind::Payload;
                break;
            }
            if meaning < Meaning::Closing
                && self.mode != Mode::Closing
                && frames::has_call(self.format, &frame)
            {
                meaning = Meaning::Closing;
            }
            self.has_begun |= meaning != Meaning::Neutral;
            if meaning == Meaning::Neutral && frames::ends_block(self.format, &frame) {
                meaning = Meaning::TextEnd;
            }
            if meaning == Meaning::Damage {
                self.is_damaged = true;
                break;
            }
            let needs_repair = self.reader.rewrites() != rewrites;
            let frame = match frames::rewritten(self.format, &frame) {
                Some(written) if needs_repair => written,
                Some(_) | None => frame,
            };
            match (self.mode, meaning) {
                (_, Meaning::Closing | Meaning::Damage) => {
                    self.mode = Mode::Closing;
                    self.hold(frame);
                }
                (Mode::Before | Mode::Between, Meaning::Content) => {
                    self.mode = Mode::Open;
                    leaving.append(&mut self.held);
                    self.held_bytes = 0;
                    leaving.push(frame);
                }
                (Mode::Open, Meaning::TextEnd) => {
                    self.mode = Mode::Between;
                    self.hold(frame);
                }
                (Mode::Open, Meaning::Neutral | Meaning::Content) => leaving.push(frame),
                (Mode::Before | Mode::Between, Meaning::Neutral | Meaning::TextEnd)
                | (Mode::Closing, Meaning::Neutral | Meaning::Content | Meaning::TextEnd) => self.hold(frame),
            }
        }
        leaving
    }

    /// Whether there was content or a call, even if it waits.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether the answer is decided: it is over or damaged. Later bytes change nothing.
    pub(crate) fn is_decided(&self) -> bool {
        self.is_damaged || self.reader.is_over() || self.held_bytes + self.splitter.waiting() > MOST_HELD
    }

    /// Ends the body.
    pub(crate) fn end(mut self, transport: Transport) -> Ended {
        let rest = self.splitter.rest();
        let is_over = self.is_damaged || self.reader.is_over();
        if !is_over {
            self.reader.push(&rest, &mut self.events);
        }
        let is_document = self.reader.is_document();
        let mut outcome = self.reader.end(transport, &mut self.events);
        for event in &self.events {
            self.received.count(event);
        }
        if !is_over && !is_document {
            if outcome.ignored_from.is_some() {
                self.is_damaged = frames::kind(&rest) != FrameKind::Payload;
            } else {
                let rewritten = frames::rewritten(self.format, &rest);
                self.held.extend(rewritten.or_else(|| frames::completed(&rest)));
            }
        }
        if self.is_damaged && outcome.ended == StreamEnd::Complete {
            // The end of the answer is in a frame with the beginning of another one, so it cannot leave.
            outcome.ended = StreamEnd::Spliced;
        }
        Ended { outcome, received: self.received, held: self.held, rest, is_document }
    }

    fn hold(&mut self, frame: Bytes) {
        self.held_bytes += frame.len();
        self.held.push(frame);
    }

    /// What the events of one frame mean together.
    fn meaning(&mut self, progressed: &mut impl FnMut()) -> Meaning {
        let mut meaning = Meaning::Neutral;
        for event in self.events.drain(..) {
            self.received.count(&event);
            if event.is_progress() {
                progressed();
            }
            meaning = meaning.max(match event {
                StreamEvent::Opened { .. } | StreamEvent::Usage(_) | StreamEvent::KeepAlive => {
                    Meaning::Neutral
                }
                StreamEvent::Text { .. }
                | StreamEvent::Reasoning { .. }
                | StreamEvent::ReasoningData { .. }
                | StreamEvent::Refusal { .. }
                | StreamEvent::Unread { .. }
                | StreamEvent::Committed(
                    Item::Message { .. } | Item::Reasoning { .. } | Item::Other { .. },
                ) => Meaning::Content,
                StreamEvent::CallStarted { .. }
                | StreamEvent::CallArguments { .. }
                | StreamEvent::Committed(Item::Call(_))
                | StreamEvent::Finish(_)
                | StreamEvent::ProviderFailed(_) => Meaning::Closing,
                StreamEvent::Tainted { .. } => Meaning::Damage,
            });
        }
        meaning
    }
}

/// Passes what follows a whole answer: end markers and keep-alives, until anything else comes.
#[derive(Default)]
pub(crate) struct AfterTheEnd {
    splitter: Splitter,
    is_closed: bool,
}

impl AfterTheEnd {
    /// The frames in these bytes that may leave.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Bytes> {
        let mut leaving = Vec::new();
        self.splitter.push(bytes);
        while let Some(frame) = self.splitter.next_frame() {
            self.is_closed |= !matches!(frames::kind(&frame), FrameKind::Done | FrameKind::KeepAlive);
            if self.is_closed {
                break;
            }
            leaving.push(frame);
        }
        leaving
    }

    /// Whether nothing may leave any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }
}

#[cfg(test)]
mod tests {
    use super::Gate;
    use turnstream_fake_provider::{Asked, Completion, Identity, Part, Step, WireFormat, find_event, render};
    use turnstream_llm::{Format, Head, Profile, Reader, Transport};

    /// The events of a messages stream that leave before its end, and those that leave after it.
    fn passed(parts: Vec<Part>, until: &str) -> (String, String) {
        let step = Step::new(Completion::of(parts));
        let asked = Asked { model: "m".to_owned(), stream: true, ..Asked::default() };
        let place = find_event(WireFormat::Messages, &step, &asked, |event| event.contains(until)).unwrap();
        let identity = Identity { serial: 1, created: 1_794_771_700, asked };
        let body = render(WireFormat::Messages, &step, &identity).unwrap().body();
        let mut gate =
            Gate::new(Format::Messages, Reader::new(Format::Messages, &Profile::ANTHROPIC, Head::stream()));
        let text = |frames: Vec<bytes::Bytes>| String::from_utf8(frames.concat()).unwrap();
        let before = text(gate.push(&body[..place.end], || ()));
        (before, text(gate.end(Transport::Broken).held))
    }

    #[test]
    fn a_text_before_a_lost_call_has_no_end() {
        let call = Part::tool_call("bash", serde_json::json!({"command": "echo one; echo two"}));
        let (before, _) = passed(vec![Part::text("I run it."), call], "echo one");
        assert!(before.contains("I run it.") && !before.contains("content_block_stop"), "{before}");
    }

    #[test]
    fn texts_that_follow_each_other_leave_when_the_next_one_has_content() {
        let (before, held) = passed(vec![Part::text("One."), Part::text("Two.")], "Two.");
        assert!(before.contains("One.") && before.contains("Two."), "{before}");
        assert_eq!(before.matches("event: content_block_stop").count(), 1, "{before}");
        assert_eq!(held, "");
        let (before, held) = passed(vec![Part::text("One.")], "content_block_stop");
        assert!(
            !before.contains("content_block_stop") && held.contains("content_block_stop"),
            "{before}{held}"
        );
    }
}
