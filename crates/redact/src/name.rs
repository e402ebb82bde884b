//! Names that say that a secret follows, and the text between such a name and its value.

use crate::view::{Stands, View, stands_in_any_case};

/// A word in a name.
#[derive(Debug)]
pub(crate) struct Word {
    /// The text to find, in lower case.
    pub(crate) word: &'static [u8],
    /// One of these must come before it.
    before: &'static [&'static [u8]],
    pub(crate) sort: Sort,
}

/// The kind of value after a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// A password of a person: short, and with digits or signs if it is good.
    Password,
    /// A generated value.
    Key,
    /// User and password in base64.
    Login,
}

const ANY: &[&[u8]] = &[b""];
/// `key` is everywhere in code; these make it a secret.
const KEYS: &[&[u8]] = &[
    b"api",
    b"access",
    b"account",
    b"auth",
    b"private",
    b"encryption",
    b"signing",
    b"secret",
    b"master",
    b"service",
    b"subscription",
    b"shared",
    b"license",
    b"app",
    b"admin",
    b"storage",
];

/// `password` is found by its third letter and on: `ssw` is rare, `pas` is not.
pub(crate) static WORDS: &[Word] = &[
    Word { word: b"ssword", before: &[b"pa"], sort: Sort::Password },
    Word { word: b"sswd", before: &[b"pa"], sort: Sort::Password },
    Word { word: b"ssphrase", before: &[b"pa"], sort: Sort::Password },
    Word { word: b"pwd", before: ANY, sort: Sort::Password },
    // `DB_PASS`. Also a step of a renderer or a compiler, so its value must look generated.
    Word { word: b"_pass", before: ANY, sort: Sort::Key },
    Word { word: b"secret", before: ANY, sort: Sort::Key },
    Word { word: b"token", before: ANY, sort: Sort::Key },
    Word { word: b"key", before: KEYS, sort: Sort::Key },
    Word { word: b"credential", before: ANY, sort: Sort::Key },
    // `"auth": "…"` of Docker, `_auth=…` of npm.
    Word { word: b"uth", before: &[b"a"], sort: Sort::Login },
];

/// Words that may follow in a name of a secret. `token_type` and `password_hash` are not such names.
const TAILS: &[&[u8]] = &[
    b"key",
    b"access",
    b"token",
    b"secret",
    b"value",
    b"base",
    b"prod",
    b"production",
    b"dev",
    b"live",
    b"staging",
    b"admin",
    b"root",
    b"db",
    b"hex",
    b"raw",
    b"base64",
];
const TAIL: usize = 32;

/// Does a name end in this word?
#[derive(Debug)]
pub(crate) enum Named {
    No,
    /// The text ends within the name.
    Cut,
    /// It ends here.
    Until(usize),
}

impl Word {
    pub(crate) fn ends_name(&self, view: &View<'_>, at: usize) -> Named {
        let after_word =
            view.before(at).is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-'));
        if !self.before[0].is_empty() && !after_word {
            return Named::No;
        }
        if !self.before.iter().any(|before| stands_before(view, at, before)) {
            return Named::No;
        }
        match stands_in_any_case(view.text, at, self.word) {
            Stands::No => Named::No,
            Stands::Partly => Named::Cut,
            Stands::Whole => match (tail(view.text, at + self.word.len()), self.sort) {
                // `authToken` is named by its last word.
                (Named::Until(end), Sort::Login) if end > at + self.word.len() => Named::No,
                (named, Sort::Login | Sort::Password | Sort::Key) => named,
            },
        }
    }
}

/// The word in any case, with `_`, `-` or nothing between.
fn stands_before(view: &View<'_>, at: usize, word: &[u8]) -> bool {
    if word.is_empty() {
        return true;
    }
    let behind = view.behind(at, word.len() + 1);
    let behind = behind.strip_suffix(b"_").or_else(|| behind.strip_suffix(b"-")).unwrap_or(behind);
    behind.len() >= word.len() && behind[behind.len() - word.len()..].eq_ignore_ascii_case(word)
}

/// The rest of the name, if it is made of words that may follow.
fn tail(text: &[u8], from: usize) -> Named {
    let length = text[from..]
        .iter()
        .take(TAIL)
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        .count();
    if length == TAIL {
        return Named::No;
    }
    if from + length == text.len() {
        return Named::Cut;
    }
    let mut rest = &text[from..from + length];
    while !rest.is_empty() {
        let word = match rest {
            [b'_' | b'-' | b'0'..=b'9', ..] => 1,
            _ => {
                match TAILS.iter().filter(|tail| starts_in_any_case(rest, tail)).map(|tail| tail.len()).max()
                {
                    Some(length) => length,
                    None => return Named::No,
                }
            }
        };
        rest = &rest[word..];
    }
    Named::Until(from + length)
}

fn starts_in_any_case(text: &[u8], word: &[u8]) -> bool {
    text.len() >= word.len() && text[..word.len()].eq_ignore_ascii_case(word)
}

/// What follows a name.
#[derive(Debug)]
pub(crate) enum Separator {
    /// No value.
    None,
    /// The text ends before a value can begin.
    Cut,
    Value(Begun),
}

/// A value has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    /// The position after the opening quote.
    pub(crate) value: usize,
    pub(crate) quote: Option<Quote>,
    pub(crate) by: By,
}

/// How a value is quoted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quote {
    pub(crate) sign: u8,
    /// Behind backslashes: the text is itself within a string.
    pub(crate) escaped: bool,
}

/// The separator between name and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// `NAME=value`.
    Tight,
    /// `name: value`, `name = value`.
    Loose,
    /// `"name", "value"`.
    Comma,
    /// `name value` in a file that has nothing but such pairs.
    Entry,
}

const SPACES: usize = 16;
/// Names are not longer.
const LONGEST_NAME: usize = 48;

/// Reads from the end of a name to the beginning of its value.
pub(crate) fn separator(text: &[u8], end: usize) -> Separator {
    let mut at = end;
    let closed = quote(text, &mut at).is_some();
    // Not without a quote: the markers of this crate end in names.
    if closed && text.get(at) == Some(&b']') {
        at += 1;
    }
    let before = spaces(text, &mut at);
    match &text[at..] {
        [b'|'] | [b'|', b'|'] | [b'?', b'?'] => return cut(before),
        // Assigned if there is none yet.
        [b'|', b'|', b'=', ..] | [b'?', b'?', b'=', ..] => at += 2,
        [b'?', ..] => at += 1,
        _ => {}
    }
    let Some(sign) = text.get(at) else { return cut(before) };
    let comma = *sign == b',';
    if comma && !closed {
        return Separator::None;
    }
    let signs =
        text[at..].iter().take(3).take_while(|byte| matches!(byte, b'=' | b':' | b'>' | b'!' | b',')).count();
    match &text[at..at + signs] {
        b"=" | b":" | b":=" | b"=>" | b"==" | b"===" | b"!=" | b"!==" | b"," => at += signs,
        // It may still become one.
        b"!" if at + signs == text.len() => return Separator::Cut,
        _ => return Separator::None,
    }
    let after = spaces(text, &mut at);
    if before > SPACES || after > SPACES {
        return Separator::None;
    }
    let by = match sign {
        b',' => By::Comma,
        b'=' if before + after == 0 => By::Tight,
        _ => By::Loose,
    };
    if at == text.len() {
        return Separator::Cut;
    }
    let mut value = at;
    // `b"..."`, `r"..."`, `f"..."`, `@"..."`, `$"..."`: the sign belongs to the quote.
    if let [b'b' | b'r' | b'f' | b'u' | b'@' | b'$', b'"' | b'\'', ..] = text[at..] {
        value += 1;
    }
    let opening = value;
    let quote = quote(text, &mut value);
    if let Some(first) = quote
        && !tripled(text, &mut value, first)
    {
        return Separator::Cut;
    }
    match quote {
        None if value > opening => Separator::Cut,
        None if comma => Separator::None,
        _ => Separator::Value(Begun { value, quote, by }),
    }
}

fn cut(spaces: usize) -> Separator {
    if spaces > SPACES { Separator::None } else { Separator::Cut }
}

fn spaces(text: &[u8], at: &mut usize) -> usize {
    let from = *at;
    while *at - from <= SPACES && matches!(text.get(*at), Some(b' ' | b'\t')) {
        *at += 1;
    }
    *at - from
}

/// A quote, behind up to seven backslashes. Backslashes at the end of the text are passed over without one.
pub(crate) fn quote(text: &[u8], at: &mut usize) -> Option<Quote> {
    let slashes = text[*at..].iter().take(7).take_while(|byte| **byte == b'\\').count();
    match text.get(*at + slashes) {
        Some(sign @ (b'"' | b'\'' | b'`')) => {
            *at += slashes + 1;
            Some(Quote { sign: *sign, escaped: slashes > 0 })
        }
        None => {
            *at += slashes;
            None
        }
        Some(_) => None,
    }
}

/// Passes over the rest of a quote that is three of the same, as in Python. False if the text ends before
/// that can be told.
fn tripled(text: &[u8], value: &mut usize, first: Quote) -> bool {
    let mut at = *value;
    for _ in 0..2 {
        match quote(text, &mut at) {
            Some(next) if next.sign == first.sign && next.escaped == first.escaped => {}
            // Only behind the second one there is anything to wait for: `"` alone begins a value.
            _ => return at < text.len() || at == *value,
        }
        if at == text.len() {
            return false;
        }
    }
    *value = at;
    true
}

/// `<name>value</name>`: the content of an element whose name ends at `end`, and of which a word stands at
/// `at`.
pub(crate) fn element(view: &View<'_>, at: usize, end: usize) -> Separator {
    let behind = view.behind(at, LONGEST_NAME);
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
    let name = behind.iter().rev().take_while(|byte| part(byte)).count();
    // `Vec<Token>` and `parse::<Token>` are types.
    let opens = match &behind[..behind.len() - name] {
        [.., before, b'<'] => !before.is_ascii_alphanumeric() && !matches!(before, b':' | b'_'),
        [b'<'] => true,
        _ => false,
    };
    match view.text.get(end..) {
        Some([b'>']) if opens => Separator::Cut,
        Some([b'>', ..]) if opens => {
            let quote = Some(Quote { sign: b'<', escaped: false });
            Separator::Value(Begun { value: end + 1, quote, by: By::Loose })
        }
        _ => Separator::None,
    }
}

/// The kind of value of a member with this name, if the name says that it is a secret.
#[cfg(feature = "json")]
pub(crate) fn announces(name: &str) -> Option<Sort> {
    let view_end = format!("{name}=");
    let text = view_end.as_bytes();
    let view = View { text, floor: 0 };
    (0..name.len()).find_map(|at| {
        let word = WORDS
            .iter()
            .find(|word| matches!(word.ends_name(&view, at), Named::Until(end) if end == name.len()));
        word.map(|word| word.sort)
    })
}
