//! Secrets after a sign and a few letters: bot tokens of Telegram, signatures in URLs of Azure.

use crate::class::{PERCENT, URLSAFE, WORD};
use crate::view::{Found, Kind, Pending, Stands, Then, Verdict, View, stands, unless_marked};

/// `123456789:AA…`, 35 characters behind the colon.
pub(crate) const TELEGRAM: &[u8] = b":AA";
const TELEGRAM_LENGTH: usize = 35;
/// `sig=` behind `?` or `&`: a digest of 32 bytes in base64, percent-encoded or not.
pub(crate) const SIGNATURE: &[u8] = b"sig=";
const SIGNATURE_LENGTH: usize = 40;

pub(crate) fn telegram(view: &View<'_>, at: usize, kind: Kind) -> Verdict {
    let behind = view.behind(at, 16);
    let digits = behind.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let other = behind.len().checked_sub(digits + 1).map(|other| behind[other]);
    if !(8..=12).contains(&digits) || other.is_some_and(|byte| WORD.has(byte) && !behind.starts_with(b"bot"))
    {
        return Verdict::No;
    }
    let text = view.text;
    let start = at + 1;
    match stands(text, at, TELEGRAM) {
        Stands::No => return Verdict::No,
        Stands::Partly => return Verdict::Pending(Pending::brief(start)),
        Stands::Whole => {}
    }
    let end = URLSAFE.run(text, start, start + TELEGRAM_LENGTH + 1);
    if end - start > TELEGRAM_LENGTH {
        return Verdict::No;
    }
    run(text, start, end, kind, TELEGRAM_LENGTH, &URLSAFE)
}

pub(crate) fn signature(view: &View<'_>, at: usize, kind: Kind) -> Verdict {
    let text = view.text;
    if !matches!(view.before(at), Some(b'?' | b'&' | b';')) {
        return Verdict::No;
    }
    let start = match stands(text, at, SIGNATURE) {
        Stands::No => return Verdict::No,
        Stands::Partly => return Verdict::Pending(Pending::brief(text.len())),
        Stands::Whole => at + SIGNATURE.len(),
    };
    let end = PERCENT.run(text, start, start + crate::token::CAP);
    run(text, start, end, kind, SIGNATURE_LENGTH, &PERCENT)
}

fn run(
    text: &[u8],
    start: usize,
    end: usize,
    kind: Kind,
    min: usize,
    class: &'static crate::class::Class,
) -> Verdict {
    if end == text.len() {
        let found = Found { start, end, kind, then: Then::Swallow(class) };
        return Verdict::Pending(Pending::begun(found, end - start >= 4));
    }
    unless_marked(text, Found { start, end, kind, then: Then::Text }, end - start >= min)
}
