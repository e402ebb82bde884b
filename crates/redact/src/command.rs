//! Passwords in arguments of commands that are known by name: `curl -u user:x`, `sshpass -p x`, `mysql
//! -px`. Such short flags mean something else to nearly every other command.

use crate::class::{ARGUMENT, Class, QUOTED};
use crate::name;
use crate::spaced::unmarked;
use crate::token::CAP;
use crate::url;
use crate::value;
use crate::view::{Found, Kind, Pending, Stands, Then, Verdict, View, stands, unless_marked};

/// The flags with the space before them: ` -p` is rarer than `-p`.
pub(crate) const FLAGS: [&[u8]; 3] = [b" -p", b" -u", b" --user"];
/// How much of the line before the flag is searched. Less than what streams keep.
const BEFORE: usize = 112;
const USER: usize = 64;
const SPACES: usize = 4;

/// What a flag means to the command before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// A password, behind spaces or not.
    Password,
    /// A password only if it follows at once.
    Glued,
    /// User and password with a colon between.
    UserAndPassword,
}

pub(crate) fn verify(view: &View<'_>, at: usize, kind: Kind) -> Verdict {
    let text = view.text;
    let nothing_yet = Verdict::Pending(Pending::brief(text.len()));
    let mut partly = false;
    let flag = FLAGS.iter().find(|flag| match stands(text, at, flag) {
        Stands::Whole => true,
        Stands::Partly => {
            partly = true;
            false
        }
        Stands::No => false,
    });
    let Some(flag) = flag else { return if partly { nothing_yet } else { Verdict::No } };
    let Some(means) = means(flag, view, at) else { return Verdict::No };
    let end = at + flag.len();
    let spaces = text[end..].iter().take(SPACES + 1).take_while(|byte| **byte == b' ').count();
    let signs = match text.get(end) {
        // `--user=`
        Some(b'=') if flag.len() > 3 => 1,
        _ => spaces,
    };
    let glued = signs == 0;
    if end + signs == text.len() {
        return nothing_yet;
    }
    if spaces > SPACES || (means == Means::Glued && !glued) || (glued && flag.len() > 3) {
        return Verdict::No;
    }
    let opening = end + signs;
    let mut start = opening;
    let quote = name::quote(text, &mut start);
    if quote.is_none() && start > opening {
        return nothing_yet;
    }
    let class = if quote.is_some() { &QUOTED } else { &ARGUMENT };
    if means == Means::UserAndPassword {
        let user = class.run(text, start, start + USER);
        match text[start..user].iter().position(|byte| *byte == b':') {
            Some(colon) => start += colon + 1,
            None if user == text.len() => return nothing_yet,
            None => return Verdict::No,
        }
    }
    argument(text, start, kind, class, means)
}

/// What the flag at `at` means to the command whose arguments stand before it.
fn means(flag: &[u8], view: &View<'_>, at: usize) -> Option<Means> {
    let line = unmarked(view.behind(at, BEFORE));
    let from =
        line.iter().rposition(|byte| matches!(byte, b'\n' | b'|' | b';' | b'`')).map_or(0, |sign| sign + 1);
    let mut words = line[from..].split(|byte| matches!(byte, b' ' | b'/' | b'"' | b'\'' | b'('));
    let mut any = |names: &[&[u8]]| words.any(|word| names.contains(&word));
    match flag {
        b" -p" if line.ends_with(b"sshpass") => Some(Means::Password),
        b" -p" => {
            any(&[b"mysql", b"mysqldump", b"mysqladmin", b"mariadb", b"mariadb-dump"]).then_some(Means::Glued)
        }
        _ => any(&[b"curl"]).then_some(Means::UserAndPassword),
    }
}

fn argument(text: &[u8], start: usize, kind: Kind, class: &'static Class, means: Means) -> Verdict {
    let end = class.run(text, start, start + CAP);
    let found = |then| Found { start, end, kind, then };
    if end - start == CAP {
        return Verdict::Found(found(Then::Swallow(class)));
    }
    let argument = &text[start..end];
    let secret = match means {
        // `-print` and `-proxy` may follow one of these names by chance.
        Means::Glued => argument.len() >= 4 && value::is_password(argument) && url::is_secret(argument),
        Means::Password | Means::UserAndPassword => url::is_secret(argument),
    };
    if end == text.len() {
        let begun = (!value::is_template(argument)).then_some(found(Then::Swallow(class)));
        return Verdict::Pending(Pending { begun, ..Pending::begun(found(Then::Swallow(class)), secret) });
    }
    unless_marked(text, found(Then::Text), secret)
}
