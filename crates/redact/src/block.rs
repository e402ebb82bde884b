//! Private key blocks: from the BEGIN line to the END line, with any line ends, escaped or not.

use crate::class::{BASE64, LABEL};
use crate::view::{Found, Kind, Pending, Stands, Then, Verdict, View, stands};

pub(crate) const BEGINNING: &[u8] = b"-----BEGIN ";
const DASHES: &[u8] = b"-----";
const LABEL_LENGTH: usize = 48;
/// Between the BEGIN line and the key: line ends, escaped or not, quotes, signs of string concatenation,
/// indentation, the number of the line.
const FILLER: usize = 64;
/// This much base64 is a key, and not a word that stands for one.
const BODY: usize = 16;

pub(crate) fn verify(view: &View<'_>, at: usize, kind: Kind) -> Verdict {
    let text = view.text;
    let brief = Verdict::Pending(Pending::brief(at));
    let label = match stands(text, at, BEGINNING) {
        Stands::No => return Verdict::No,
        Stands::Partly => return brief,
        Stands::Whole => at + BEGINNING.len(),
    };
    let close = LABEL.run(text, label, label + LABEL_LENGTH);
    if close == text.len() {
        return brief;
    }
    let name = &text[label..close];
    if !name.ends_with(b"PRIVATE KEY") && !name.ends_with(b"PRIVATE KEY BLOCK") {
        return Verdict::No;
    }
    let from = match stands(text, close, DASHES) {
        Stands::No => return Verdict::No,
        Stands::Partly => return brief,
        Stands::Whole => close + DASHES.len(),
    };
    let body = filler(text, from);
    if body - from > FILLER {
        return Verdict::No;
    }
    if let Number::Cut = number(text, body) {
        return Verdict::Pending(Pending { firm: true, ..Pending::brief(at) });
    }
    let end = BASE64.run(text, body, body + BODY);
    let found = Found { start: at, end, kind, then: Then::Block };
    if end - body == BODY {
        return Verdict::Found(found);
    }
    if end == text.len() {
        // The BEGIN line alone is not a secret.
        let at_end = (end - body >= 4).then_some(found);
        return Verdict::Pending(Pending { firm: true, at_end, ..Pending::brief(at) });
    }
    // `Proc-Type: 4,ENCRYPTED`, `Version: ...`
    let header = text[body..].iter().position(|byte| !byte.is_ascii_alphabetic() && *byte != b'-');
    match header {
        Some(length) if length >= 4 && text[body + length] == b':' => Verdict::Found(found),
        None if text.len() - body < 24 => {
            Verdict::Pending(Pending::begun(Found { end: text.len(), ..found }, true))
        }
        Some(_) | None => Verdict::No,
    }
}

/// The position where the key begins.
pub(crate) fn filler(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => match text.get(at + 1) {
                Some(b'n' | b'r' | b't' | b'"' | b'\'') => at += 2,
                Some(_) | None => at += 1,
            },
            b' ' | b'\t' | b'\r' | b'\n' | b'"' | b'\'' | b'`' | b',' | b';' | b'|' | b'>' | b'(' | b')' => {
                at += 1
            }
            // In the alphabet of keys too, but no key begins with it.
            b'+' => at += 1,
            b'0'..=b'9' => match number(text, at) {
                Number::Until(end) => at = end,
                Number::None | Number::Cut => break,
            },
            _ => break,
        }
    }
    at
}

/// The number of a line, as tools show files: `2\t`, `00002| `, `2: `, `2→`.
enum Number {
    None,
    /// The text ends before this can be decided.
    Cut,
    /// A line number with the sign after it.
    Until(usize),
}

fn number(text: &[u8], at: usize) -> Number {
    let digits = text[at..].iter().take(8).take_while(|byte| byte.is_ascii_digit()).count();
    let end = at + digits;
    match &text[end..] {
        _ if digits == 0 => Number::None,
        [b'\\'] => Number::Cut,
        [b'\\', b't', ..] => Number::Until(end + 2),
        [b'\t' | b'|' | b':', ..] => Number::Until(end + 1),
        rest if rest.starts_with("→".as_bytes()) => Number::Until(end + "→".len()),
        _ => Number::None,
    }
}
