//! The headers of an answer that are stored with its attempt: those by which a provider finds the request,
//! and those that say what went wrong.

use crate::delay::Headers;

/// Headers by name.
const NAMES: [&str; 20] = [
    "apim-request-id",
    "cf-ray",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "openai-processing-ms",
    "openai-version",
    "request-id",
    "retry-after",
    "retry-after-ms",
    "server",
    "transfer-encoding",
    "via",
    "x-amzn-errortype",
    "x-amzn-requestid",
    "x-ms-region",
    "x-ms-request-id",
    "x-request-id",
    "x-should-retry",
];
/// Headers by the beginning of the name.
const PREFIXES: [&str; 3] = ["anthropic-ratelimit-", "ratelimit-", "x-ratelimit-"];
/// The most headers of one answer.
const MOST: usize = 40;

/// The headers that are stored, in the order of the answer.
pub fn stored(headers: &Headers) -> Vec<(String, String)> {
    let is_stored =
        |name: &str| NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let named = headers.0.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    named.filter(|(name, _)| is_stored(name)).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::{Headers, stored};

    #[test]
    fn only_headers_that_identify_or_explain_an_answer_are_stored() {
        let all = [
            ("Content-Type", "text/event-stream"),
            ("set-cookie", "session=1"),
            ("x-ratelimit-remaining-tokens", "12"),
            ("openai-organization", "org-1"),
            ("Request-Id", "req_1"),
        ];
        let all = Headers(all.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec());
        let stored = stored(&all);
        let names: Vec<&str> = stored.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["content-type", "x-ratelimit-remaining-tokens", "request-id"]);
    }
}
