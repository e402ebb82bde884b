//! Values separated from their names by a space: after a flag (`--password x`), and in a `.netrc` (`machine
//! m login l password x`). In a sentence a name is followed by a space too, so the name alone is not
//! enough.

use crate::name::{self, Begun, By, Separator};
use crate::rules::MARKER_START;
use crate::view::View;

/// How far before the name the beginning of its flag, or the rest of its `.netrc` entry, may be. Less than
/// what streams keep.
const BEFORE: usize = 112;
const SPACES: usize = 4;

/// What follows a name that ends at `end`, of which a word stands at `at`.
pub(crate) fn separator(view: &View<'_>, at: usize, end: usize) -> Separator {
    let text = view.text;
    let spaces = text[end..].iter().take(SPACES + 1).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    if spaces == 0 || spaces > SPACES {
        return Separator::None;
    }
    let behind = unmarked(view.behind(at, BEFORE));
    let name = behind
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        .count();
    let (before, name) = behind.split_at(behind.len() - name);
    let by = if name.starts_with(b"--") {
        By::Loose
    } else if name.eq_ignore_ascii_case(b"pa") && is_netrc(before) {
        By::Entry
    } else {
        return Separator::None;
    };
    let start = end + spaces;
    let mut value = start;
    match (text.get(start), name::quote(text, &mut value)) {
        (None, _) => Separator::Cut,
        // The next flag.
        (Some(b'-'), _) if by == By::Loose => Separator::None,
        (Some(_), None) if value > start => Separator::Cut,
        (Some(_), quote) => Separator::Value(Begun { value, quote, by }),
    }
}

/// `machine m login l`, with any spaces and line ends between.
fn is_netrc(before: &[u8]) -> bool {
    let mut words = before.rsplit(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let (user, login) = (words.next(), words.next());
    user.is_some()
        && login == Some(b"login")
        && words.take(2).any(|word| word == b"machine" || word == b"default")
}

/// The text after the last marker. Rules do not look at text before a marker.
pub(crate) fn unmarked(behind: &[u8]) -> &[u8] {
    match memchr::memmem::rfind(behind, MARKER_START.as_bytes()) {
        Some(marker) => match memchr::memchr(b']', &behind[marker..]) {
            Some(end) => &behind[marker + end + 1..],
            None => &[],
        },
        None => behind,
    }
}
