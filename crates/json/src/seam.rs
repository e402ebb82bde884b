//! Where the pieces of one text meet.

use crate::half::{LOST, pair};
use crate::piece::{Halved, Piece};
use std::borrow::Cow;

/// Where the pieces of one text meet: holds the half that the last one ended with, until it is known what becomes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seam {
    held: Option<u16>,
    lost: bool,
}

impl Seam {
    /// What the next piece adds to the text. Empty when it is only the beginning of a character.
    #[inline]
    pub fn join<'a>(&mut self, piece: Piece<'a>) -> Cow<'a, str> {
        match piece.open() {
            Ok(text) if self.held.is_none() || text.is_empty() => text,
            Ok(text) => {
                self.lost = true;
                self.held = None;
                Cow::Owned(format!("{LOST}{text}"))
            }
            Err(halved) => Cow::Owned(self.join_halved(&halved)),
        }
    }

    #[cold]
    fn join_halved(&mut self, halved: &Halved) -> String {
        let mut text = String::with_capacity(halved.text.len() + 4);
        let (held, first) = (self.held.take(), halved.first);
        match held.zip(first).and_then(|(high, low)| pair(high, low)) {
            Some(character) => text.push(character),
            None => {
                let alone = held.into_iter().chain(first);
                alone.for_each(|_| {
                    text.push(LOST);
                    self.lost = true;
                });
            }
        }
        text.push_str(halved.middle());
        self.lost |= halved.inside;
        self.held = halved.last;
        text
    }

    /// The text as it stands is said once more, from its beginning: what counts now is how that ends.
    pub fn restart<'a>(&mut self, whole: Piece<'a>) -> Cow<'a, str> {
        self.held = None;
        self.join(whole)
    }

    /// The text is over: what stands for a half that was held.
    pub fn end(&mut self) -> Option<char> {
        let alone = self.held.take().map(|_| LOST);
        self.lost |= alone.is_some();
        alone
    }

    /// Whether half a character was lost so far.
    pub fn has_lost(&self) -> bool {
        self.lost
    }

    /// Whether a half waits for the next piece.
    pub fn is_holding(&self) -> bool {
        self.held.is_some()
    }
}
