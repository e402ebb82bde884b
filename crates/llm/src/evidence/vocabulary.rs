//! The words of the three wire formats. No other text of a stream is stored.

/// Parts of member names, event types, finishes, error types and common ids, sorted for binary search. A
/// new word of a provider is stored as its length until it is listed here.
#[rustfmt::skip]
const WORDS: [&str; 225] = [
    "DONE", "MAX", "OPENROUTER", "PROCESSING", "SAFETY", "STOP", "TOKENS", "accepted", "action", "added",
    "advisor", "alive", "annotation", "annotations", "answer", "anthropic", "api", "apply", "approval",
    "arguments", "assistant", "at", "attempts", "audio", "authentication", "auto", "background", "blocked",
    "bytes", "cache", "cached", "call", "caller", "calls", "channel", "chat", "chatcmpl", "choice",
    "choices", "chunk", "citation", "citations", "claude", "cmpl", "code", "completed", "completion",
    "completions", "container", "content", "context", "cost", "created", "creation", "custom", "data",
    "default", "delta", "details", "detected", "diff", "direct", "document", "done", "edits", "effort",
    "encrypted", "end", "ephemeral", "error", "event", "exceeded", "execution", "failed", "false", "fc",
    "fetch", "file", "filter", "filtered", "filters", "final", "fingerprint", "finish", "format", "found",
    "fp", "frequency", "function", "gen", "geo", "gpt", "groq", "harm", "hate", "heartbeat", "hit", "id",
    "identifier", "image", "in", "incomplete", "index", "inference", "input", "instructions",
    "insufficient", "internal", "interpreter", "invalid", "is", "item", "iterations", "json", "keep",
    "keepalive", "key", "label", "large", "length", "limit", "list", "logprob", "logprobs", "logs", "max",
    "mcp", "message", "metadata", "miss", "mode", "model", "moderation", "ms", "msg", "name", "native",
    "not", "null", "num", "number", "obfuscation", "object", "offset", "output", "overloaded", "parallel",
    "param", "part", "partial", "patch", "penalty", "permission", "phase", "ping", "prediction", "presence",
    "previous", "program", "progress", "prompt", "protected", "provider", "quota", "rate", "read", "reason",
    "reasoning", "refusal", "rejected", "request", "requests", "resp", "response", "result", "results",
    "retention", "role", "rs", "safety", "schema", "search", "searching", "seed", "self", "sequence",
    "server", "service", "severity", "signature", "standard", "start", "status", "stop", "stopped", "store",
    "string", "success", "summary", "system", "temperature", "text", "thinking", "tier", "timeout", "token",
    "tokens", "tool", "tools", "toolu", "top", "total", "true", "truncation", "turn", "type", "unavailable",
    "usage", "use", "user", "verbosity", "violence", "web", "write", "ws",
];

/// Whether this is a word of a wire format.
pub(super) fn has(word: &[u8]) -> bool {
    WORDS.binary_search_by(|known| known.as_bytes().cmp(word)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::WORDS;

    #[test]
    fn words_are_in_order_for_the_search() {
        assert!(WORDS.is_sorted_by(|one, next| one < next));
    }
}
