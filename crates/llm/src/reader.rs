//! The reader of one response body.

use crate::attempt::{Outcome, ProfileRule, Repair, StreamEnd, StreamEvent, Transport};
use crate::body::{self, BodyGuess, BodyPrefix};
use crate::decode::attempt::{Attempt, Over};
use crate::decode::chat::Chat;
use crate::decode::messages::Messages;
use crate::decode::responses::Responses;
use crate::decode::{feed, finish};
use crate::document;
use crate::head::{Format, Head};
use crate::profile::{Profile, Word};
use turnstream_sse::Decoder;

/// Decodes the body of one response: bytes in, [`StreamEvent`]s out, and one [`Outcome`] at the end.
///
/// Call [`Reader::push`] for every chunk of the body, in any split, and [`Reader::end`] once. The crate's
/// documentation has an example.
///
/// Memory is bounded: one event by the limit of [`turnstream_sse::Decoder`], the content of an attempt by
/// 32 MiB, and a body that is not an event stream by [`Body::LIMIT`](crate::Body::LIMIT).
#[derive(Debug)]
pub struct Reader {
    head: Head,
    bytes: u64,
    attempt: Attempt,
    input: Input,
    sse: Decoder,
    format: FormatDecoder,
}

/// The payloads of an event that [`Reader::rewrites`] counts: complete ones that had run together, or one
/// with null in the place of `NaN`. `None` if the data needs no repair, or has lost bytes.
pub fn repaired_payloads(data: &str) -> Option<Vec<String>> {
    crate::decode::repaired(data)
}

/// The kind of body that is being read.
#[derive(Debug)]
enum Input {
    /// The first bytes, too few to tell.
    Undecided(Vec<u8>),
    Stream,
    Body(BodyPrefix),
}

/// The state machine of the wire format.
#[derive(Debug)]
enum FormatDecoder {
    Chat(Box<Chat>),
    Responses(Box<Responses>),
    Messages(Box<Messages>),
}

impl FormatDecoder {
    fn format(&self) -> Format {
        match self {
            Self::Chat(_) => Format::Chat,
            Self::Responses(_) => Format::Responses,
            Self::Messages(_) => Format::Messages,
        }
    }
}

impl Reader {
    /// Creates a reader for one body.
    ///
    /// `head` is the response's status and content type. A body with a status other than 2xx is never read as
    /// a completion.
    pub fn new(format: Format, profile: &Profile, head: Head) -> Self {
        let format = match format {
            Format::Chat => FormatDecoder::Chat(Box::default()),
            Format::Responses => FormatDecoder::Responses(Box::default()),
            Format::Messages => FormatDecoder::Messages(Box::default()),
        };
        // Decided before the first byte: an error response often has no body.
        let input =
            if head.is_success() { Input::Undecided(Vec::new()) } else { Input::Body(BodyPrefix::default()) };
        Self { head, bytes: 0, attempt: Attempt::new(profile.clone()), input, sse: Decoder::new(), format }
    }

    /// Decodes the next bytes of the body and appends their events to `events`.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) {
        self.bytes += bytes.len() as u64;
        std::mem::swap(&mut self.attempt.out, events);
        match &mut self.input {
            Input::Stream => self.decode(bytes),
            Input::Body(prefix) => prefix.push(bytes),
            Input::Undecided(first) => {
                first.extend_from_slice(bytes);
                let first = std::mem::take(first);
                self.decide(first);
            }
        }
        std::mem::swap(&mut self.attempt.out, events);
    }

    /// Whether the attempt is decided, so that reading on is of no use.
    ///
    /// True once the completion is over, the provider reported a failure, or a second completion began.
    pub fn is_over(&self) -> bool {
        self.attempt.over().is_some()
    }

    /// Whether an event was seen that does not belong to the completion: of another one, or after its end.
    pub fn ignores(&self) -> bool {
        self.attempt.ignores()
    }

    /// Repairs of events that a plain reader could not read: several payloads in one, or `NaN`.
    pub fn rewrites(&self) -> u32 {
        let repairs = &self.attempt.repairs;
        repairs.of(Repair::MissingBlankLine).saturating_add(repairs.of(Repair::NotANumber))
    }

    /// Whether the body is not an event stream, so that its first bytes are enough.
    pub fn is_document(&self) -> bool {
        matches!(self.input, Input::Body(_))
    }

    /// Ends the body, appends the last events to `events`, and returns the outcome.
    ///
    /// `transport` says how the connection ended. A chat stream without `[DONE]` can only be complete if it
    /// ended in order ([`Transport::Clean`]).
    pub fn end(mut self, transport: Transport, events: &mut Vec<StreamEvent>) -> Outcome {
        std::mem::swap(&mut self.attempt.out, events);
        if let Input::Undecided(first) = &mut self.input {
            let first = std::mem::take(first);
            self.input = Input::Stream;
            self.decode(&first);
        }
        if let Input::Body(prefix) = &self.input
            && self.head.is_success()
            && let Some(stream) = document::as_stream(self.format.format(), prefix.bytes())
        {
            self.input = Input::Stream;
            self.decode(stream.as_bytes());
        }
        match &mut self.format {
            FormatDecoder::Chat(chat) => finish(&mut **chat, &mut self.sse, transport, &mut self.attempt),
            FormatDecoder::Responses(responses) => {
                finish(&mut **responses, &mut self.sse, transport, &mut self.attempt);
            }
            FormatDecoder::Messages(messages) => {
                finish(&mut **messages, &mut self.sse, transport, &mut self.attempt);
            }
        }
        let profile = self.attempt.profile.clone();
        let (mut outcome, last) = self.attempt.outcome(transport, self.bytes);
        *events = last;
        if let Input::Body(prefix) = self.input {
            let mut body = prefix.into_body(&profile);
            if let Some(error) = &mut body.error {
                // A status inside the error object wins over the response's own.
                error.status = error.status.or((!self.head.is_success()).then_some(self.head.status));
                // The only place where a message decides, and only for this provider.
                let is_phrase = |phrase: &Word| error.message.contains(&**phrase);
                if (400..500).contains(&self.head.status) && profile.overflows.iter().any(is_phrase) {
                    error.profile = Some(ProfileRule::Overflow);
                }
            }
            outcome.ended = StreamEnd::NotAStream(body);
        }
        outcome
    }

    fn decide(&mut self, first: Vec<u8>) {
        match body::guess(&first, &self.head) {
            BodyGuess::Undecided => self.input = Input::Undecided(first),
            BodyGuess::Stream => {
                self.input = Input::Stream;
                self.decode(&first);
            }
            BodyGuess::Body => {
                let mut prefix = BodyPrefix::default();
                prefix.push(&first);
                self.input = Input::Body(prefix);
            }
        }
    }

    fn decode(&mut self, bytes: &[u8]) {
        match self.attempt.over() {
            Some(Over::Failed | Over::Spliced) => return,
            // The rest is still searched for the beginning of a second completion.
            Some(Over::Done | Over::Lost) | None => {}
        }
        match &mut self.format {
            FormatDecoder::Chat(chat) => feed(&mut **chat, &mut self.sse, bytes, &mut self.attempt),
            FormatDecoder::Responses(responses) => {
                feed(&mut **responses, &mut self.sse, bytes, &mut self.attempt);
            }
            FormatDecoder::Messages(messages) => {
                feed(&mut **messages, &mut self.sse, bytes, &mut self.attempt);
            }
        }
    }
}
