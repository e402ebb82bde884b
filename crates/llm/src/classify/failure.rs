//! A classified failure, with what decided it.

use serde_json::{Map, Value};
use std::time::Duration;
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::time::Time;

/// What is kept of a message for people.
const MESSAGE: usize = 2048;
/// What followed from a failure is kept up to so many.
const SECONDARY: usize = 8;

/// A failure of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind.
    pub class: ErrorClass,
    /// What decided that.
    pub source: Source,
    /// The word of the provider that decided it.
    pub word: Option<String>,
    /// For a person.
    pub message: String,
    /// The HTTP status; that inside the body where it has one.
    pub status: Option<u16>,
    /// The provider's name of the request.
    pub request_id: Option<String>,
    /// How long the provider asks to wait.
    pub wait: Option<Duration>,
    /// Asking again is of no use, whatever its class: a person has to change something first.
    pub is_final: bool,
    /// What went wrong after it and because of it. It has no say.
    pub secondary: Vec<Secondary>,
}

/// Something that went wrong because of something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secondary {
    /// What kind it would have been.
    pub class: ErrorClass,
    /// For a person.
    pub message: String,
    /// The class of what caused it.
    pub caused_by: ErrorClass,
}

/// What a verdict rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The transport's chain of causes.
    Transport,
    /// One of our clocks.
    Clock(Clock),
    /// The HTTP status.
    Status,
    /// The type or code in the body.
    Body,
    /// An error event in the stream.
    Event,
    /// A rule of the provider's profile.
    Profile,
    /// The decoder: damage, a second completion, a missing end, a finish.
    Stream,
    /// Ourselves.
    Ours,
}

/// Which clock ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clock {
    /// No connection in time.
    Connect,
    /// No head of the answer in time.
    Headers,
    /// Not one byte for too long.
    Silence,
    /// Bytes, but nothing that says anything, for too long.
    Progress,
    /// All of it took too long.
    Lifetime,
}

// === impl Failure ===

impl Failure {
    /// A failure of which no more is known.
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

    /// That a clock ran out.
    pub fn clock(clock: Clock, after: Duration) -> Self {
        let class = match clock {
            Clock::Connect => ErrorClass::Unreachable,
            Clock::Headers | Clock::Silence | Clock::Progress | Clock::Lifetime => ErrorClass::Stalled,
        };
        let message = match clock {
            Clock::Connect => "no connection",
            Clock::Headers => "no answer",
            Clock::Silence => "not one byte",
            Clock::Progress => "nothing but keep-alives",
            Clock::Lifetime => "no end",
        };
        Self::new(class, Source::Clock(clock), format!("{message} within {after:?}"))
    }

    /// The provider itself said it.
    pub fn is_of_the_provider(&self) -> bool {
        match self.source {
            Source::Status | Source::Body | Source::Event | Source::Profile => true,
            Source::Transport | Source::Clock(_) | Source::Stream | Source::Ours => false,
        }
    }

    /// Notes what went wrong because of this one.
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

    /// As an event tells it.
    pub fn error(&self, retry_at: Option<Time>) -> TurnError {
        let mut extra = Map::new();
        extra.insert("source".to_owned(), Value::from(self.source.as_str()));
        if let Source::Clock(clock) = self.source {
            extra.insert("clock".to_owned(), Value::from(clock.as_str()));
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

// === impl Source and Clock ===

impl Source {
    /// One word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Clock(_) => "clock",
            Self::Status => "status",
            Self::Body => "body",
            Self::Event => "event",
            Self::Profile => "profile",
            Self::Stream => "stream",
            Self::Ours => "turnstream",
        }
    }
}

impl Clock {
    /// One word for it.
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
