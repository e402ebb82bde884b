//! Joins the pieces of one text.

use crate::half::{LOST, pair};
use crate::piece::{Halved, Piece};
use std::borrow::Cow;

/// Joins the pieces of one text. It keeps the half character at the end of a piece until the next piece
/// arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seam {
    held: Option<u16>,
    lost: bool,
}

impl Seam {
    /// What the next piece adds to the text. Empty if it is only half a character.
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

    /// Replaces the text by a repetition of it from the beginning, whose end counts from now on.
    pub fn restart<'a>(&mut self, whole: Piece<'a>) -> Cow<'a, str> {
        self.held = None;
        self.join(whole)
    }

    /// Ends the text. Returns the replacement for a half without its partner.
    pub fn end(&mut self) -> Option<char> {
        let alone = self.held.take().map(|_| LOST);
        self.lost |= alone.is_some();
        alone
    }

    /// Whether a half without its partner was replaced so far.
    pub fn has_lost(&self) -> bool {
        self.lost
    }

    /// Whether a half waits for the next piece.
    pub fn is_holding(&self) -> bool {
        self.held.is_some()
    }
}
