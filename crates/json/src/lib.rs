//! Reads JSON of other programs, including strings that were cut in the middle of a character.
//!
//! JavaScript cuts strings by UTF-16 units, so its JSON can contain half a character: `\ud83d` without
//! `\ude00`. A Rust string cannot, and `serde_json` refuses the whole document. This crate reads such a
//! half as U+FFFD. The rest of the text does not change.
//!
//! ```
//! let text: String = turnstream_json::from_str(r#""cut \ud83d""#)?;
//! assert_eq!(text, "cut \u{FFFD}");
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! - [`from_str`] and [`from_slice`] read documents. `serde_json` reads first; a refused document is read
//!   again.
//! - [`Piece`] is text that continues in the next event. It knows whether it begins or ends with a half.
//! - [`Seam`] joins pieces: two matching halves become a character.
//! - [`Lenient`] is the deserializer for documents with halves.
//! - [`FormatWords`] says in the words of JSON or TOML why serde refused a value.

mod format_words;
mod half;
mod lenient;
mod piece;
mod seam;

pub use format_words::FormatWords;
pub use half::has_lone_half;
pub use lenient::Lenient;
pub use piece::{PIECE, Piece, owned};
pub use seam::Seam;

use serde::Deserialize;
use serde_json::{Error, Result};

/// Like [`serde_json::from_str`], but reads half characters as U+FFFD.
pub fn from_str<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T> {
    serde_json::from_str(text).or_else(|error| again(text, error))
}

/// Like [`serde_json::from_slice`], but reads half characters as U+FFFD.
pub fn from_slice<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    serde_json::from_slice(bytes).or_else(|error| match std::str::from_utf8(bytes) {
        Ok(text) => again(text, error),
        Err(_) => Err(error),
    })
}

/// Reads a refused document again, if a half was the reason.
#[cold]
fn again<'a, T: Deserialize<'a>>(text: &'a str, error: Error) -> Result<T> {
    match Lenient::new(text) {
        Some(mut json) => T::deserialize(&mut json),
        None => Err(error),
    }
}
