//! Members whose type may be wrong without a loss for the completion.

use super::Str;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use turnstream_json::PIECE;

/// A string. Any other type is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loose<'a>(pub(crate) Option<Str<'a>>);

/// A count. Any other type is unknown, which is not 0 (link-assistant #249).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count(pub(crate) Option<u64>);

struct LooseVisitor;
struct CountVisitor;

impl<'de: 'a, 'a> Deserialize<'de> for Loose<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(PIECE, LooseVisitor)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

macro_rules! nothing_else {
    ($none:expr) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("anything")
        }

        fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
            Ok($none)
        }

        fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
            Ok($none)
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok($none)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok($none)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($none)
        }
    };
}

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Loose<'de>;

    nothing_else!(Loose(None));

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Loose(None))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Loose(None))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Loose(Some(Str::whole(text))))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Loose(Some(Str::whole(text.to_owned()))))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(Loose(Str::from_wtf8(bytes)))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
        inner.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Count;

    nothing_else!(Count(None));

    fn visit_u64<E: Error>(self, count: u64) -> Result<Self::Value, E> {
        Ok(Count(Some(count)))
    }

    /// Some providers send floats. Below 2^53 an integral float is exact.
    fn visit_f64<E: Error>(self, count: f64) -> Result<Self::Value, E> {
        let whole = (0.0..9_007_199_254_740_992.0).contains(&count) && count.fract() == 0.0;
        Ok(Count(whole.then_some(count as u64)))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Count(None))
    }
}
