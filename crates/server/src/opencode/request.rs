//! What clients of opencode send with every request: a directory, and parameters of which many are ignored.

use super::answer::Failure;
use crate::app::App;
use crate::body::Optional;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::sync::Arc;

/// The header with the directory, for requests without it in the query. Its value is percent-encoded.
const DIRECTORY: &str = "x-opencode-directory";

/// The query of a request, and the directory that it is for.
pub(super) struct Asked {
    query: HashMap<String, String>,
    directory: Option<String>,
}

impl Asked {
    /// A parameter that is not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A parameter that may be empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    /// A number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Failure> {
        let value = self.get(name).map(|value| value.parse::<u64>());
        value.transpose().map_err(|_| Failure::bad(format!("{name} must be a whole number")))
    }

    /// The directory that the request is for, if it names one.
    pub(super) fn directory(&self) -> Option<&str> {
        self.directory.as_deref()
    }

    /// The directory, or that of the gateway.
    pub(super) fn directory_or_own(&self) -> String {
        let own = || std::env::current_dir().map(|path| path.display().to_string()).unwrap_or_default();
        self.directory.clone().unwrap_or_else(own)
    }
}

impl FromRequestParts<Arc<App>> for Asked {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let pairs = Query::<Vec<(String, String)>>::from_request_parts(parts, app).await;
        let Ok(Query(pairs)) = pairs else {
            return Err(Failure::bad("the query is not a list of name=value pairs in UTF-8"));
        };
        let query: HashMap<String, String> = pairs.into_iter().collect();
        let header = parts.headers.get(DIRECTORY).and_then(|value| value.to_str().ok()).map(decoded);
        let asked = ["directory", "location[directory]"].iter().find_map(|name| query.get(*name).cloned());
        let directory = asked.filter(|asked| !asked.is_empty()).or(header).filter(|path| !path.is_empty());
        Ok(Self { query, directory })
    }
}

/// A JSON body whose unknown members are ignored. No body counts as an empty object.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Failure> {
        Ok(Self(Optional::from_request(request, app).await?.0))
    }
}

/// Percent-decoded text.
pub(super) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn a_directory_in_a_header_is_percent_encoded() {
        assert_eq!(decoded("%2Fsrv%2Fgr%C3%BC%C3%9Fe"), "/srv/grüße");
        assert_eq!(decoded("/100%/%zz"), "/100%/%zz");
    }
}
