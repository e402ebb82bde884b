//! What is known of a response before its first body byte.

/// A way of asking a model, and so of answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// OpenAI chat completions and the many that copy it. Nothing is repeated: a lost delta is gone.
    Chat,
    /// OpenAI responses. Events are numbered and every item comes whole once more when it is done.
    Responses,
    /// Anthropic messages. A strict grammar of blocks, without numbers or repetition.
    Messages,
}

/// Status and content type of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The HTTP status. What is not 2xx is never read as a completion.
    pub status: u16,
    /// The `content-type` header as it came.
    pub content_type: Option<String>,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Messages];

    /// A short name for tables and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }
}

impl Head {
    /// The head of a stream as it should be.
    pub fn stream() -> Self {
        Self { status: 200, content_type: Some("text/event-stream".to_owned()) }
    }

    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether the content type says that this is an event stream.
    pub fn says_stream(&self) -> bool {
        let kind = self.content_type.as_deref().unwrap_or_default();
        kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
    }
}
