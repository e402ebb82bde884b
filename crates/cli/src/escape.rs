//! [`Untrusted`] is text from outside, [`Safe`] is text that can be printed. Only safe text reaches a
//! terminal, and text from outside becomes safe only here.

use std::fmt::{self, Write};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Whether a character must be escaped. These are control characters, C1 too: U+009B starts a sequence like
/// ESC. These are also line separators, marks that change the direction of writing, characters without width,
/// and variation selectors, which can hide any bytes.
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFFB}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}')
}

/// Text without characters that act on a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Safe(String);

/// A part of safe text: words of this program, numbers, and text from outside, which is escaped.
pub(crate) trait Harmless {
    /// Appends it to the text.
    fn add_to(&self, text: &mut String);
}

/// Makes safe text from parts: `safe!["[run] ", title]`.
macro_rules! safe {
    ($($part:expr),* $(,)?) => {{
        #[allow(unused_mut, reason = "there may be no part")]
        let mut text = $crate::escape::Safe::default();
        $(text.push($part);)*
        text
    }};
}
pub(crate) use safe;

/// Text from an agent, a log, a client or a gateway. It is shown as one line, with escapes as in a Rust
/// string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Untrusted<'a>(pub(crate) &'a str);

impl Safe {
    /// Adds a part.
    pub(crate) fn push(&mut self, part: impl Harmless) {
        part.add_to(&mut self.0);
    }

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The bytes of the text.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Its width in columns of a terminal.
    pub(crate) fn width(&self) -> usize {
        self.0.width()
    }

    /// Padded with spaces on the right, to that many columns.
    pub(crate) fn padded(mut self, width: usize) -> Self {
        let missing = width.saturating_sub(self.width());
        self.0.extend(std::iter::repeat_n(' ', missing));
        self
    }

    /// Padded with spaces on the left, to that many columns.
    pub(crate) fn indented(self, width: usize) -> Self {
        let missing = width.saturating_sub(self.width());
        Self(" ".repeat(missing) + &self.0)
    }

    /// Without white space at its end.
    pub(crate) fn trimmed(mut self) -> Self {
        self.0.truncate(self.0.trim_end().len());
        self
    }
}

impl fmt::Display for Safe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Extend<Safe> for Safe {
    fn extend<T: IntoIterator<Item = Safe>>(&mut self, parts: T) {
        parts.into_iter().for_each(|part| self.push(part));
    }
}

impl FromIterator<Safe> for Safe {
    fn from_iter<T: IntoIterator<Item = Safe>>(parts: T) -> Self {
        let mut text = Self::default();
        text.extend(parts);
        text
    }
}

impl Harmless for Safe {
    fn add_to(&self, text: &mut String) {
        text.push_str(&self.0);
    }
}

impl<T: Harmless + ?Sized> Harmless for &T {
    fn add_to(&self, text: &mut String) {
        (**self).add_to(text);
    }
}

/// Words of this program: text from outside does not live that long.
impl Harmless for &'static str {
    fn add_to(&self, text: &mut String) {
        text.push_str(self);
    }
}

impl Harmless for Untrusted<'_> {
    fn add_to(&self, text: &mut String) {
        text.push_str(&self.line().0);
    }
}

macro_rules! harmless_numbers {
    ($($number:ty),+) => {
        $(impl Harmless for $number {
            fn add_to(&self, text: &mut String) {
                text.push_str(&self.to_string());
            }
        })+
    };
}
harmless_numbers!(u8, u16, u32, u64, usize, f64);

impl<'a> Untrusted<'a> {
    /// The text as it came, for comparisons and requests. Not for printing.
    pub(crate) fn exact(self) -> &'a str {
        self.0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// All of it on one line.
    pub(crate) fn line(self) -> Safe {
        preview(self.0, usize::MAX)
    }

    /// At most that many columns of it on one line.
    pub(crate) fn preview(self, width: usize) -> Safe {
        preview(self.0, width)
    }

    /// All of it with its line feeds and tabs.
    pub(crate) fn text(self) -> Safe {
        text(self.0)
    }

    /// A word of the wire with spaces instead of underscores.
    pub(crate) fn spaced(self) -> Safe {
        Safe(self.line().0.replace('_', " "))
    }

    /// Its lines, wrapped to at most that many columns.
    pub(crate) fn wrapped(self, width: usize) -> Vec<Safe> {
        self.0.lines().flat_map(|line| pieces(&Untrusted(line).line().0, width.max(1))).collect()
    }
}

impl fmt::Display for Untrusted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.line().0)
    }
}

/// A line, wrapped. An empty line is one piece.
fn pieces(line: &str, width: usize) -> Vec<Safe> {
    let (mut pieces, mut used) = (vec![String::new()], 0);
    for character in line.chars() {
        let columns = character.width().unwrap_or(0);
        if used + columns > width && used > 0 {
            pieces.push(String::new());
            used = 0;
        }
        used += columns;
        if let Some(piece) = pieces.last_mut() {
            piece.push(character);
        }
    }
    pieces.into_iter().map(Safe).collect()
}

/// At most `width` columns, escaped as in a Rust string. An ellipsis marks text that was cut.
pub(crate) fn preview(text: &str, width: usize) -> Safe {
    let mut shown = String::new();
    let mut used = 0;
    // Where to cut if the rest does not fit.
    let mut cut = 0;
    for character in text.chars() {
        let before = shown.len();
        let length = if acts(character) {
            shown.extend(character.escape_default());
            shown.len() - before
        } else {
            shown.push(character);
            character.width().unwrap_or(0)
        };
        if used + length > width {
            shown.truncate(cut);
            shown.push('\u{2026}');
            return Safe(shown);
        }
        used += length;
        if used < width {
            cut = shown.len();
        }
    }
    Safe(shown)
}

/// Text of several lines: line feeds and tabs stay, other control characters are escaped.
pub(crate) fn text(text: &str) -> Safe {
    let mut shown = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' | '\t' => shown.push(character),
            '\r' if characters.peek() == Some(&'\n') => {}
            acting if acts(acting) => shown.extend(acting.escape_default()),
            harmless => shown.push(harmless),
        }
    }
    Safe(shown)
}

/// JSON text with `\u` escapes for these characters, which can only be inside of strings.
pub(crate) fn json(text: &str) -> Safe {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if acts(character) {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                // Writing to a `String` does not fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(character);
        }
    }
    Safe(escaped)
}

#[cfg(test)]
mod tests {
    use super::{Untrusted, json, preview, text};

    #[test]
    fn nothing_that_acts_on_a_terminal_is_printed() {
        let hostile = "a\x1B[2J\u{9B}31m\r\n\u{202E}b\u{7F}";
        assert_eq!(preview(hostile, 80).as_str(), r"a\u{1b}[2J\u{9b}31m\r\n\u{202e}b\u{7f}");
        assert_eq!(text(hostile).as_str(), "a\\u{1b}[2J\\u{9b}31m\n\\u{202e}b\\u{7f}");
        assert_eq!(json("\"\u{9B}\u{202E}\u{7F}\"").as_str(), r#""\u009b\u202e\u007f""#);
    }

    #[test]
    fn what_nobody_would_see_is_shown() {
        let hidden = "\u{AD}\u{61C}\u{200B}\u{200C}\u{200D}\u{2060}\u{2069}\u{FEFF}\u{E0041}";
        let shown = r"\u{ad}\u{61c}\u{200b}\u{200c}\u{200d}\u{2060}\u{2069}\u{feff}\u{e0041}";
        assert_eq!(preview(hidden, 100).as_str(), shown);
        assert_eq!(text(hidden).as_str(), shown);
        let selectors = "\u{180B}\u{180F}\u{FE00}\u{FE0F}\u{E0100}\u{E01EF}";
        let shown = r"\u{180b}\u{180f}\u{fe00}\u{fe0f}\u{e0100}\u{e01ef}";
        assert_eq!(preview(selectors, 100).as_str(), shown);
        assert_eq!(text(selectors).as_str(), shown);
        assert_eq!(json("\u{E0041}").as_str(), "\\udb40\\udc41");
    }

    #[test]
    fn parts_are_escaped_as_they_are_put_together() {
        let title = String::from("a\nb\x1B");
        let line = safe!["[run] ", Untrusted(&title), " (", 7_u64, ")"];
        assert_eq!(line.to_string(), r"[run] a\nb\u{1b} (7)");
    }

    #[test]
    fn a_preview_fits_its_width_and_never_ends_in_half_an_escape() {
        assert_eq!(preview("abcdef", 6).as_str(), "abcdef");
        assert_eq!(preview("abcdefg", 6).as_str(), "abcde\u{2026}");
        assert_eq!(preview("abcd\x1B", 6).as_str(), "abcd\u{2026}");
        assert_eq!(preview("\u{90A3}\u{90A3}\u{90A3}", 5).as_str(), "\u{90A3}\u{90A3}\u{2026}");
        assert_eq!(preview("", 0).as_str(), "");
    }

    #[test]
    fn a_long_line_is_cut_into_pieces_and_nothing_of_it_is_left_out() {
        let wrapped: Vec<String> =
            Untrusted("abcdef\n\n\u{90A3}\u{90A3}\tx").wrapped(4).iter().map(ToString::to_string).collect();
        assert_eq!(wrapped, ["abcd", "ef", "", "\u{90A3}\u{90A3}", "\\tx"]);
    }
}
