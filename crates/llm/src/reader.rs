//! The reader of one response: bytes in, what was said out, and at the end the outcome.

use crate::attempt::{Ended, Outcome, Said, Transport};
use crate::body::{self, Kept, Looks};
use crate::decode::attempt::{Attempt, Over};
use crate::decode::chat::Chat;
use crate::decode::messages::Messages;
use crate::decode::responses::Responses;
use crate::decode::{drive, finish};
use crate::head::{Format, Head};
use crate::profile::Profile;
use turnstream_sse::Decoder;

/// Reads the body of one response, whatever reads it comes in.
///
/// Memory is bounded: one event by the limit of the event stream decoder, the content of an attempt by 32 MiB, a body that
/// is no stream by [`Body::LIMIT`](crate::Body::LIMIT).
#[derive(Debug)]
pub struct Reader {
    head: Head,
    bytes: u64,
    attempt: Attempt,
    input: Input,
    sse: Decoder,
    format: Machine,
}

/// What the body is taken for.
#[derive(Debug)]
enum Input {
    /// Too few bytes to tell.
    Undecided(Vec<u8>),
    Stream,
    Body(Kept),
}

/// The state machine of the format.
#[derive(Debug)]
enum Machine {
    Chat(Box<Chat>),
    Responses(Box<Responses>),
    Messages(Box<Messages>),
}

impl Reader {
    /// A reader at the beginning of a body.
    pub fn new(format: Format, profile: &Profile, head: Head) -> Self {
        let format = match format {
            Format::Chat => Machine::Chat(Box::default()),
            Format::Responses => Machine::Responses(Box::default()),
            Format::Messages => Machine::Messages(Box::default()),
        };
        // Before the first byte: a refusal often has none.
        let input =
            if head.is_success() { Input::Undecided(Vec::new()) } else { Input::Body(Kept::default()) };
        Self { head, bytes: 0, attempt: Attempt::new(profile.clone()), input, sse: Decoder::new(), format }
    }

    /// Takes the next bytes of the body, and adds what they say to `said`.
    pub fn push(&mut self, bytes: &[u8], said: &mut Vec<Said>) {
        self.bytes += bytes.len() as u64;
        std::mem::swap(&mut self.attempt.said, said);
        match &mut self.input {
            Input::Stream => self.decode(bytes),
            Input::Body(kept) => kept.push(bytes),
            Input::Undecided(first) => {
                first.extend_from_slice(bytes);
                let first = std::mem::take(first);
                self.decide(first);
            }
        }
        std::mem::swap(&mut self.attempt.said, said);
    }

    /// Whether the attempt is decided, so that reading on is of no use: the completion is over, the provider
    /// failed, or a second completion began.
    pub fn is_over(&self) -> bool {
        self.attempt.over().is_some()
    }

    /// Whether the body was recognised as something that is no stream, so that its beginning is enough.
    #[cfg(feature = "client")]
    pub(crate) fn is_document(&self) -> bool {
        matches!(self.input, Input::Body(_))
    }

    /// The body is over. Adds the last things it said to `said`.
    pub fn end(mut self, transport: Transport, said: &mut Vec<Said>) -> Outcome {
        std::mem::swap(&mut self.attempt.said, said);
        if let Input::Undecided(first) = &mut self.input {
            let first = std::mem::take(first);
            self.input = Input::Stream;
            self.decode(&first);
        }
        match &mut self.format {
            Machine::Chat(chat) => finish(&mut **chat, &mut self.sse, transport, &mut self.attempt),
            Machine::Responses(responses) => {
                finish(&mut **responses, &mut self.sse, transport, &mut self.attempt);
            }
            Machine::Messages(messages) => {
                finish(&mut **messages, &mut self.sse, transport, &mut self.attempt);
            }
        }
        let profile = self.attempt.profile.clone();
        let (mut outcome, last) = self.attempt.outcome(transport, self.bytes);
        *said = last;
        if let Input::Body(kept) = self.input {
            let mut body = kept.body(&profile);
            if let Some(error) = &mut body.error {
                // Body type wins over status, but where the object names none the response's is all there is.
                error.status = error.status.or((!self.head.is_success()).then_some(self.head.status));
            }
            outcome.ended = Ended::NotAStream(body);
        }
        outcome
    }

    fn decide(&mut self, first: Vec<u8>) {
        match body::looks(&first, &self.head) {
            Looks::Undecided => self.input = Input::Undecided(first),
            Looks::Stream => {
                self.input = Input::Stream;
                self.decode(&first);
            }
            Looks::Body => {
                let mut kept = Kept::default();
                kept.push(&first);
                self.input = Input::Body(kept);
            }
        }
    }

    fn decode(&mut self, bytes: &[u8]) {
        match self.attempt.over() {
            Some(Over::Failed | Over::Spliced) => return,
            // What follows is still looked at for the beginning of another completion.
            Some(Over::Done | Over::Lost) | None => {}
        }
        match &mut self.format {
            Machine::Chat(chat) => drive(&mut **chat, &mut self.sse, bytes, &mut self.attempt),
            Machine::Responses(responses) => {
                drive(&mut **responses, &mut self.sse, bytes, &mut self.attempt);
            }
            Machine::Messages(messages) => drive(&mut **messages, &mut self.sse, bytes, &mut self.attempt),
        }
    }
}
