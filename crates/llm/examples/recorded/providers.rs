//! Which profile a recording is read with: by its provider, never by its file.

use turnstream_llm::Profile;

/// Words in the source of a recording, or in the host of an answer, that name a provider, and its profile.
/// The first word that is found counts, so gateways come before the providers behind them.
const PROVIDERS: [(&str, &Profile); 22] = [
    ("openrouter", &Profile::OPENROUTER),
    ("copilot", &Profile::COPILOT),
    ("snowflake", &Profile::SNOWFLAKE),
    ("avian", &Profile::AVIAN),
    ("bedrock", &Profile::BEDROCK),
    ("vertex", &Profile::VERTEX),
    ("aiplatform.googleapis", &Profile::VERTEX),
    ("googleapis", &Profile::GOOGLE),
    ("groq", &Profile::GROQ),
    ("deepseek", &Profile::DEEPSEEK),
    ("ollama", &Profile::OLLAMA),
    ("alibaba", &Profile::QWEN),
    ("dashscope", &Profile::QWEN),
    // Providers without a profile of their own, whose names contain the next ones.
    ("testopenaicompat", &Profile::UNKNOWN),
    ("openai-compatible", &Profile::UNKNOWN),
    ("vllm", &Profile::UNKNOWN),
    ("azure", &Profile::OPENAI),
    ("testopenai", &Profile::OPENAI),
    ("openai-chat", &Profile::OPENAI),
    ("openai-responses", &Profile::OPENAI),
    ("api.openai.com", &Profile::OPENAI),
    ("anthropic", &Profile::ANTHROPIC),
];

/// The profile for a recording of this source, or an answer of this host.
pub(crate) fn profile(source: &str) -> &'static Profile {
    let source = source.to_ascii_lowercase();
    let known = PROVIDERS.into_iter().find(|(word, _)| source.contains(word));
    known.map_or(&Profile::UNKNOWN, |(_, profile)| profile)
}
