//! A list that almost always has one entry.

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// A list that first allocates room for one entry.
///
/// A chat chunk has one choice with at most one tool delta. `Vec` would allocate four, more than a kilobyte.
#[derive(Debug)]
pub(crate) struct ShortList<T>(Vec<T>);

/// The most entries of a list. `{},` is three bytes and a choice in memory more than 300, so an event of
/// the largest size would need gigabytes.
const MOST: usize = 1024;

struct ShortListVisitor<T>(PhantomData<T>);

impl<T> ShortList<T> {
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

impl<T> Default for ShortList<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> IntoIterator for ShortList<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ShortList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ShortListVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ShortListVisitor<T> {
    type Value = ShortList<T>;

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
        Ok(ShortList(list))
    }
}
