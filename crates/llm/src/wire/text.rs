//! A string of a payload, borrowed unless it has escapes.

use turnstream_json::Piece;

/// `Option<Cow<str>>` never borrows with serde's derive; this does, and it knows whether a character of it was cut.
pub(crate) type Str<'a> = Piece<'a>;

/// The text, unless it is missing or empty: providers write `""` where they mean nothing (AstrBot #6661).
pub(crate) fn filled<'s>(text: &'s Option<Str<'_>>) -> Option<&'s str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// The same for content, which is handed on: what had to be unescaped is not copied once more.
pub(crate) fn taken<'a>(text: &mut Option<Str<'a>>) -> Option<Str<'a>> {
    text.take().filter(|text| !text.is_empty())
}
