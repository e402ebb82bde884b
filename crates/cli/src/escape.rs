//! Text from a stream, made safe to print: an escape sequence in the data must not reach the terminal.

use std::fmt::Write;
use unicode_width::UnicodeWidthChar;

/// Characters that act on a terminal or on the order in which text is shown: all controls (C1 too: U+009B starts
/// a sequence like ESC does), and what separates lines or turns the direction of writing.
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

/// At most `width` columns of a terminal, escaped as in a Rust string; an ellipsis stands for the rest.
pub(crate) fn preview(text: &str, width: usize) -> String {
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
            return shown;
        }
        used += length;
        if used < width {
            cut = shown.len();
        }
    }
    shown
}

/// Text of several lines: line feeds and tabs stay, everything else that acts is escaped.
pub(crate) fn text(text: &str) -> String {
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
    shown
}

/// JSON text with such characters as `\u` escapes. They can only be inside its strings.
pub(crate) fn json(text: &str) -> String {
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
    escaped
}

#[cfg(test)]
mod tests {
    use super::{json, preview, text};

    #[test]
    fn nothing_that_acts_on_a_terminal_is_printed() {
        let hostile = "a\x1B[2J\u{9B}31m\r\n\u{202E}b\u{7F}";
        assert_eq!(preview(hostile, 80), r"a\u{1b}[2J\u{9b}31m\r\n\u{202e}b\u{7f}");
        assert_eq!(text(hostile), "a\\u{1b}[2J\\u{9b}31m\n\\u{202e}b\\u{7f}");
        assert_eq!(json("\"\u{9B}\u{202E}\u{7F}\""), r#""\u009b\u202e\u007f""#);
    }

    #[test]
    fn a_preview_fits_its_width_and_never_ends_in_half_an_escape() {
        assert_eq!(preview("abcdef", 6), "abcdef");
        assert_eq!(preview("abcdefg", 6), "abcde\u{2026}");
        assert_eq!(preview("abcd\x1B", 6), "abcd\u{2026}");
        assert_eq!(preview("\u{90A3}\u{90A3}\u{90A3}", 5), "\u{90A3}\u{90A3}\u{2026}");
        assert_eq!(preview("", 0), "");
    }
}
