//! Sizes as people write them.

use serde::{Deserialize, Deserializer};

/// A number of bytes: `"10GB"`, `"64KiB"`, or a bare number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

/// `500KB`, `10MB`, `2GB` (thousands), `64KiB`, `10MiB`, `2GiB` (powers of two), or a bare number of bytes.
pub(super) fn parse(text: &str) -> Result<Size, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let bytes = match unit {
        "" | "B" => Some(1),
        "KB" => Some(1_000),
        "MB" => Some(1_000_000),
        "GB" => Some(1_000_000_000),
        "TB" => Some(1_000_000_000_000),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        "TiB" => Some(1 << 40),
        _ => None,
    };
    let whole = number.parse::<u64>().ok().zip(bytes).and_then(|(number, unit)| number.checked_mul(unit));
    whole
        .map(Size)
        .ok_or_else(|| format!("{text:?} is not a size, for example 500MB, 10GiB or a number of bytes"))
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

#[cfg(test)]
mod tests {
    use super::{Size, parse};

    #[test]
    fn sizes_are_read_as_they_are_written() {
        assert_eq!(parse("7"), Ok(Size(7)));
        assert_eq!(parse("500KB"), Ok(Size(500_000)));
        assert_eq!(parse("10MB"), Ok(Size(10_000_000)));
        assert_eq!(parse("2GiB"), Ok(Size(2 << 30)));
        for bad in ["", "MB", "1 MB", "-1", "1mb", "1.5GB", "99999999999TB"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
