//! Secrets of a route, removed from everything that is reported or stored.
//!
//! An answer may repeat them: "invalid key: …", or a page that names the requested URL.

use crate::classify::Failure;
use turnstream_model::attempts::Evidence;
use turnstream_redact::{Builder, LONGEST_LITERAL, Rules};

/// Parts of names whose header or URL parameter is a secret. Other values, such as versions, may be shown.
const SECRET: [&str; 8] = ["auth", "key", "token", "secret", "pass", "cookie", "sig", "credential"];

/// The secrets of one route.
pub struct RouteSecrets(Vec<Secret>);

struct Secret {
    value: String,
    rules: Rules,
}

impl RouteSecrets {
    /// Collects the secrets in headers and URL. Very short ones are ignored: ordinary text contains them.
    pub fn of(url: &str, headers: &[(String, String)]) -> Self {
        let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let query = query.split('#').next().unwrap_or_default();
        let parameters = query.split('&').filter_map(|parameter| parameter.split_once('='));
        let secret = headers.chain(parameters).filter(|(name, _)| Self::is_secret(name));
        // `Bearer …`, and each of several cookies.
        let words = secret.flat_map(|(_, value)| value.split([' ', ';', ',']));
        let words = words.map(|word| &word[..word.floor_char_boundary(LONGEST_LITERAL)]);
        let secret = |word: &str| {
            let rules = Builder::default().literal("key", word).ok()?.build();
            Some(Secret { value: word.to_owned(), rules })
        };
        Self(words.filter_map(secret).collect())
    }

    /// Whether a header or URL parameter with this name has a secret.
    pub fn is_secret(name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        SECRET.iter().any(|word| name.contains(word))
    }

    /// Removes the secrets from a failure.
    pub fn hide(&self, failure: &mut Failure) {
        let Failure { word, message, request_id, secondary, .. } = failure;
        let texts = word.iter_mut().chain([message]).chain(request_id);
        for text in texts.chain(secondary.iter_mut().map(|secondary| &mut secondary.message)) {
            self.hide_in_text(text);
        }
    }

    /// Removes the secrets from a text.
    pub fn hide_in_text(&self, text: &mut String) {
        for key in &self.0 {
            *text = key.rules.redact(text).into_owned();
        }
    }

    /// Removes the secrets from the kept bytes.
    pub fn hide_in_bytes(&self, evidence: &mut Evidence) {
        for bytes in [&mut evidence.head, &mut evidence.tail] {
            for key in &self.0 {
                *bytes = key.rules.redact_bytes(bytes).into_owned();
            }
        }
        if evidence.omitted == 0 {
            return;
        }
        // The beginning may end within a secret, and the end may start within one.
        for Secret { value, .. } in &self.0 {
            let value = value.as_bytes();
            let (head, tail) = (&mut evidence.head, &mut evidence.tail);
            let begun = (1..value.len()).rev().find(|kept| head.ends_with(&value[..*kept])).unwrap_or(0);
            head.truncate(head.len() - begun);
            let rest = (1..value.len()).rev().find(|kept| tail.starts_with(&value[value.len() - kept..]));
            tail.drain(..rest.unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RouteSecrets;
    use turnstream_model::attempts::Evidence;

    #[test]
    fn a_secret_that_the_gap_of_the_evidence_cuts_is_removed_on_both_sides() {
        let key = "Kartoffel7-of-the-client";
        let secrets = RouteSecrets::of("http://h/v1", &[("x-api-key".to_owned(), key.to_owned())]);
        for cut in 1..key.len() {
            let (head, tail) = (format!("for {}", &key[..cut]), format!("{} is wrong", &key[cut..]));
            let mut evidence = Evidence { head: head.clone().into(), omitted: 7, tail: tail.clone().into() };
            secrets.hide_in_bytes(&mut evidence);
            // What is long enough to be recognised has its mark; a shorter piece is cut off.
            let left = evidence.head.strip_suffix(b"[redacted:key]").unwrap_or(&evidence.head);
            assert_eq!((left, &evidence.tail[..]), (&b"for "[..], &b" is wrong"[..]), "{cut}");
        }
    }

    #[test]
    fn a_short_word_at_the_end_of_whole_evidence_stays() {
        let secrets =
            RouteSecrets::of("http://h/v1", &[("x-api-key".to_owned(), "Kartoffel7-of".to_owned())]);
        let mut whole = Evidence { head: b"for Kar".to_vec(), omitted: 0, tail: Vec::new() };
        secrets.hide_in_bytes(&mut whole);
        assert_eq!(whole.head, b"for Kar");
    }
}
