//! A step as the bytes of its response. Pure: sockets only play what comes out of here.

mod body;
mod chat;
mod faults;
mod messages;
mod responses;

use crate::fault::{CutBy, Stall};
use crate::reply::{Completion, Refusal, Reply, RetryAfter};
use crate::script::{Framing, Step};
use crate::wire::{Asked, WireFormat};
use std::borrow::Cow;
use std::time::{Duration, SystemTime};
use thiserror::Error;

pub(crate) use body::error_body;

/// What ties an answer to its request: everything that is neither in the script nor the same for every
/// request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The number of the request. All ids are made from it; another number gives other ids.
    pub serial: u64,
    /// Seconds since 1970.
    pub created: u64,
    /// What the request asked for.
    pub asked: Asked,
}

/// A response, ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Headers, without those that framing needs.
    pub headers: Vec<(Cow<'static, str>, String)>,
    /// Milliseconds before the head is written.
    pub before_headers_ms: u64,
    /// How the end of the body is told.
    pub framing: Framing,
    /// The body. Without faults every SSE event is one chunk.
    pub chunks: Vec<Chunk>,
    /// What follows the last chunk.
    pub end: End,
    /// Body bytes that a cut took away. A content-length still announces them.
    pub lost: usize,
}

/// A piece of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// Bytes in one write.
    Write {
        /// Milliseconds before it.
        wait_ms: u64,
        /// Where they come from.
        origin: Origin,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Nothing for a while.
    Stall(Stall),
}

/// Where the bytes of a write come from. Faults count events by this, however an event was split before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// An event of the completion from its start, by its number there. A body that is not streamed is event
    /// 0.
    Event(usize),
    /// The rest of the event that the write before begins.
    Rest,
    /// Put in by a fault.
    Fault,
}

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As its framing says.
    Complete,
    /// Before that.
    Cut(CutBy),
}

/// A step that cannot be played as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RenderError {
    /// A fault that would silently never happen.
    #[error("fault {fault} is at event {event}, and there are only {events} events before it applies")]
    NoSuchEvent {
        /// The fault's place in the step.
        fault: usize,
        /// The event it names.
        event: usize,
        /// How many there are.
        events: usize,
    },
    /// A fault that would silently never happen.
    #[error("fault {fault} is after byte {byte}, and the body has only {bytes} bytes before it applies")]
    NoSuchByte {
        /// The fault's place in the step.
        fault: usize,
        /// The byte it names.
        byte: usize,
        /// How many there are.
        bytes: usize,
    },
    /// Nothing a fault could do without contradicting the rest of the step.
    #[error("fault {fault}: {why}")]
    Contradiction {
        /// The fault's place in the step.
        fault: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// HTTP dates have four digits for the year.
    #[error("retry after {seconds} s is a date after the year 9999, which HTTP cannot write")]
    NoSuchDate {
        /// Seconds after the request.
        seconds: u64,
    },
    /// A wait that would outlast every test.
    #[error("{what} of {ms} ms is longer than {LONGEST_WAIT_MS} ms, the longest wait")]
    TooLong {
        /// What waits.
        what: &'static str,
        /// For how long.
        ms: u64,
    },
}

/// Milliseconds that any one wait of an answer lasts at most.
pub(crate) const LONGEST_WAIT_MS: u64 = 600_000;
/// The first second of the year 10000.
const END_OF_HTTP_DATES: u64 = 253_402_300_800;

/// An SSE event, or the one body of an answer that is not streamed.
struct Event {
    bytes: Vec<u8>,
    pace: Pace,
}

/// Whether the script's delay between deltas applies.
#[derive(Clone, Copy)]
enum Pace {
    Delta,
    AtOnce,
}

/// Renders a step as the answer to one request.
pub fn render(format: WireFormat, step: &Step, identity: &Identity) -> Result<Answer, RenderError> {
    check_wait("before_headers_ms", step.delivery.before_headers_ms)?;
    check_wait("before_delta_ms", step.delivery.before_delta_ms)?;
    let mut answer = match &step.reply {
        Reply::Completion(completion) => completed(format, completion, step, identity),
        Reply::Refusal(refusal) => refused(format, refusal, identity)?,
        Reply::Raw(raw) => {
            Answer::new(raw.status, &raw.content_type, vec![Chunk::at_once(raw.body.as_slice().to_vec())])
        }
    };
    answer.headers.push((request_id_header(format).into(), identity.id("req_", 0)));
    answer.before_headers_ms = step.delivery.before_headers_ms;
    answer.framing = step.delivery.framing;
    for (number, fault) in step.faults.iter().enumerate() {
        faults::apply(&mut answer, number, fault, &faults::Context { format, step, identity })?;
    }
    Ok(answer)
}

/// An event of a rendered stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventPlace {
    /// Its number, from 0.
    pub number: usize,
    /// Its first byte in the body.
    pub begin: usize,
    /// The byte of the body after it.
    pub end: usize,
}

/// The first event of a stream that is wanted, for faults at an event. All answers to such requests have it
/// at the same place, because ids have one length.
pub fn find_event(
    format: WireFormat,
    step: &Step,
    asked: &Asked,
    is_wanted: impl Fn(&str) -> bool,
) -> Option<EventPlace> {
    let identity = Identity { serial: 0, created: 1_700_000_000, asked: asked.clone() };
    let answer = render(format, step, &identity).ok()?;
    let mut begin = 0;
    for (number, bytes) in answer.chunks.iter().filter_map(Chunk::bytes).enumerate() {
        let end = begin + bytes.len();
        if is_wanted(&String::from_utf8_lossy(bytes)) {
            return Some(EventPlace { number, begin, end });
        }
        begin = end;
    }
    None
}

fn check_wait(what: &'static str, ms: u64) -> Result<(), RenderError> {
    if ms > LONGEST_WAIT_MS { Err(RenderError::TooLong { what, ms }) } else { Ok(()) }
}

fn completed(format: WireFormat, completion: &Completion, step: &Step, identity: &Identity) -> Answer {
    let content_type = if identity.asked.stream { "text/event-stream" } else { "application/json" };
    let chunks = completion_chunks(format, completion, step, identity);
    let mut answer = Answer::new(200, content_type, chunks);
    answer.headers.push(("cache-control".into(), "no-cache".to_owned()));
    answer
}

fn completion_chunks(
    format: WireFormat,
    completion: &Completion,
    step: &Step,
    identity: &Identity,
) -> Vec<Chunk> {
    let events = match (format, identity.asked.stream) {
        (WireFormat::Chat, true) => chat::stream(completion, identity),
        (WireFormat::Responses, true) => responses::stream(completion, identity),
        (WireFormat::Messages, true) => messages::stream(completion, identity),
        (WireFormat::Chat, false) => vec![Event::whole(&chat::whole(completion, identity))],
        (WireFormat::Responses, false) => vec![Event::whole(&responses::whole(completion, identity))],
        (WireFormat::Messages, false) => vec![Event::whole(&messages::whole(completion, identity))],
    };
    let wait = |pace| match pace {
        Pace::Delta => step.delivery.before_delta_ms,
        Pace::AtOnce => 0,
    };
    let numbered = events.into_iter().enumerate();
    numbered.map(|(number, event)| Chunk::event(wait(event.pace), number, event.bytes)).collect()
}

fn refused(format: WireFormat, refusal: &Refusal, identity: &Identity) -> Result<Answer, RenderError> {
    let body = error_body(format, &refusal.error, &identity.id("req_", 0)).to_string();
    let mut answer = Answer::new(refusal.status, "application/json", vec![Chunk::at_once(body.into_bytes())]);
    if let Some(when) = refusal.retry_after {
        let (name, value) = retry_after(when, identity)?;
        answer.headers.push((name.into(), value));
    }
    let more = refusal.headers.iter().map(|(name, value)| (name.clone().into(), value.clone()));
    answer.headers.extend(more);
    Ok(answer)
}

fn retry_after(when: RetryAfter, identity: &Identity) -> Result<(&'static str, String), RenderError> {
    Ok(match when {
        RetryAfter::Seconds(seconds) => ("retry-after", seconds.to_string()),
        RetryAfter::Date(seconds) => {
            let date = identity.created.checked_add(seconds).filter(|date| *date < END_OF_HTTP_DATES);
            let date = date.ok_or(RenderError::NoSuchDate { seconds })?;
            let date = SystemTime::UNIX_EPOCH + Duration::from_secs(date);
            ("retry-after", httpdate::fmt_http_date(date))
        }
        RetryAfter::Millis(millis) => ("retry-after-ms", millis.to_string()),
    })
}

fn request_id_header(format: WireFormat) -> &'static str {
    match format {
        WireFormat::Chat | WireFormat::Responses => "x-request-id",
        WireFormat::Messages => "request-id",
    }
}

// === impl Identity ===

impl Identity {
    /// An id: a prefix and 24 letters and digits. The same `part` of the same request has the same id. Ids
    /// differ from the first character on, as real ones do, so that a splice in the middle of an id shows.
    pub fn id(&self, prefix: &str, part: u64) -> String {
        const ALPHABET: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let mut state = self.serial.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(part);
        let mut id = prefix.to_owned();
        for _ in 0..24 {
            state = mixed(state.wrapping_add(0x9E37_79B9_7F4A_7C15));
            id.push(char::from(ALPHABET[(state % 62) as usize]));
        }
        id
    }

    /// The identity of the same request sent again 71 seconds later, the smallest distance in published
    /// samples of spliced streams.
    fn replayed(&self) -> Self {
        Self { serial: !self.serial, created: self.created.saturating_add(71), asked: self.asked.clone() }
    }
}

/// The finaliser of splitmix64.
fn mixed(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

// === impl Answer ===

impl Answer {
    /// An answer without faults, delivered at once in HTTP chunks.
    pub(crate) fn new(status: u16, content_type: &str, chunks: Vec<Chunk>) -> Self {
        Self {
            status,
            headers: vec![("content-type".into(), content_type.to_owned())],
            before_headers_ms: 0,
            framing: Framing::Chunked,
            chunks,
            end: End::Complete,
            lost: 0,
        }
    }

    /// The bytes of the body that are written, comments of stalls not among them.
    pub fn body(&self) -> Vec<u8> {
        let writes = self.chunks.iter().filter_map(Chunk::bytes);
        writes.flat_map(|bytes| bytes.iter().copied()).collect()
    }
}

// === impl Chunk ===

impl Chunk {
    /// The only bytes of a body, without a wait.
    pub(crate) fn at_once(bytes: Vec<u8>) -> Self {
        Self::event(0, 0, bytes)
    }

    fn event(wait_ms: u64, number: usize, bytes: Vec<u8>) -> Self {
        Self::Write { wait_ms, origin: Origin::Event(number), bytes }
    }

    /// What it writes, if it does.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Write { bytes, .. } => Some(bytes),
            Self::Stall(_) => None,
        }
    }
}

// === impl Event ===

impl Event {
    fn whole(body: &impl serde::Serialize) -> Self {
        Self { bytes: body::json(body).into_bytes(), pace: Pace::AtOnce }
    }

    fn data(pace: Pace, data: &str) -> Self {
        Self { bytes: format!("data: {data}\n\n").into_bytes(), pace }
    }

    fn named(pace: Pace, name: &str, data: &str) -> Self {
        Self { bytes: format!("event: {name}\ndata: {data}\n\n").into_bytes(), pace }
    }
}
