//! The built-in profiles: what recordings of these providers show.

use super::{
    CallIndex, ChunkId, Constancy, DoneMarker, EmptyArguments, Opening, Pings, Profile, Sequence, Throttle,
    Word,
};
use std::borrow::Cow;

const ERROR_FINISHES: &[Word] = &[Cow::Borrowed("error_finish")];
const THROTTLES: &[Throttle] = &[Throttle {
    error_type: Cow::Borrowed("invalid_request_error"),
    message_contains: Cow::Borrowed("Too many requests"),
}];

/// What the profile's provider writes if the request is longer than the context.
const ANTHROPIC: &[Word] = &[
    Cow::Borrowed("prompt is too long:"),
    Cow::Borrowed("input length and `max_tokens` exceed context limit:"),
];
const BEDROCK: &[Word] = &[
    Cow::Borrowed("Input Tokens Exceeded:"),
    Cow::Borrowed("Input is too long for requested model."),
    Cow::Borrowed("prompt is too long:"),
    Cow::Borrowed("input length and `max_tokens` exceed context limit:"),
];
/// Under a 429: more tokens than the limit per minute, so that waiting does not help.
const OPENAI: &[Word] = &[Cow::Borrowed("Request too large for ")];
const DEEPSEEK: &[Word] = &[Cow::Borrowed("This model's maximum context length is ")];
const OLLAMA: &[Word] = &[Cow::Borrowed("prompt too long; exceeded max context length by ")];
const OPENROUTER: &[Word] = &[Cow::Borrowed("This endpoint's maximum context length is ")];
const VERTEX: &[Word] =
    &[Cow::Borrowed("exceeds the maximum number of tokens allowed"), Cow::Borrowed("prompt is too long:")];

impl Profile {
    /// A provider about which nothing is known.
    pub const UNKNOWN: Self = Self {
        name: Cow::Borrowed("unknown"),
        id: ChunkId::Constant,
        created: Constancy::WithoutId,
        fingerprint: Constancy::WithoutId,
        opening: Opening::FirstOrAll,
        done: DoneMarker::Perhaps,
        call_index: CallIndex::SharedByWhole,
        empty_arguments: EmptyArguments::NoArguments,
        sequence: Sequence::Checked,
        response_id: Constancy::Constant,
        item_id: Constancy::Constant,
        pings: Pings::Unknown,
        error_finishes: Cow::Borrowed(&[]),
        throttles: Cow::Borrowed(&[]),
        overflows: Cow::Borrowed(&[]),
    };

    /// OpenAI and Azure: constant id and time, and `[DONE]` at the end.
    pub const OPENAI: Self = Self {
        name: Cow::Borrowed("openai"),
        created: Constancy::Constant,
        done: DoneMarker::Always,
        overflows: Cow::Borrowed(OPENAI),
        ..Self::UNKNOWN
    };

    /// Anthropic: pings while the model works.
    pub const ANTHROPIC: Self = Self {
        name: Cow::Borrowed("anthropic"),
        pings: Pings::Known,
        overflows: Cow::Borrowed(ANTHROPIC),
        ..Self::UNKNOWN
    };

    /// OpenRouter: comments while it waits for a provider (`: OPENROUTER PROCESSING`), and `[DONE]`.
    pub const OPENROUTER: Self = Self {
        name: Cow::Borrowed("openrouter"),
        pings: Pings::Known,
        done: DoneMarker::Always,
        overflows: Cow::Borrowed(OPENROUTER),
        ..Self::UNKNOWN
    };

    /// Qwen on DashScope: errors as the text of an answer, and throttling as an invalid request.
    pub const QWEN: Self = Self {
        name: Cow::Borrowed("qwen"),
        error_finishes: Cow::Borrowed(ERROR_FINISHES),
        throttles: Cow::Borrowed(THROTTLES),
        ..Self::UNKNOWN
    };

    /// Avian: the first chunk has an id of its own.
    pub const AVIAN: Self = Self { name: Cow::Borrowed("avian"), id: ChunkId::AfterFirst, ..Self::UNKNOWN };

    /// Groq: its compound models send another id with every chunk, and a time that moves.
    pub const GROQ: Self = Self {
        name: Cow::Borrowed("groq"),
        id: ChunkId::ConstantOrPerChunk,
        created: Constancy::Varies,
        done: DoneMarker::Always,
        ..Self::UNKNOWN
    };

    /// GitHub Copilot: ids of responses and items that change with every event.
    pub const COPILOT: Self = Self {
        name: Cow::Borrowed("copilot"),
        response_id: Constancy::Varies,
        item_id: Constancy::Varies,
        ..Self::UNKNOWN
    };

    /// Snowflake Cortex: no ids, and `[DONE]` without a finish.
    pub const SNOWFLAKE: Self =
        Self { name: Cow::Borrowed("snowflake"), done: DoneMarker::WithoutFinish, ..Self::UNKNOWN };

    /// Google's chat endpoint: several calls under index 0.
    pub const GOOGLE: Self =
        Self { name: Cow::Borrowed("google"), call_index: CallIndex::Shared, ..Self::UNKNOWN };

    /// Google's Vertex AI.
    pub const VERTEX: Self = Self {
        name: Cow::Borrowed("vertex"),
        call_index: CallIndex::Shared,
        overflows: Cow::Borrowed(VERTEX),
        ..Self::UNKNOWN
    };

    /// Amazon Bedrock.
    pub const BEDROCK: Self =
        Self { name: Cow::Borrowed("bedrock"), overflows: Cow::Borrowed(BEDROCK), ..Self::UNKNOWN };

    /// DeepSeek.
    pub const DEEPSEEK: Self =
        Self { name: Cow::Borrowed("deepseek"), overflows: Cow::Borrowed(DEEPSEEK), ..Self::UNKNOWN };

    /// Ollama, local and hosted.
    pub const OLLAMA: Self =
        Self { name: Cow::Borrowed("ollama"), overflows: Cow::Borrowed(OLLAMA), ..Self::UNKNOWN };

    /// A chat provider without usable ids and times. Fingerprint and role identify the completion.
    pub const WITHOUT_IDS: Self = Self {
        name: Cow::Borrowed("without-ids"),
        id: ChunkId::Varies,
        created: Constancy::Varies,
        ..Self::UNKNOWN
    };

    /// All built-in profiles.
    pub const ALL: [&'static Self; 15] = [
        &Self::UNKNOWN,
        &Self::OPENAI,
        &Self::ANTHROPIC,
        &Self::OPENROUTER,
        &Self::QWEN,
        &Self::AVIAN,
        &Self::GROQ,
        &Self::COPILOT,
        &Self::SNOWFLAKE,
        &Self::GOOGLE,
        &Self::VERTEX,
        &Self::BEDROCK,
        &Self::DEEPSEEK,
        &Self::OLLAMA,
        &Self::WITHOUT_IDS,
    ];

    /// The built-in profile with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }
}
