//! What can be asked of the proxy: which fault, on which connection or request, how often.

use super::events::SseEvent;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// One fault with where it applies. It fires once unless told otherwise.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) which: Which,
    pub(super) fault: Fault,
    pub(super) times: u64,
}

/// Names a rule that was added, to ask whether it fired or to remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub(super) u64);

/// Where a rule applies.
#[derive(Clone)]
pub enum Which {
    /// Everywhere.
    Every,
    /// To one connection, counted from 1.
    Connection(u64),
    /// To requests that satisfy this. Faults of the connection itself come before any request and never match.
    Request(Arc<dyn Fn(&RequestHead) -> bool + Send + Sync>),
}

/// What a predicate on requests sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// Counted from 1 over all connections of the proxy.
    pub number: u64,
    /// As sent.
    pub method: String,
    /// As sent, with the query.
    pub target: String,
    /// Names in lower case, in order.
    pub headers: Vec<(String, String)>,
}

/// What goes wrong.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The connection is accepted and ended at once, before the upstream is reached.
    Refuse(Ending),
    /// The upstream is reached so much later.
    DelayConnect(Duration),
    /// Something happens at one point of a response.
    At(Point, Action),
    /// The first event that matches is changed; again as often as the rule fires.
    Event(EventMatch, Edit),
    /// The whole response is written in another rhythm.
    Pace(Pace),
}

/// A point of one response. On plain TCP everything from the upstream is one response and all of it is body.
#[derive(Clone, Debug)]
pub enum Point {
    /// After so many bytes on the wire, head included; 0 is before the first.
    Byte(u64),
    /// After so many bytes of the body as the client sees them, without chunk framing.
    BodyByte(u64),
    /// After the first occurrence in the body, at most 4 KiB long.
    Pattern(Vec<u8>),
    /// Before the first event that matches.
    BeforeEvent(EventMatch),
    /// After the first event that matches.
    AfterEvent(EventMatch),
}

/// What happens at a [`Point`].
#[derive(Clone, Debug)]
pub enum Action {
    /// The connection ends; nothing after the point is sent.
    Cut(Ending),
    /// Nothing more is sent until the proxy releases its stalls or shuts down; the connection stays open.
    Stall,
    /// A pause, once.
    Delay(Duration),
    /// These bytes are put in. At [`Point::Byte`] they go into the wire as they are, framing or not.
    Splice(Vec<u8>, Rest),
}

/// What becomes of the rest of a response after a splice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It follows.
    Keep,
    /// It is left out; the response then ends as it should.
    Discard,
}

/// How a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// In order, as after a complete answer.
    Fin,
    /// By reset.
    Rst,
}

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// It is left out.
    Drop,
    /// It comes twice.
    Duplicate,
    /// It comes after so many of the events that follow it; 1 swaps it with the next. At the end of the
    /// response it comes anyway.
    Later(usize),
}

/// How a response is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// A pause before each piece that arrives from the upstream.
    EachChunk(Duration),
    /// In writes of at most `size` bytes, with a pause between them.
    Split {
        /// Bytes per write, at least 1.
        size: usize,
        /// May be zero; the client's system may then join the writes again.
        pause: Duration,
    },
    /// What arrives within so long is written at once.
    Coalesce(Duration),
}

/// A predicate on events.
#[derive(Clone)]
pub struct EventMatch(Arc<dyn Fn(&SseEvent<'_>) -> bool + Send + Sync>);

// === impl Rule ===

impl Rule {
    /// A fault everywhere, once.
    pub fn new(fault: Fault) -> Self {
        Self { which: Which::Every, fault, times: 1 }
    }

    /// Only on this connection, counted from 1.
    pub fn on_connection(mut self, number: u64) -> Self {
        self.which = Which::Connection(number);
        self
    }

    /// Only on requests that satisfy this.
    pub fn on_request(mut self, predicate: impl Fn(&RequestHead) -> bool + Send + Sync + 'static) -> Self {
        self.which = Which::Request(Arc::new(predicate));
        self
    }

    /// At most so many times. Faults at a point and of pace fire at most once per response.
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Without limit.
    pub fn always(self) -> Self {
        self.times(u64::MAX)
    }
}

impl Which {
    pub(super) fn matches(&self, connection: u64, request: Option<&RequestHead>) -> bool {
        match self {
            Self::Every => true,
            Self::Connection(number) => *number == connection,
            Self::Request(predicate) => request.is_some_and(|request| predicate(request)),
        }
    }
}

impl fmt::Debug for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every => write!(f, "Every"),
            Self::Connection(number) => write!(f, "Connection({number})"),
            Self::Request(_) => write!(f, "Request(..)"),
        }
    }
}

// === impl RequestHead ===

impl RequestHead {
    /// The first header of that name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

// === impl EventMatch ===

impl EventMatch {
    /// Events that satisfy this.
    pub fn new(predicate: impl Fn(&SseEvent<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(predicate))
    }

    /// Events with this name.
    pub fn named(name: &str) -> Self {
        let name = name.to_owned();
        Self::new(move |event| event.name() == name)
    }

    /// Events whose data contains this.
    pub fn containing(text: &str) -> Self {
        let text = text.to_owned();
        Self::new(move |event| event.data().contains(&text))
    }

    /// The event with this number in its response, counted from 1.
    pub fn nth(number: u64) -> Self {
        Self::new(move |event| event.number == number)
    }

    pub(super) fn matches(&self, event: &SseEvent<'_>) -> bool {
        (self.0)(event)
    }
}

impl fmt::Debug for EventMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventMatch(..)")
    }
}
