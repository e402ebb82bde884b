//! The input and the answers of a rule.

use crate::class::{Class, WORD};
use crate::rules::MARKER_START;

/// A text with what is known before it. Rules look back only through this.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) text: &'a [u8],
    /// Nothing before this is visible: the text begins here, or a marker ends here. Both are word boundaries.
    pub(crate) floor: usize,
}

/// The answer of a rule about one position.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// No secret begins here, whatever follows.
    No,
    /// A secret, whatever follows.
    Found(Found),
    /// Undecided: more text is needed.
    Pending(Pending),
}

/// A secret.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) kind: Kind,
    pub(crate) then: Then,
}

/// What belongs to a secret after the redacted part.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Then {
    Text,
    /// More of the same secret, as long as it is of this class.
    Swallow(&'static Class),
    /// The rest of the literal of this rule, and how many bytes of it were seen.
    Rest {
        rule: u16,
        done: usize,
    },
    /// The body of a key block, up to its END line.
    Block,
    /// The body of a key of PuTTY, up to its last line.
    Putty,
    /// Lines of a key block whose BEGIN line was not seen.
    Lines,
}

/// A secret may have begun at the end of the text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    /// Text from here on is held back.
    pub(crate) hold: usize,
    pub(crate) firm: bool,
    /// What it is if the text ends here.
    pub(crate) at_end: Option<Found>,
    /// What it may become if the text goes on.
    pub(crate) begun: Option<Found>,
}

impl Pending {
    /// Nothing distinctive yet: held from here on, but only briefly.
    pub(crate) fn brief(hold: usize) -> Self {
        Self { hold, firm: false, at_end: None, begun: None }
    }

    /// A secret seems to have begun. `told` says whether it is one even if the text ends here.
    pub(crate) fn begun(found: Found, told: bool) -> Self {
        Self { hold: found.start, firm: true, at_end: told.then_some(found), begun: Some(found) }
    }
}

/// A kind of secret: its index in [`crate::Rules`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind(pub(crate) u16);

impl<'a> View<'a> {
    /// The byte before `at`.
    pub(crate) fn before(&self, at: usize) -> Option<u8> {
        if at > self.floor { Some(self.text[at - 1]) } else { None }
    }

    /// The visible text before `at`, at most `most` bytes.
    pub(crate) fn behind(&self, at: usize, most: usize) -> &'a [u8] {
        &self.text[self.floor.max(at.saturating_sub(most)).min(at)..at]
    }

    /// True when a word may begin at `at`. Before it there is no part of a word. These only look like one:
    /// escapes of JSON (`\n`, `\u003d`) and of URLs (`%3D`), and terminal colours.
    pub(crate) fn word_begins(&self, at: usize) -> bool {
        let Some(before) = self.before(at) else { return true };
        if !WORD.has(before) && before != b'-' {
            return true;
        }
        let behind = self.behind(at, 6);
        match behind {
            // base64url has hyphens within.
            [.., before, b'-'] if WORD.has(*before) => false,
            [.., b'-'] => true,
            [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => true,
            [.., b'%', a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => true,
            [b'\\', b'u', rest @ ..] => rest.len() == 4 && rest.iter().all(u8::is_ascii_hexdigit),
            [.., b'm'] => ends_colour(self.behind(at, COLOUR)),
            _ => false,
        }
    }
}

/// The longest terminal colour that is recognised, with its escape as JSON writes it.
const COLOUR: usize = 32;

/// A terminal colour: `ESC[1;33m`.
fn ends_colour(text: &[u8]) -> bool {
    let Some(text) = text.strip_suffix(b"m") else { return false };
    let numbers = text.iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    let Some(text) = text[..text.len() - numbers].strip_suffix(b"[") else { return false };
    text.ends_with(b"\x1b") || text.ends_with(b"\\u001b") || text.ends_with(b"\\u001B")
}

/// How much of `word` is at `at`.
pub(crate) enum Stands {
    No,
    /// The text ends within it.
    Partly,
    Whole,
}

pub(crate) fn stands(text: &[u8], at: usize, word: &[u8]) -> Stands {
    compare(text, at, word, |a, b| a == b)
}

/// `word` is in lower case.
pub(crate) fn stands_in_any_case(text: &[u8], at: usize, word: &[u8]) -> Stands {
    compare(text, at, word, |a, b| a.to_ascii_lowercase() == b)
}

fn compare(text: &[u8], at: usize, word: &[u8], same: impl Fn(u8, u8) -> bool) -> Stands {
    let there = &text[at..text.len().min(at + word.len())];
    if !there.iter().zip(word).all(|(a, b)| same(*a, *b)) {
        Stands::No
    } else if there.len() < word.len() {
        Stands::Partly
    } else {
        Stands::Whole
    }
}

/// True when no UTF-8 character is cut at `at`.
pub(crate) fn is_char_boundary(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|byte| byte & 0xc0 != 0x80)
}

/// Decides about a run that ends at `found.end`. A run directly before a marker is not judged: it was
/// judged together with what the marker replaced. So redacting twice is the same as redacting once.
pub(crate) fn unless_marked(text: &[u8], found: Found, secret: bool) -> Verdict {
    match stands(text, found.end, MARKER_START.as_bytes()) {
        Stands::Whole => Verdict::No,
        Stands::Partly if text.len() > found.end => {
            let at_end = secret.then_some(found);
            Verdict::Pending(Pending { hold: found.start, firm: secret, at_end, begun: at_end })
        }
        Stands::Partly | Stands::No => {
            if secret {
                Verdict::Found(found)
            } else {
                Verdict::No
            }
        }
    }
}
