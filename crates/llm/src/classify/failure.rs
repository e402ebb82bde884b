//! A classified failure, and the evidence for its class.

use serde_json::{Map, Value};
use std::time::Duration;
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::time::Time;

/// The longest message, in bytes.
const MESSAGE: usize = 2048;
/// The largest number of secondary failures.
const SECONDARY: usize = 8;

/// A failure of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The error class.
    pub class: ErrorClass,
    /// The evidence for the class.
    pub source: Source,
    /// The provider's word that decided the class.
    pub word: Option<String>,
    /// A message for people.
    pub message: String,
    /// The HTTP status. A status inside the body wins over the response's own.
    pub status: Option<u16>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// How long the provider asks to wait.
    pub wait: Option<Duration>,
    /// No retry can help, whatever the class says: a person has to change something first.
    pub is_final: bool,
    /// Later failures that this one caused. They do not affect the class.
    pub secondary: Vec<Secondary>,
}

/// A failure that another failure caused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secondary {
    /// Its own error class.
    pub class: ErrorClass,
    /// A message for people.
    pub message: String,
    /// The class of the failure that caused it.
    pub caused_by: ErrorClass,
}

/// The evidence for an error class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The transport's chain of causes.
    Transport,
    /// A timeout of the client.
    Timeout(TimeoutKind),
    /// The HTTP status.
    Status,
    /// The type or code in the body.
    Body,
    /// An error event in the stream.
    Event,
    /// A rule of the provider's profile.
    Profile,
    /// The reader: damage, a second completion, a missing end, a finish.
    Stream,
    /// The client's own configuration or an internal error.
    Ours,
}

/// The kind of a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeoutKind {
    /// No connection.
    Connect,
    /// No response headers.
    Headers,
    /// Not one byte.
    Silence,
    /// Bytes, but no progress of the model.
    Progress,
    /// The whole attempt took too long.
    Lifetime,
}

// === impl Failure ===

impl Failure {
    /// A failure with this class, evidence and message. Long messages are cut.
    pub fn new(class: ErrorClass, source: Source, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        if message.len() > MESSAGE {
            let end = (0..=MESSAGE).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
            message.truncate(end);
            message.push('…');
        }
        Self {
            class,
            source,
            word: None,
            message,
            status: None,
            request_id: None,
            wait: None,
            is_final: false,
            secondary: Vec::new(),
        }
    }

    /// The failure of a timeout.
    pub fn timeout(kind: TimeoutKind, after: Duration) -> Self {
        let class = match kind {
            TimeoutKind::Connect => ErrorClass::Unreachable,
            TimeoutKind::Headers | TimeoutKind::Silence | TimeoutKind::Progress | TimeoutKind::Lifetime => {
                ErrorClass::Stalled
            }
        };
        let message = match kind {
            TimeoutKind::Connect => "no connection",
            TimeoutKind::Headers => "no answer",
            TimeoutKind::Silence => "not one byte",
            TimeoutKind::Progress => "nothing but keep-alives",
            TimeoutKind::Lifetime => "no end",
        };
        Self::new(class, Source::Timeout(kind), format!("{message} within {after:?}"))
    }

    /// Whether the provider itself reported the failure.
    pub fn is_of_the_provider(&self) -> bool {
        match self.source {
            Source::Status | Source::Body | Source::Event | Source::Profile => true,
            Source::Transport | Source::Timeout(_) | Source::Stream | Source::Ours => false,
        }
    }

    /// Adds a failure that this one caused.
    pub fn followed_by(&mut self, other: &Self) {
        let caused_by = self.class;
        let all = std::iter::once((other.class, &other.message))
            .chain(other.secondary.iter().map(|secondary| (secondary.class, &secondary.message)));
        for (class, message) in all {
            if self.secondary.len() < SECONDARY {
                self.secondary.push(Secondary { class, message: message.clone(), caused_by });
            }
        }
    }

    /// The failure as the error of a turn.
    pub fn error(&self, retry_at: Option<Time>) -> TurnError {
        let mut extra = Map::new();
        extra.insert("source".to_owned(), Value::from(self.source.as_str()));
        if let Source::Timeout(kind) = self.source {
            extra.insert("clock".to_owned(), Value::from(kind.as_str()));
        }
        if let Some(word) = &self.word {
            extra.insert("word".to_owned(), Value::from(word.as_str()));
        }
        TurnError {
            class: self.class,
            message: self.message.clone(),
            status: self.status,
            retry_at,
            request_id: self.request_id.clone(),
            extra,
        }
    }
}

// === impl Source and TimeoutKind ===

impl Source {
    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Timeout(_) => "clock",
            Self::Status => "status",
            Self::Body => "body",
            Self::Event => "event",
            Self::Profile => "profile",
            Self::Stream => "stream",
            Self::Ours => "turnstream",
        }
    }
}

impl TimeoutKind {
    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Headers => "headers",
            Self::Silence => "silence",
            Self::Progress => "progress",
            Self::Lifetime => "lifetime",
        }
    }
}
