//! Private keys as PuTTY keeps them: from `PuTTY-User-Key-File-3:` to the line with `Private-MAC:`.

use crate::block;
use crate::class::{ALGORITHM, HEX};
use crate::view::{Found, Kind, Pending, Stands, Then, Verdict, View, stands};

pub(crate) const BEGINNING: &[u8] = b"PuTTY-User-Key-File-";
/// `: ` behind the number of the format, which has one digit.
const COLON: &[u8] = b": ";
const NEXT: &[u8] = b"Encryption: ";
const FILLER: usize = 64;
const ALGORITHM_LENGTH: usize = 64;

const LAST: &[u8] = b"Private-MAC: ";
/// Digests of SHA-1 and SHA-256.
const SHORT: usize = 40;
const LONG: usize = 64;

/// The first two lines are not secret. Requiring both avoids matching text about keys.
pub(crate) fn verify(view: &View<'_>, at: usize, kind: Kind) -> Verdict {
    let text = view.text;
    if !view.word_begins(at) {
        return Verdict::No;
    }
    let brief = Verdict::Pending(Pending::brief(at));
    match stands(text, at, BEGINNING) {
        Stands::No => return Verdict::No,
        Stands::Partly => return brief,
        Stands::Whole => {}
    }
    let digit = at + BEGINNING.len();
    match text.get(digit) {
        None => return brief,
        Some(byte) if byte.is_ascii_digit() => {}
        Some(_) => return Verdict::No,
    }
    let name = match stands(text, digit + 1, COLON) {
        Stands::No => return Verdict::No,
        Stands::Partly => return brief,
        Stands::Whole => digit + 1 + COLON.len(),
    };
    let end = ALGORITHM.run(text, name, name + ALGORITHM_LENGTH);
    let next = block::filler(text, end);
    if next == text.len() {
        return if next - end <= FILLER { brief } else { Verdict::No };
    }
    if next == end || next - end > FILLER {
        return Verdict::No;
    }
    match stands(text, next, NEXT) {
        Stands::No => Verdict::No,
        Stands::Partly => brief,
        Stands::Whole => Verdict::Found(Found { start: at, end: next + NEXT.len(), kind, then: Then::Putty }),
    }
}

/// The position after the last line.
pub(crate) fn end_of(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = memchr::memmem::find(&text[from..], LAST) {
        let digest = from + at + LAST.len();
        let end = HEX.run(text, digest, digest + LONG);
        let whole = end - digest == LONG || (end - digest == SHORT && end < text.len());
        if whole {
            return Some(end);
        }
        from = digest;
    }
    None
}
