//! A string of a payload, borrowed unless it has escapes.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// `Option<Cow<str>>` never borrows with serde's derive; this does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Str<'a>(pub(crate) Cow<'a, str>);

struct StrVisitor;

/// The text, unless it is missing or empty: providers write `""` where they mean nothing (AstrBot #6661).
pub(crate) fn filled<'s>(text: &'s Option<Str<'_>>) -> Option<&'s str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// The same for content, which is handed on: what had to be unescaped is not copied once more.
pub(crate) fn taken<'a>(text: &mut Option<Str<'a>>) -> Option<Cow<'a, str>> {
    text.take().map(|text| text.0).filter(|text| !text.is_empty())
}

impl Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(StrVisitor)
    }
}

impl<'de> Visitor<'de> for StrVisitor {
    type Value = Str<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    #[inline]
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Str(Cow::Borrowed(text)))
    }

    #[inline]
    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Str(Cow::Owned(text.to_owned())))
    }
}
