//! Escaping of foreign text, so that it cannot change the structure of the page.

/// The longest name or title that is shown, in characters.
const NAME_CHARS: usize = 200;
/// What is shown of an input or output.
const SHOWN_LINES: usize = 40;
const SHOWN_CHARS: usize = 4_000;

/// A text without terminal escape sequences and characters that change the text direction.
pub(super) fn visible(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\r' => {}
            '\n' | '\t' => seen.push(character),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => seen.push(char::REPLACEMENT_CHARACTER),
            control if control.is_control() => seen.push(char::REPLACEMENT_CHARACTER),
            other => seen.push(other),
        }
    }
    seen
}

/// One line, cut to what a name may take.
fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = visible(&words.join(" "));
    match line.char_indices().nth(NAME_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// A name in running text: nothing in it is a mark of Markdown or HTML.
pub(super) fn inline(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in line(text).chars() {
        if r"\`*_[]<>|~#&!".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// A name inside HTML.
pub(super) fn html(text: &str) -> String {
    line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A name as code: a path, a tool.
pub(super) fn code(text: &str) -> String {
    let line = line(text);
    let ticks = "`".repeat(longest_run(&line, '`') + 1);
    let space = if line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    format!("{ticks}{space}{line}{space}{ticks}")
}

/// The same in a cell of a table, where a bar ends the cell even in code.
pub(super) fn code_cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}

/// A block of code. Its fence is longer than any inside.
pub(super) fn fence(language: &str, text: &str) -> String {
    let text = visible(text);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let ticks = "`".repeat((longest_run(text, '`') + 1).max(3));
    format!("{ticks}{language}\n{text}\n{ticks}")
}

/// A block of code of which a page shows the beginning, and how much is missing.
pub(super) fn excerpt(language: &str, text: &str) -> String {
    let text = text.trim_end();
    let mut shown = String::new();
    let mut left = 0;
    for (number, line) in text.lines().enumerate() {
        let room = SHOWN_CHARS.saturating_sub(shown.chars().count());
        if number >= SHOWN_LINES || room == 0 {
            left += 1;
            continue;
        }
        match line.char_indices().nth(room) {
            Some((end, _)) => {
                shown.push_str(&line[..end]);
                shown.push('…');
            }
            None => shown.push_str(line),
        }
        shown.push('\n');
    }
    let block = fence(language, &shown);
    match left {
        0 => block,
        1 => format!("{block}\n\n*… and one more line*"),
        _ => format!("{block}\n\n*… and {left} more lines*"),
    }
}

/// The longest run of this character.
fn longest_run(text: &str, wanted: char) -> usize {
    let (mut longest, mut run) = (0, 0);
    for character in text.chars() {
        run = if character == wanted { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_any_inside() {
        assert_eq!(fence("", "a"), "```\na\n```");
        assert_eq!(fence("sh", "```\nx\n````"), "`````sh\n```\nx\n````\n`````");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(code_cell("a|b"), "`a\\|b`");
    }

    #[test]
    fn a_name_is_one_line_without_marks() {
        assert_eq!(inline("# a\n*b* </details> | `c`"), "\\# a \\*b\\* \\</details\\> \\| \\`c\\`");
        assert_eq!(html("</summary>&\n"), "&lt;/summary&gt;&amp;");
        assert_eq!(inline(&"x".repeat(300)).chars().count(), NAME_CHARS + 1);
    }

    #[test]
    fn a_long_output_says_how_much_is_missing() {
        let long: String = (1..=100).map(|number| format!("line {number}\n")).collect();
        let block = excerpt("", &long);
        assert!(block.contains("line 40\n") && !block.contains("line 41"));
        assert!(block.ends_with("\n\n*… and 60 more lines*"), "{block}");
        let wide = excerpt("", &"é".repeat(10_000));
        assert_eq!(wide.chars().filter(|character| *character == 'é').count(), SHOWN_CHARS);
    }

    #[test]
    fn a_terminals_colours_do_not_reach_the_page() {
        assert_eq!(visible("\u{1b}[31mred\r\n\u{202e}x"), "\u{fffd}[31mred\n\u{fffd}x");
    }
}
