//! Rules of the fault proxy: which fault, on which connection or request, how often.

use super::events::SseEvent;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// One fault, and where it applies. It fires once by default.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) which: Which,
    pub(super) fault: Fault,
    pub(super) times: u64,
}

/// The id of a rule, to check whether it fired or to remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub(super) u64);

/// Where a rule applies.
#[derive(Clone)]
pub enum Which {
    /// Everywhere.
    Every,
    /// To one connection, counted from 1.
    Connection(u64),
    /// To requests that match. Faults of the connection itself happen before any request and never match.
    Request(Arc<dyn Fn(&RequestHead) -> bool + Send + Sync>),
}

/// A request, for predicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// Its number over all connections of the proxy, from 1.
    pub number: u64,
    /// The method.
    pub method: String,
    /// The target, with the query.
    pub target: String,
    /// The headers in order, with names in lower case.
    pub headers: Vec<(String, String)>,
}

/// A fault.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The connection is accepted and ended at once, before the upstream is reached.
    Refuse(Ending),
    /// The connection to the upstream is delayed.
    DelayConnect(Duration),
    /// Something happens at one point of a response.
    At(Point, Action),
    /// A matching event is changed, once per firing of the rule.
    Event(EventMatch, Edit),
    /// The whole response is written in another rhythm.
    Pace(Pace),
}

/// A point of one response. On plain TCP everything from the upstream is the body of one response.
#[derive(Clone, Debug)]
pub enum Point {
    /// After this many bytes on the wire, head included; 0 is before the first byte.
    Byte(u64),
    /// After this many bytes of the body, without chunk framing.
    BodyByte(u64),
    /// After the first occurrence of these bytes in the body. At most 4 KiB.
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
    /// Nothing more is sent until the proxy releases its stalls or shuts down. The connection stays open.
    Stall,
    /// A pause, once.
    Delay(Duration),
    /// These bytes are inserted. At [`Point::Byte`] they go to the wire unframed.
    Splice(Vec<u8>, Rest),
}

/// What happens to the rest of a response after a splice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It is sent.
    Keep,
    /// It is left out, and the response ends in order.
    Discard,
}

/// How a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// In order, as after a complete response.
    Fin,
    /// With a reset.
    Rst,
}

/// What happens to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// It is left out.
    Drop,
    /// It is sent twice.
    Duplicate,
    /// It is sent after this many later events, or at the end of the response. 1 swaps it with the next
    /// event.
    Later(usize),
}

/// How a response is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// A pause before each read from the upstream.
    EachChunk(Duration),
    /// In writes of at most `size` bytes, with a pause between them.
    Split {
        /// Bytes per write, at least 1.
        size: usize,
        /// The pause. With zero, the client's system may join the writes.
        pause: Duration,
    },
    /// Everything that arrives within this time is written at once.
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

    /// Only on matching requests.
    pub fn on_request(mut self, predicate: impl Fn(&RequestHead) -> bool + Send + Sync + 'static) -> Self {
        self.which = Which::Request(Arc::new(predicate));
        self
    }

    /// At most this many times. Faults at a point and of pace fire at most once per response.
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
    /// The first header with this lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

// === impl EventMatch ===

impl EventMatch {
    /// Events that match a predicate.
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
