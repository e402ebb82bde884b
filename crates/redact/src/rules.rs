//! The compiled rules, and redaction of complete texts.

use crate::builder::Builder;
use crate::scan::{Scanner, Step, Want};
use crate::view::{Kind, Then, View};
#[cfg(feature = "json")]
use crate::{name::Sort, scan::Rule};
use std::borrow::Cow;
use std::sync::Arc;

/// Compiled rules. A clone is another handle to the same ones.
#[derive(Debug, Clone)]
pub struct Rules {
    pub(crate) inner: Arc<Compiled>,
}

/// The rules that all handles share.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) scanner: Scanner,
    /// `[redacted:kind]` of every kind.
    pub(crate) markers: Vec<Box<str>>,
    /// The kind of a secret at the beginning of a text whose beginning is unknown, unless switched off.
    pub(crate) fragment: Option<Kind>,
}

impl Compiled {
    /// The kind of values after names of this sort, unless switched off.
    #[cfg(feature = "json")]
    pub(crate) fn assigned(&self, sort: Sort) -> Option<Kind> {
        let rules = &self.scanner.rules;
        rules.iter().find_map(|(kind, rule)| {
            let announced = matches!(rule, Rule::Assigned(word) if word.sort == sort);
            announced.then_some(*kind)
        })
    }

    pub(crate) fn marker(&self, kind: Kind) -> &str {
        &self.markers[usize::from(kind.0)]
    }
}

impl Rules {
    /// Every builtin rule.
    pub fn standard() -> Self {
        Builder::new().build()
    }

    /// No rule at all: everything stays as it is.
    pub fn none() -> Self {
        Builder::empty().build()
    }

    /// A builder with the builtin rules.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Redacts a complete text. A partial secret at its end is handled as in
    /// [`Stream::settle`](crate::Stream::settle).
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.redact_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // Secrets begin and end between characters, so the rest is valid UTF-8. If it were not, no text
            // is lost.
            Cow::Owned(bytes) => Cow::Owned(
                String::from_utf8(bytes)
                    .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
            ),
        }
    }

    /// Redacts raw evidence: any bytes, also those that are not UTF-8.
    pub fn redact_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut out: Option<Vec<u8>> = None;
        // The text before this is in `out`.
        let mut done = 0;
        let mut from = 0;
        loop {
            let found = match self.inner.scanner.next(&View { text: bytes, floor: done }, from, Want::AtEnd) {
                Step::Found(found) => found,
                Step::Clean => break,
                Step::Waiting(waiting) => match waiting.at_end {
                    Some(found) => found,
                    None => break,
                },
            };
            let out = out.get_or_insert_with(|| Vec::with_capacity(bytes.len()));
            out.extend_from_slice(&bytes[done..found.start]);
            out.extend_from_slice(self.inner.marker(found.kind).as_bytes());
            done = found.end;
            let mut then = found.then;
            let passed = self.inner.scanner.pass(&mut then, &bytes[done..]);
            done = if passed.over { done + passed.bytes } else { bytes.len() };
            from = done;
        }
        match out {
            None => Cow::Borrowed(bytes),
            Some(mut out) => {
                out.extend_from_slice(&bytes[done..]);
                Cow::Owned(out)
            }
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::standard()
    }
}

/// How every marker begins. A marker is `[redacted:kind]`.
pub(crate) const MARKER_START: &str = "[redacted:";

/// True when something was redacted in this text. A person may have typed a marker: then this is true too.
pub fn has_marker(text: &str) -> bool {
    text.contains(MARKER_START)
}

/// The marker of a kind of secret.
pub(crate) fn marker(kind: &str) -> Box<str> {
    format!("{MARKER_START}{kind}]").into()
}

/// Nothing more of the secret follows.
pub(crate) const OVER: Then = Then::Text;
