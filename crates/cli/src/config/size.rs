//! Sizes as people write them.

use super::keys::{FromVariable, Limit};
use bytesize::ByteSize;
use serde::{Deserialize, Deserializer};

/// A number of bytes: `"10GB"`, `"64KiB"`, or a bare number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size(pub(super) u64);

/// `500KB`, `10MB`, `2GB` (thousands), `64KiB`, `10MiB`, `2GiB` (powers of two), or a bare number of bytes.
fn parse(text: &str) -> Result<Size, String> {
    let parsed = text.parse::<ByteSize>().ok().map(|size| size.as_u64());
    // What is too large for a number comes out as the largest.
    let size = parsed.filter(|bytes| *bytes < u64::MAX).map(Size);
    size.ok_or_else(|| format!("{text:?} is not a size, for example 500MB, 10GiB or a number of bytes"))
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "it must be a size, for example \"500MB\", \"10GiB\" or a number of bytes"
        )]
        enum Written {
            Text(String),
            Bytes(u64),
        }
        match Written::deserialize(deserializer)? {
            Written::Text(text) => parse(&text).map_err(serde::de::Error::custom),
            Written::Bytes(bytes) => Ok(Self(bytes)),
        }
    }
}

impl FromVariable for Size {
    fn from_variable(text: &str) -> Result<Self, String> {
        parse(text)
    }
}

impl Limit for Size {
    fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::{Size, parse};

    #[test]
    fn sizes_are_read_as_they_are_written() {
        assert_eq!(parse("7"), Ok(Size(7)));
        assert_eq!(parse("7B"), Ok(Size(7)));
        assert_eq!(parse("500KB"), Ok(Size(500_000)));
        assert_eq!(parse("10MB"), Ok(Size(10_000_000)));
        assert_eq!(parse("2GiB"), Ok(Size(2 << 30)));
        assert_eq!(parse("3TiB"), Ok(Size(3 << 40)));
        assert_eq!(parse("1.5GB"), Ok(Size(1_500_000_000)));
        for bad in ["", "MB", "-1", "1 parsec", "lots", "99999999999TB"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
