//! Passwords in URLs: `scheme://user:password@host`. Only the password is removed.

use crate::class::{AUTHORITY, PASSWORD};
use crate::scan::Scanner;
use crate::value;
use crate::view::{Found, Kind, Pending, Stands, Then, Verdict, View, stands};

/// Also as some write it in JSON.
pub(crate) const BEGINNINGS: [&[u8]; 2] = [b"://", br":\/\/"];
/// User, password and host together.
const LONGEST: usize = 1024;
const USER: usize = 128;
/// `a:b@c` is how people write about URLs.
const SHORTEST: usize = 3;

pub(crate) fn verify(scanner: &Scanner, view: &View<'_>, at: usize, kind: Kind) -> Verdict {
    let text = view.text;
    let scheme = view.before(at).is_some_and(|byte| byte.is_ascii_alphanumeric());
    if !scheme {
        return Verdict::No;
    }
    let nothing = Verdict::Pending(Pending::brief(text.len()));
    let mut user = None;
    for beginning in BEGINNINGS {
        match stands(text, at, beginning) {
            Stands::No => {}
            Stands::Partly => return nothing,
            Stands::Whole => user = Some(at + beginning.len()),
        }
    }
    let Some(user) = user else { return Verdict::No };
    let end = AUTHORITY.run(text, user, user + LONGEST);
    let authority = &text[user..end];
    let Some(colon) = authority.iter().take(USER).position(|byte| *byte == b':') else {
        return if end == text.len() && authority.len() < USER { nothing } else { Verdict::No };
    };
    if authority[..colon].contains(&b'@') {
        return Verdict::No;
    }
    let password = user + colon + 1;
    // A token in place of the user goes with the password.
    let start = match scanner.inside(view, user) {
        Verdict::No => password,
        Verdict::Found(_) | Verdict::Pending(_) => user,
    };
    let sign = text[password..end].iter().rposition(|byte| *byte == b'@').map(|sign| password + sign);
    let found = |end, then| Found { start, end, kind, then };
    if end == user + LONGEST {
        return match sign {
            Some(sign) => Verdict::Found(found(sign, Then::Text)),
            None => Verdict::No,
        };
    }
    if end == text.len() {
        let at_end = match sign {
            Some(sign) if is_secret(&text[password..sign]) => Some(found(sign, Then::Text)),
            Some(_) => None,
            None if is_port(&text[password..end]) || !is_secret(&text[password..end]) => None,
            None => Some(found(end, Then::Swallow(&PASSWORD))),
        };
        let template = value::is_template(&text[password..end]);
        let begun = (!template).then_some(found(end, Then::Swallow(&PASSWORD)));
        return Verdict::Pending(Pending { hold: start, firm: true, at_end, begun });
    }
    match sign {
        Some(sign) if is_secret(&text[password..sign]) => Verdict::Found(found(sign, Then::Text)),
        Some(_) | None => Verdict::No,
    }
}

fn is_port(text: &[u8]) -> bool {
    text.len() <= 5 && text.iter().all(u8::is_ascii_digit)
}

/// Passwords of examples: `user:password@`, `user:pass@`, `$USER:$PASSWORD@`,
/// `[redacted:…]`.
pub(crate) fn is_secret(password: &[u8]) -> bool {
    const WORDS: &[&[u8]] = &[b"password", b"pass", b"passwd", b"pwd", b"pw", b"secret", b"token"];
    password.len() >= SHORTEST
        && !password.contains(&b'[')
        && !value::is_placeholder(password)
        && !WORDS.iter().any(|word| password.eq_ignore_ascii_case(word))
}
