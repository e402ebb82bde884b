//! A deserializer for JSON documents with half characters. Apart from those, a document must be valid.

use crate::half::has_lone_half;
use crate::piece::{PIECE, Piece};
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IgnoredAny, IntoDeserializer, MapAccess,
    SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Number, Result};
use std::borrow::Cow;
use std::fmt;

/// The deepest nesting, as in `serde_json`.
const LEVELS: u8 = 128;
/// The names under which `serde_json` requests its own types.
const OWN_TYPES: &str = "$serde_json::private::";

/// Reads a document with half characters.
///
/// A string is read as text with U+FFFD in the place of each half, and as bytes for a [`Piece`].
#[derive(Debug)]
pub struct Lenient<'de> {
    json: &'de str,
    at: usize,
    levels: u8,
}

impl<'de> Lenient<'de> {
    /// `None` if the document has no half character, or is otherwise invalid.
    pub fn new(json: &'de str) -> Option<Self> {
        // A skipped value may have halves. Everything else is checked.
        let is_valid = || serde_json::from_str::<IgnoredAny>(json).is_ok();
        (has_lone_half(json) && is_valid()).then_some(Self { json, at: 0, levels: LEVELS })
    }

    /// The next byte that is not a blank.
    fn peek(&mut self) -> Result<u8> {
        let rest = &self.json[self.at..];
        self.at += rest.len() - rest.trim_ascii_start().len();
        self.json.as_bytes().get(self.at).copied().ok_or_else(|| Error::custom("the document is over"))
    }

    fn eat(&mut self, byte: u8) -> Result<()> {
        if self.peek()? != byte {
            return Err(Error::custom(format_args!("more than expected; {:?} should follow", byte as char)));
        }
        self.at += 1;
        Ok(())
    }

    /// Consumes this many bytes, and returns them.
    fn take(&mut self, bytes: usize) -> &'de str {
        let (taken, _) = self.json[self.at..].split_at(bytes);
        self.at += bytes;
        taken
    }

    /// Consumes a string, with its quotes.
    fn string(&mut self) -> Result<&'de str> {
        let bytes = &self.json.as_bytes()[self.at..];
        let mut at = 1;
        loop {
            let rest = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest));
            at += rest.ok_or_else(|| Error::custom("a string without an end"))?;
            if bytes[at] == b'"' {
                return Ok(self.take(at + 1));
            }
            at += 2;
        }
    }

    fn piece(&mut self) -> Result<Piece<'de>> {
        let quoted = self.string()?;
        match &quoted[1..quoted.len() - 1] {
            plain if !plain.contains('\\') => Ok(Piece::whole(plain)),
            _ => serde_json::Deserializer::from_str(quoted).deserialize_bytes(Wtf8),
        }
    }

    /// Consumes any value, as it is written.
    fn raw(&mut self) -> Result<&'de str> {
        self.peek()?;
        let mut values = serde_json::Deserializer::from_str(&self.json[self.at..]).into_iter::<IgnoredAny>();
        match values.next() {
            Some(Ok(_)) => Ok(self.take(values.byte_offset())),
            Some(Err(error)) => Err(error),
            None => Err(Error::custom("the document is over")),
        }
    }

    /// Consumes a list or an object. `read` gets what is between the brackets.
    fn nested<T>(&mut self, close: u8, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.levels = self.levels.checked_sub(1).ok_or_else(|| Error::custom("too many levels"))?;
        self.at += 1;
        let read = read(self)?;
        self.eat(close)?;
        self.levels += 1;
        Ok(read)
    }
}

impl<'de> Deserializer<'de> for &mut Lenient<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.peek()? {
            b'"' => visit_text(self.piece()?.into_text(), visitor),
            b'{' => self.nested(b'}', |json| visitor.visit_map(Entries { json, is_first: true })),
            b'[' => self.nested(b']', |json| visitor.visit_seq(Entries { json, is_first: true })),
            b't' | b'f' => visitor.visit_bool(self.raw()? == "true"),
            b'n' => {
                self.raw()?;
                visitor.visit_unit()
            }
            _ => visit_number(self.raw()?, visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.peek()? {
            b'n' => {
                self.raw()?;
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value> {
        if name == PIECE && self.peek()? == b'"' {
            let start = self.at;
            let piece = self.piece()?;
            if !piece.has_halves() {
                return visit_text(piece.into_text(), visitor);
            }
            return serde_json::Deserializer::from_str(&self.json[start..self.at]).deserialize_bytes(visitor);
        }
        if name.starts_with(OWN_TYPES) {
            return serde_json::Deserializer::from_str(self.raw()?).deserialize_newtype_struct(name, visitor);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match self.peek()? {
            b'{' => self.nested(b'}', |json| {
                visitor.visit_enum(MapAccessDeserializer::new(Entries { json, is_first: true }))
            }),
            b'"' => {
                let name = self.piece()?;
                let name: StrDeserializer<'_, Error> = (*name).into_deserializer();
                visitor.visit_enum(name)
            }
            _ => Err(Error::custom("expected a string or an object")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.raw()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

fn visit_text<'de, V: Visitor<'de>>(text: Cow<'de, str>, visitor: V) -> Result<V::Value> {
    match text {
        Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
        Cow::Owned(text) => visitor.visit_string(text),
    }
}

fn visit_number<'de, V: Visitor<'de>>(written: &str, visitor: V) -> Result<V::Value> {
    let number: Option<Number> = serde_json::from_str(written).ok();
    let out_of_range = || Error::custom(format_args!("the number {written} is out of range"));
    let number = number.ok_or_else(out_of_range)?;
    match (number.as_u64(), number.as_i64()) {
        (Some(number), _) => visitor.visit_u64(number),
        (None, Some(number)) => visitor.visit_i64(number),
        (None, None) => visitor.visit_f64(number.as_f64().ok_or_else(out_of_range)?),
    }
}

/// Reads the bytes of a string with halves, which `serde_json` writes as WTF-8.
struct Wtf8;

impl Visitor<'_> for Wtf8 {
    type Value = Piece<'static>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> std::result::Result<Self::Value, E> {
        Piece::from_wtf8(bytes).ok_or_else(|| E::custom("a string that is not UTF-8"))
    }
}

/// The entries of a list or the members of an object.
struct Entries<'a, 'de> {
    json: &'a mut Lenient<'de>,
    is_first: bool,
}

impl Entries<'_, '_> {
    /// Moves to the next entry; false if there is none.
    fn advance(&mut self, close: u8) -> Result<bool> {
        if self.json.peek()? == close {
            return Ok(false);
        }
        if !std::mem::take(&mut self.is_first) {
            self.json.eat(b',')?;
            self.json.peek()?;
        }
        Ok(true)
    }
}

impl<'de> SeqAccess<'de> for Entries<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if !self.advance(b']')? {
            return Ok(None);
        }
        seed.deserialize(&mut *self.json).map(Some)
    }
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        if !self.advance(b'}')? {
            return Ok(None);
        }
        seed.deserialize(Name(self.json.piece()?.into_text())).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value> {
        self.json.eat(b':')?;
        seed.deserialize(&mut *self.json)
    }
}

/// The name of a member.
struct Name<'de>(Cow<'de, str>);

impl<'de> Deserializer<'de> for Name<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visit_text(self.0, visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_enum(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

impl<'de> EnumAccess<'de> for Name<'de> {
    type Error = Error;
    type Variant = UnitOnly;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, UnitOnly)> {
        Ok((seed.deserialize(self)?, UnitOnly))
    }
}

/// A unit variant: a name without content.
struct UnitOnly;

impl<'de> serde::de::VariantAccess<'de> for UnitOnly {
    type Error = Error;

    fn unit_variant(self) -> Result<()> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value> {
        Err(Error::custom("the name of a member has no value of its own"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value> {
        Err(Error::custom("the name of a member has no value of its own"))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value> {
        Err(Error::custom("the name of a member has no value of its own"))
    }
}
