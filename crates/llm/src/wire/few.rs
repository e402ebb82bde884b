//! A list that nearly always has one entry.

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// A list with room for one at first: a chunk of a chat has one choice, and that one tool delta, and room for the four
/// that a list usually begins with is more than a kilobyte.
#[derive(Debug)]
pub(crate) struct Few<T>(Vec<T>);

/// Entries that a list may have. `{},` is three bytes and a choice more than a hundred times that, so an event at its limit
/// would be gigabytes.
const MOST: usize = 1024;

struct FewVisitor<T>(PhantomData<T>);

impl<T> Few<T> {
    pub(crate) fn one(entry: T) -> Self {
        Self(vec![entry])
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        &self.0
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(FewVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for FewVisitor<T> {
    type Value = Few<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of at most 1024 entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(entry) = seq.next_element()? {
            match list.len() {
                0 => list.reserve_exact(1),
                MOST => return Err(A::Error::invalid_length(MOST + 1, &self)),
                _ => {}
            }
            list.push(entry);
        }
        Ok(Few(list))
    }
}
