//! Values after names that say that they are secret: `password = "…"`, `API_KEY=…`, `"token": "…"`.

use crate::class::{BARE, ELEMENT, ENTRY, QUOTED};
use crate::name::{self, Begun, By, Named, Quote, Separator, Sort, Word};
use crate::scan::Scanner;
use crate::spaced;
use crate::token::CAP;
use crate::url;
use crate::value;
use crate::view::{Found, Kind, Pending, Then, Verdict, View, is_char_boundary};

pub(crate) fn verify(scanner: &Scanner, view: &View<'_>, at: usize, kind: Kind, word: &Word) -> Verdict {
    let text = view.text;
    let nothing_yet = Verdict::Pending(Pending::brief(text.len()));
    let end = match word.ends_name(view, at) {
        Named::No => return Verdict::No,
        Named::Cut => return nothing_yet,
        Named::Until(end) => end,
    };
    let mut separated = name::separator(text, end);
    if let Separator::None = separated {
        separated = name::element(view, at, end);
    }
    if let Separator::None = separated {
        separated = spaced::separator(view, at, end);
    }
    let begun = match separated {
        Separator::None => return Verdict::No,
        Separator::Cut => return nothing_yet,
        Separator::Value(begun) => begun,
    };
    let start = begun.value;
    let own = match begun.quote {
        Some(quote) => quoted(text, kind, word.sort, &begun, quote),
        None => bare(text, kind, word.sort, &begun),
    };
    // A token as the value is more specific than the name.
    match scanner.inside(view, start) {
        Verdict::No => own,
        Verdict::Found(found) => Verdict::Found(found),
        Verdict::Pending(inner) => {
            let (at_end, begun) = match own {
                Verdict::No => (None, None),
                Verdict::Found(found) => (Some(found), Some(found)),
                Verdict::Pending(own) => (own.at_end, own.begun),
            };
            let (at_end, begun) = (inner.at_end.or(at_end), inner.begun.or(begun));
            Verdict::Pending(Pending { hold: start, firm: true, at_end, begun })
        }
    }
}

fn quoted(text: &[u8], kind: Kind, sort: Sort, begun: &Begun, quote: Quote) -> Verdict {
    let start = begun.value;
    let found = |end, then| Found { start, end, kind, then };
    let class = if quote.sign == b'<' { &ELEMENT } else { &QUOTED };
    let mut at = start;
    let cut = loop {
        let Some(byte) = text.get(at) else { break true };
        if at - start >= CAP && is_char_boundary(text, at) {
            return Verdict::Found(found(at, Then::Swallow(class)));
        }
        match byte {
            byte if *byte == quote.sign => break false,
            b'\\' => match text.get(at + 1) {
                None => break true,
                Some(sign) if quote.escaped && (*sign == quote.sign || *sign == b'\\') => break false,
                // A line end within a string: this is text.
                Some(b'n' | b'r' | b't') => return Verdict::No,
                Some(_) => at += 1,
            },
            // A marker, or an index.
            b'[' => return Verdict::No,
            // Values with spaces are skipped: most of them are text for people.
            byte if *byte <= b' ' => return Verdict::No,
            _ => {}
        }
        at += 1;
    };
    let value = &text[start..at.min(text.len())];
    if cut {
        let length = text.len() - start;
        let partly = match begun.by {
            _ if sort == Sort::Login => is_partly_login(value),
            // Code follows a type in angle brackets too.
            By::Loose if quote.sign == b'<' => {
                let told = is_secret_in_quotes(value, sort, begun.by) || (length >= 8 && value::mixes(value));
                told && !value::is_code(value) && !value::is_placeholder(value)
            }
            By::Comma => length >= 8 && value::mixes(value) && !value::is_placeholder(value),
            By::Tight | By::Loose | By::Entry => length >= 4 && !value::is_placeholder(value),
        };
        return Verdict::Pending(pending(found(text.len(), Then::Swallow(class)), value, partly));
    }
    if is_secret_in_quotes(value, sort, begun.by) {
        Verdict::Found(found(at, Then::Text))
    } else {
        Verdict::No
    }
}

fn bare(text: &[u8], kind: Kind, sort: Sort, begun: &Begun) -> Verdict {
    let start = begun.value;
    let class = if begun.by == By::Entry { &ENTRY } else { &BARE };
    let end = class.run(text, start, start + CAP);
    let found = |end, then| Found { start, end, kind, then };
    if end - start == CAP {
        return Verdict::Found(found(end, Then::Swallow(class)));
    }
    // What ends a sentence is not part of the value.
    let trimmed = text[start..end].iter().rev().take_while(|byte| matches!(byte, b'.' | b':')).count();
    let value = &text[start..end - trimmed];
    if end == text.len() {
        let partly = is_bare_secret(value, sort, begun.by, Follows::Text)
            || (sort == Sort::Login && is_partly_login(value))
            || (sort != Sort::Login && value.len() >= 8 && value::mixes(value) && !value::is_code(value))
            || (begun.by == By::Tight && value.len() >= 11 && value::is_number(value));
        let told = partly && !value::is_placeholder(value);
        return Verdict::Pending(pending(found(end, Then::Swallow(class)), value, told));
    }
    let follows = match text[end] {
        b'(' | b'{' | b'<' => return Verdict::No,
        // An index, or a marker.
        b'[' => return Verdict::No,
        b';' | b',' | b')' | b'}' | b']' | b'&' | b'|' | b'>' => Follows::Code,
        _ => Follows::Text,
    };
    if is_bare_secret(value, sort, begun.by, follows) {
        Verdict::Found(found(end - trimmed, Then::Text))
    } else {
        Verdict::No
    }
}

/// A value at which the text ends.
fn pending(found: Found, value: &[u8], told: bool) -> Pending {
    let stays_other = value::is_template(value) || value::is_surely_code(value);
    Pending { begun: (!stays_other).then_some(found), ..Pending::begun(found, told) }
}

/// User and password in base64, of which the end is missing.
fn is_partly_login(value: &[u8]) -> bool {
    value.len() >= 8 && value::decodes_to_text(value)
}

/// What a bare value is followed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follows {
    Text,
    /// A sign that ends an expression: the value may be a name.
    Code,
}

/// Judges a whole value in quotes.
pub(crate) fn is_secret_in_quotes(text: &[u8], sort: Sort, by: By) -> bool {
    if value::is_placeholder(text) || value::is_code(text) {
        return false;
    }
    match (by, sort) {
        (By::Comma, Sort::Password | Sort::Key) => value::looks_random(text),
        (_, Sort::Login) => value::decodes_to_user_and_password(text),
        (By::Entry, _) => url::is_secret(text),
        (By::Tight | By::Loose, Sort::Password) => text.len() >= 6 && value::is_password(text),
        (By::Tight | By::Loose, Sort::Key) => text.len() >= 10 && value::looks_generated(text),
    }
}

fn is_bare_secret(text: &[u8], sort: Sort, by: By, follows: Follows) -> bool {
    if value::is_placeholder(text) || value::is_code(text) {
        return false;
    }
    match (sort, by, follows) {
        (Sort::Password, By::Tight, _) | (Sort::Password, By::Loose, Follows::Text) => {
            text.len() >= 6 && value::is_password(text)
        }
        (Sort::Key, By::Tight, _) => text.len() >= 10 && value::looks_generated(text),
        (Sort::Password, By::Loose, Follows::Code) | (Sort::Key, By::Loose, _) => value::looks_random(text),
        (Sort::Login, By::Tight | By::Loose | By::Entry, _) => value::decodes_to_user_and_password(text),
        (Sort::Password | Sort::Key, By::Entry, _) => url::is_secret(text),
        // Only quoted values follow a comma.
        (_, By::Comma, _) => false,
    }
}
