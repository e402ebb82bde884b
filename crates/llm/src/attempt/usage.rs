//! Token counts and the reason for the end, as far as the provider said.

/// Token counts. What was not said is unknown, which is not 0: a budget then needs an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Input tokens, cached ones included.
    pub input: Option<u64>,
    /// Of those, read from the cache.
    pub cached: Option<u64>,
    /// Of those, written to the cache.
    pub cache_written: Option<u64>,
    /// Output tokens, reasoning included.
    pub output: Option<u64>,
    /// Of those, reasoning.
    pub reasoning: Option<u64>,
}

/// Why the model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    /// The provider's word.
    pub raw: String,
    /// What we take it for.
    pub meaning: Meaning,
}

/// What a finish means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// The model was done.
    Stop,
    /// It wants tools run.
    ToolCalls,
    /// It ran out of output tokens or context.
    Length,
    /// A filter stopped it, or it refused.
    ContentFilter,
    /// The provider wants to be asked again to go on (`pause_turn`).
    Paused,
    /// The provider failed (`error`).
    Failed,
    /// A word we do not know. Never a reason to act.
    Unknown,
}

impl Usage {
    /// Whether nothing was said.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Takes over what `later` says and keeps what it does not say.
    pub fn update(&mut self, later: Self) {
        self.input = later.input.or(self.input);
        self.cached = later.cached.or(self.cached);
        self.cache_written = later.cache_written.or(self.cache_written);
        self.output = later.output.or(self.output);
        self.reasoning = later.reasoning.or(self.reasoning);
    }
}

impl Meaning {
    /// Whether calls of a step that ended so may run.
    pub fn lets_calls_run(self) -> bool {
        match self {
            Self::Stop | Self::ToolCalls => true,
            Self::Length | Self::ContentFilter | Self::Paused | Self::Failed | Self::Unknown => false,
        }
    }
}
