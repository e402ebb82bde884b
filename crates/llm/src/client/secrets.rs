//! Secrets of a route, removed from everything that is reported or stored.
//!
//! An answer may repeat them: "invalid key: …", or a page that names the requested URL.

use crate::classify::Failure;
use turnstream_model::attempts::Evidence;
use turnstream_redact::{Builder, LONGEST_LITERAL, Rules};

/// Parts of names whose header or URL parameter is a secret. Other values, such as versions, may be shown.
const SECRET: [&str; 8] = ["auth", "key", "token", "secret", "pass", "cookie", "sig", "credential"];

/// The secrets of one route.
pub struct RouteSecrets(Vec<Rules>);

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
        Self(words.filter_map(|word| Some(Builder::default().literal("key", word).ok()?.build())).collect())
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
            *text = key.redact(text).into_owned();
        }
    }

    /// Removes the secrets from the kept bytes.
    pub fn hide_in_bytes(&self, evidence: &mut Evidence) {
        for bytes in [&mut evidence.head, &mut evidence.tail] {
            for key in &self.0 {
                *bytes = key.redact_bytes(bytes).into_owned();
            }
        }
    }
}
