//! Text that may continue in the next event, with the half characters at its ends.

use crate::half::{LOST, LOST_BYTES, is_high, is_low};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// The newtype name under which a type requests a [`Piece`] from [`Lenient`](crate::Lenient).
///
/// Strings with half a character are then visited as bytes, for [`Piece::from_wtf8`]. Every other
/// deserializer visits the inner value.
pub const PIECE: &str = "$turnstream_json::Piece";

/// Text that may continue in the next event.
///
/// It dereferences to text in which every half character is U+FFFD. [`Seam`] joins pieces, so that only
/// halves without a partner are replaced.
///
/// [`Seam`]: crate::Seam
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece<'a>(Text<'a>);

/// Almost all texts have no halves. Those are as large as the text alone.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Text<'a> {
    Whole(Cow<'a, str>),
    Halved(Box<Halved>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Halved {
    /// The text, with U+FFFD for every half.
    pub(crate) text: String,
    /// The second half at its beginning.
    pub(crate) first: Option<u16>,
    /// The first half at its end.
    pub(crate) last: Option<u16>,
    /// Whether there are halves in between.
    pub(crate) inside: bool,
}

impl<'a> Piece<'a> {
    /// A text without halves.
    pub fn whole(text: impl Into<Cow<'a, str>>) -> Self {
        Self(Text::Whole(text.into()))
    }

    /// Reads WTF-8, which `serde_json` makes of a string with halves; `None` if it is anything else.
    pub fn from_wtf8(bytes: &[u8]) -> Option<Self> {
        let mut text = String::with_capacity(bytes.len());
        let (mut first, mut last, mut halves) = (None, None, 0_usize);
        let mut begin = 0;
        for at in memchr::memchr_iter(0xED, bytes) {
            let Some(&[_, second @ 0xA0..0xC0, third @ 0x80..0xC0]) = bytes.get(at..at + 3) else { continue };
            text.push_str(std::str::from_utf8(&bytes[begin..at]).ok()?);
            begin = at + 3;
            let unit = 0xD000 | u16::from(second & 0x3F) << 6 | u16::from(third & 0x3F);
            first = first.or_else(|| (at == 0 && is_low(unit)).then_some(unit));
            last = (begin == bytes.len() && is_high(unit)).then_some(unit);
            text.push(LOST);
            halves += 1;
        }
        text.push_str(std::str::from_utf8(&bytes[begin..]).ok()?);
        if halves == 0 {
            return Some(Self::whole(text));
        }
        let inside = halves > usize::from(first.is_some()) + usize::from(last.is_some());
        Some(Self(Text::Halved(Box::new(Halved { text, first, last, inside }))))
    }

    /// The text, with U+FFFD for every half.
    pub fn into_text(self) -> Cow<'a, str> {
        match self.0 {
            Text::Whole(text) => text,
            Text::Halved(halved) => Cow::Owned(halved.text),
        }
    }

    /// Whether it has a half, also one that the next piece may complete.
    pub fn has_halves(&self) -> bool {
        matches!(self.0, Text::Halved(_))
    }

    /// The piece without a borrow.
    pub fn into_owned(self) -> Piece<'static> {
        Piece(match self.0 {
            Text::Whole(text) => Text::Whole(Cow::Owned(text.into_owned())),
            Text::Halved(halved) => Text::Halved(halved),
        })
    }

    /// The text if it has no halves, otherwise the halves.
    #[inline]
    pub(crate) fn open(self) -> Result<Cow<'a, str>, Box<Halved>> {
        match self.0 {
            Text::Whole(text) => Ok(text),
            Text::Halved(halved) => Err(halved),
        }
    }
}

impl Halved {
    /// The text between the halves at its ends.
    pub(crate) fn middle(&self) -> &str {
        let begin = if self.first.is_some() { LOST_BYTES } else { 0 };
        let end = self.text.len() - if self.last.is_some() { LOST_BYTES } else { 0 };
        &self.text[begin..end]
    }
}

impl Default for Piece<'_> {
    fn default() -> Self {
        Self::whole("")
    }
}

impl Deref for Piece<'_> {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        match &self.0 {
            Text::Whole(text) => text,
            Text::Halved(halved) => &halved.text,
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Piece<'a> {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(PIECE, PieceVisitor)
    }
}

/// Reads a piece for a type that borrows nothing.
pub fn owned<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Piece<'static>, D::Error> {
    Piece::deserialize(deserializer).map(Piece::into_owned)
}

struct PieceVisitor;

impl<'de> Visitor<'de> for PieceVisitor {
    type Value = Piece<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }

    #[inline]
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Piece::whole(text))
    }

    #[inline]
    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Piece::whole(text.to_owned()))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Piece::from_wtf8(bytes).ok_or_else(|| E::custom("a string that is not UTF-8"))
    }
}
