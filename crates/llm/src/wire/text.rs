//! Strings of a payload, borrowed unless they have escapes.

use turnstream_json::Piece;

/// A string that borrows, and that knows whether a character of it was cut. With serde's derive,
/// `Option<Cow<str>>` never borrows.
pub(crate) type Str<'a> = Piece<'a>;

/// The text; `None` if it is missing or empty. Providers write `""` for absent members (AstrBot #6661).
pub(crate) fn filled<'s>(text: &'s Option<Str<'_>>) -> Option<&'s str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// Like [`filled`], but moves the text out, so that unescaped text is not copied again.
pub(crate) fn take_filled<'a>(text: &mut Option<Str<'a>>) -> Option<Str<'a>> {
    text.take().filter(|text| !text.is_empty())
}
