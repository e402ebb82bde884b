//! Wire formats, and the head of a response.

/// A wire format of a model provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// OpenAI chat completions and compatible APIs. Nothing is sent twice: a lost delta is gone.
    Chat,
    /// OpenAI responses. Events are numbered, and every item is sent complete once more when it is done.
    Responses,
    /// Anthropic messages. A strict grammar of blocks; events are not numbered and nothing is sent twice.
    Messages,
}

/// The status and content type of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The HTTP status. A body under a status other than 2xx is never read as a completion.
    pub status: u16,
    /// The `content-type` header as received.
    pub content_type: Option<String>,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Messages];

    /// The name used in tables, logs and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }
}

impl Head {
    /// The head of a correct event stream: status 200 and `text/event-stream`.
    pub fn stream() -> Self {
        Self { status: 200, content_type: Some("text/event-stream".to_owned()) }
    }

    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether the content type is `text/event-stream`.
    pub fn says_stream(&self) -> bool {
        let kind = self.content_type.as_deref().unwrap_or_default();
        kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
    }
}
