//! JSON from outside: events and answers of a gateway. Its texts are [`Untrusted`].

use crate::escape::Untrusted;
use serde_json::Value;
use turnstream_model::event::{Known, Shown};

/// A JSON value from outside. A missing member is null.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a>(pub(crate) &'a Value);

impl<'a> Record<'a> {
    pub(crate) fn member(self, name: &str) -> Self {
        Self(&self.0[name])
    }

    /// A text member; empty if it is missing or not text.
    pub(crate) fn text(self, name: &str) -> Untrusted<'a> {
        self.text_or(name, "")
    }

    pub(crate) fn text_or(self, name: &str, otherwise: &'static str) -> Untrusted<'a> {
        self.some_text(name).unwrap_or(Untrusted(otherwise))
    }

    pub(crate) fn some_text(self, name: &str) -> Option<Untrusted<'a>> {
        self.0[name].as_str().map(Untrusted)
    }

    /// The value itself, if it is text.
    pub(crate) fn as_text(self) -> Option<Untrusted<'a>> {
        self.0.as_str().map(Untrusted)
    }

    /// The type of an event, if this version knows it.
    pub(crate) fn event_type(self) -> Option<Known> {
        Known::from_word(self.text("type").exact())
    }

    /// The type of an event, if it is one of the first part of the table of events.
    pub(crate) fn shown_type(self) -> Option<Shown> {
        Shown::from_word(self.text("type").exact())
    }

    /// Whether a text member equals this word.
    pub(crate) fn is(self, name: &str, word: &str) -> bool {
        self.0[name] == word
    }

    pub(crate) fn is_true(self, name: &str) -> bool {
        self.0[name] == true
    }

    pub(crate) fn has(self, name: &str) -> bool {
        !self.0[name].is_null()
    }

    pub(crate) fn number(self, name: &str) -> Option<u64> {
        self.0[name].as_u64()
    }

    /// The elements of an array member; none if it is missing.
    pub(crate) fn list(self, name: &str) -> impl Iterator<Item = Record<'a>> + use<'a> {
        self.0[name].as_array().into_iter().flatten().map(Record)
    }
}
