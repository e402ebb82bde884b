//! JSON web tokens: three parts in base64url, of which the first two are JSON objects (`eyJ` is `{"`).

use crate::class::{URLSAFE, URLSAFE_DOT};
use crate::token::CAP;
use crate::view::{Found, Kind, Pending, Stands, Then, Verdict, View, stands};

pub(crate) const BEGINNING: &[u8] = b"eyJ";
/// The longest header. Longer runs are ordinary JSON in base64, most of which is not secret.
const HEADER: usize = 512;
const SHORTEST: usize = 12;
/// How headers begin: `alg`, `typ`, `kid`, `enc`, `cty`, `jku`, `x5t`, `zip`, `jwk` as the first member.
const HEADERS: &[&[u8]] =
    &[b"hbGci", b"0eXAi", b"raWQi", b"lbmMi", b"jdHki", b"qa3Ui", b"4NXQi", b"6aXAi", b"qd2si"];

pub(crate) fn verify(view: &View<'_>, at: usize, kind: Kind) -> Verdict {
    let text = view.text;
    if !view.word_begins(at) || view.before(at) == Some(b'.') {
        return Verdict::No;
    }
    let header = match stands(text, at, BEGINNING) {
        Stands::No => return Verdict::No,
        Stands::Partly => return Verdict::Pending(Pending::brief(at)),
        Stands::Whole => at + BEGINNING.len(),
    };
    let found = |end, then| Found { start: at, end, kind, then };
    let cut = |known| Verdict::Pending(Pending::begun(found(text.len(), Then::Swallow(&URLSAFE_DOT)), known));
    let known = HEADERS.iter().any(|word| text[header..].starts_with(word));
    let dot = URLSAFE.run(text, header, header + HEADER);
    if dot == text.len() {
        return cut(known);
    }
    if text[dot] != b'.' || dot - header < SHORTEST {
        return Verdict::No;
    }
    let payload = match stands(text, dot + 1, BEGINNING) {
        Stands::No => return Verdict::No,
        Stands::Partly => return cut(known),
        Stands::Whole => dot + 1 + BEGINNING.len(),
    };
    let limit = at + CAP;
    let second = URLSAFE.run(text, payload, limit);
    if second == limit {
        return Verdict::Found(found(second, Then::Swallow(&URLSAFE_DOT)));
    }
    if second == text.len() {
        return cut(true);
    }
    if text[second] != b'.' {
        // Without a signature: `alg` is `none`, or the text was cut by someone. It is still a token.
        let end = if second - payload >= SHORTEST {
            Verdict::Found(found(second, Then::Text))
        } else {
            Verdict::No
        };
        return end;
    }
    let end = URLSAFE.run(text, second + 1, limit);
    if end == limit {
        Verdict::Found(found(end, Then::Swallow(&URLSAFE_DOT)))
    } else if end == text.len() {
        cut(true)
    } else {
        // The dot ends a sentence if nothing follows it.
        Verdict::Found(found(if end == second + 1 { second } else { end }, Then::Text))
    }
}
