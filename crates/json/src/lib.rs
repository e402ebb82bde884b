//! Reads JSON of other programs: also strings that were cut in the middle of a character.
//!
//! JavaScript cuts strings by UTF-16 units, so its JSON can hold half a character: `\ud83d` without the `\ude00` that
//! belongs behind it. No text in Rust can, and `serde_json` refuses the whole document. Here such a half is read as U+FFFD,
//! and nothing else of the text changes.
//!
//! - [`from_str`] and [`from_slice`] read documents. `serde_json` reads them first; only what it refuses is looked at again.
//! - [`Piece`] is a member whose text goes on in the next event. It says that it begins or ends with a half.
//! - [`Seam`] puts such pieces together: two halves that fit are a character again.
//! - [`Lenient`] is the deserializer behind all that.

mod half;
mod lenient;
mod piece;
mod seam;

pub use half::has_lone_half;
pub use lenient::Lenient;
pub use piece::{PIECE, Piece, owned};
pub use seam::Seam;

use serde::Deserialize;
use serde_json::{Error, Result};

/// Reads a document as [`serde_json::from_str`] does, and halves of characters as U+FFFD.
pub fn from_str<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T> {
    serde_json::from_str(text).or_else(|error| again(text, error))
}

/// Reads a document as [`serde_json::from_slice`] does, and halves of characters as U+FFFD.
pub fn from_slice<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    serde_json::from_slice(bytes).or_else(|error| match std::str::from_utf8(bytes) {
        Ok(text) => again(text, error),
        Err(_) => Err(error),
    })
}

/// Reads what was refused, if a half is the reason.
#[cold]
fn again<'a, T: Deserialize<'a>>(text: &'a str, error: Error) -> Result<T> {
    match Lenient::new(text) {
        Some(mut json) => T::deserialize(&mut json),
        None => Err(error),
    }
}
