//! The client whose request made an event.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// The name of a client's token: short, printable text. Cloning shares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor(Arc<str>);

impl Actor {
    /// The most characters of a name.
    pub const LONGEST: usize = 64;

    /// The actor of this name. `None` if it is empty, too long, or has other characters than letters, digits,
    /// spaces and ASCII punctuation.
    pub fn new(name: &str) -> Option<Self> {
        let fits = (1..=Self::LONGEST).contains(&name.chars().count()) && name.chars().all(is_printable);
        fits.then(|| Self(Arc::from(name)))
    }

    /// The actor for any name: what may not be in one becomes `?`, and what is too long is cut. `None` if the
    /// name is empty.
    pub fn cleaned(name: &str) -> Option<Self> {
        let clean = |letter| if is_printable(letter) { letter } else { '?' };
        Self::new(&name.chars().take(Self::LONGEST).map(clean).collect::<String>())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_printable(letter: char) -> bool {
    letter == ' ' || letter.is_ascii_graphic() || letter.is_alphanumeric()
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Actor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Actor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let longest = Self::LONGEST;
        let wanted = || D::Error::custom(format!("an actor has 1 to {longest} printable characters"));
        Self::new(&name).ok_or_else(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::Actor;

    #[test]
    fn a_name_is_short_printable_text() {
        let long = "x".repeat(65);
        for name in ["owner", "ci 7", "Zoë@laptop", "管理", "\"quoted\""] {
            assert_eq!(Actor::new(name).unwrap().as_str(), name);
            assert_eq!(Actor::cleaned(name), Actor::new(name));
        }
        for (name, cleaned) in [
            ("a\nb", "a?b"),
            ("\u{1b}[2J", "?[2J"),
            ("x\u{202e}y", "x?y"),
            ("a\u{200b}b\u{feff}", "a?b?"),
            (long.as_str(), &long[..64]),
        ] {
            assert_eq!(Actor::new(name), None, "{name:?}");
            assert_eq!(Actor::cleaned(name).unwrap().as_str(), cleaned);
        }
        assert_eq!((Actor::new(""), Actor::cleaned("")), (None, None));
    }
}
