//! Credentials after the name of an authentication scheme: `Authorization: Bearer …`, `Basic …`.

use crate::class::TOKEN;
use crate::name;
use crate::scan::Scanner;
use crate::token::CAP;
use crate::value;
use crate::view::{Found, Kind, Pending, Stands, Then, Verdict, View, stands_in_any_case, unless_marked};

/// Rarer than the beginning of `authorization`. The rest is checked by looking back.
pub(crate) const AUTHORIZATION: &[u8] = b"rization";
const AUTHO: &[u8] = b"autho";
pub(crate) const BEARER: &[u8] = b"bearer";
/// `basic` from its third letter on, for the same reason.
pub(crate) const BASIC: &[u8] = b"sic";
const BA: &[u8] = b"ba";

/// The text between a header's name and the credentials.
const SCHEMES: &[&[u8]] = &[b"bearer", b"basic", b"token", b"bot", b"apikey", b"api-key", b"key", b"digest"];

/// `Authorization: scheme credentials`, in headers, JSON and code.
pub(crate) fn authorization(scanner: &Scanner, view: &View<'_>, at: usize, kind: Kind) -> Verdict {
    let text = view.text;
    if !view.behind(at, AUTHO.len()).eq_ignore_ascii_case(AUTHO) {
        return Verdict::No;
    }
    let end = match stands_in_any_case(text, at, AUTHORIZATION) {
        Stands::No => return Verdict::No,
        Stands::Partly => return nothing_yet(text),
        Stands::Whole => at + AUTHORIZATION.len(),
    };
    let begun = match name::separator(text, end) {
        name::Separator::None => return Verdict::No,
        name::Separator::Cut => return nothing_yet(text),
        name::Separator::Value(begun) => begun,
    };
    let from = begun.value;
    let word = text[from..].iter().position(|byte| !byte.is_ascii_alphabetic() && *byte != b'-');
    // No name of a scheme is this long.
    let length = word.unwrap_or(text.len() - from).min(12);
    if from + length == text.len() {
        let found = Found { start: from, end: text.len(), kind, then: Then::Swallow(&TOKEN) };
        return Verdict::Pending(Pending::begun(found, false));
    }
    let scheme = &text[from..from + length];
    if text[from + length] == b' ' && SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return credentials(scanner, view, from + length, kind, Judge::Lenient);
    }
    credential(scanner, view, from, kind, Judge::Random)
}

/// `Bearer …` where no header is named.
pub(crate) fn bearer(scanner: &Scanner, view: &View<'_>, at: usize, kind: Kind) -> Verdict {
    let text = view.text;
    if !view.word_begins(at) {
        return Verdict::No;
    }
    match stands_in_any_case(text, at, BEARER) {
        Stands::No => Verdict::No,
        Stands::Partly => nothing_yet(text),
        Stands::Whole => credentials(scanner, view, at + BEARER.len(), kind, Judge::Random),
    }
}

/// `Basic …` where no header is named: user and password in base64.
pub(crate) fn basic(scanner: &Scanner, view: &View<'_>, at: usize, kind: Kind) -> Verdict {
    let text = view.text;
    if !view.behind(at, BA.len()).eq_ignore_ascii_case(BA) || !view.word_begins(at - BA.len()) {
        return Verdict::No;
    }
    match stands_in_any_case(text, at, BASIC) {
        Stands::No => Verdict::No,
        Stands::Partly => nothing_yet(text),
        Stands::Whole => credentials(scanner, view, at + BASIC.len(), kind, Judge::UserAndPassword),
    }
}

/// What the credentials must be.
#[derive(Debug, Clone, Copy)]
enum Judge {
    /// A header was named: anything but a placeholder.
    Lenient,
    Random,
    UserAndPassword,
}

impl Judge {
    fn is_secret(self, text: &[u8]) -> bool {
        if value::is_placeholder(text) {
            return false;
        }
        match self {
            Self::Lenient => text.len() >= 8 && value::mixes(text),
            Self::Random => value::looks_random(text),
            Self::UserAndPassword => value::decodes_to_user_and_password(text),
        }
    }

    fn is_partly_secret(self, text: &[u8]) -> bool {
        self.is_secret(text)
            || match self {
                Self::Lenient => text.len() >= 4 && value::mixes(text) && !value::is_placeholder(text),
                Self::Random => text.len() >= 8 && value::mixes(text) && !value::is_placeholder(text),
                Self::UserAndPassword => text.len() >= 8 && value::decodes_to_text(text),
            }
    }
}

/// Spaces, then the credential.
fn credentials(scanner: &Scanner, view: &View<'_>, from: usize, kind: Kind, judge: Judge) -> Verdict {
    let text = view.text;
    let spaces = text[from..].iter().take_while(|byte| **byte == b' ').count();
    if from + spaces == text.len() {
        return if spaces <= 4 { nothing_yet(text) } else { Verdict::No };
    }
    if spaces == 0 || spaces > 4 {
        return Verdict::No;
    }
    credential(scanner, view, from + spaces, kind, judge)
}

fn credential(scanner: &Scanner, view: &View<'_>, start: usize, kind: Kind, judge: Judge) -> Verdict {
    let text = view.text;
    let end = TOKEN.run(text, start, start + CAP);
    let found = |end, then| Found { start, end, kind, then };
    match scanner.inside(view, start) {
        Verdict::Found(found) => return Verdict::Found(found),
        Verdict::Pending(pending) => {
            let own = judge.is_partly_secret(&text[start..end]);
            let own = (own && end == text.len()).then_some(found(end, Then::Swallow(&TOKEN)));
            let at_end = pending.at_end.or(own);
            let begun = pending.begun.or((end == text.len()).then_some(found(end, Then::Swallow(&TOKEN))));
            return Verdict::Pending(Pending { hold: start, firm: true, at_end, begun });
        }
        Verdict::No => {}
    }
    if end == start + CAP {
        return Verdict::Found(found(end, Then::Swallow(&TOKEN)));
    }
    let value = &text[start..end];
    if end == text.len() {
        return Verdict::Pending(Pending::begun(
            found(end, Then::Swallow(&TOKEN)),
            judge.is_partly_secret(value),
        ));
    }
    let dots = value.iter().rev().take_while(|byte| **byte == b'.').count();
    let secret = judge.is_secret(&value[..value.len() - dots]);
    unless_marked(text, found(end - dots, Then::Text), secret)
}

/// Not a secret so far: nothing is held, but the text is judged again later.
fn nothing_yet(text: &[u8]) -> Verdict {
    Verdict::Pending(Pending::brief(text.len()))
}
