//! Token counts and finish reasons, as far as the provider reports them.

/// Token counts. `None` means unknown, which is not 0: a budget then needs an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Input tokens, cached ones included.
    pub input: Option<u64>,
    /// Input tokens that were read from the cache.
    pub cached: Option<u64>,
    /// Input tokens that were written to the cache.
    pub cache_written: Option<u64>,
    /// Output tokens, reasoning included.
    pub output: Option<u64>,
    /// Output tokens of reasoning.
    pub reasoning: Option<u64>,
}

/// Why the model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    /// The provider's word.
    pub raw: String,
    /// Its meaning.
    pub meaning: FinishMeaning,
}

/// The meaning of a finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinishMeaning {
    /// The model was done.
    Stop,
    /// The model asks for tool calls.
    ToolCalls,
    /// The model ran out of output tokens or context.
    Length,
    /// A content filter stopped the answer, or the model refused.
    ContentFilter,
    /// The provider wants another request to continue (`pause_turn`).
    Paused,
    /// The provider failed (`error`).
    Failed,
    /// An unknown word. No call runs under it.
    Unknown,
}

impl Usage {
    /// Whether all counts are unknown.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Overwrites the counts that `later` has, and keeps the others.
    pub fn update(&mut self, later: Self) {
        self.input = later.input.or(self.input);
        self.cached = later.cached.or(self.cached);
        self.cache_written = later.cache_written.or(self.cache_written);
        self.output = later.output.or(self.output);
        self.reasoning = later.reasoning.or(self.reasoning);
    }
}

impl FinishMeaning {
    /// Whether the calls of a step with this finish may run.
    pub fn lets_calls_run(self) -> bool {
        match self {
            Self::Stop | Self::ToolCalls => true,
            Self::Length | Self::ContentFilter | Self::Paused | Self::Failed | Self::Unknown => false,
        }
    }
}
