//! A line of the configuration as an error shows it: without values that may be secrets.
//!
//! The file may not be valid TOML, so the lines before it are only scanned for keys, strings and brackets.

use super::secret_keys::{is_declared, may_be_shown, may_hold_secret};

/// What stands for a hidden value.
const HIDDEN: &str = "***";

/// A line of the file.
pub(super) struct SourceLine<'a> {
    /// The part that may be shown.
    pub(super) shown: &'a str,
    /// The part that may not, up to the end of the line.
    pub(super) hidden: &'a str,
}

/// What the lines before a line have left open.
#[derive(Default)]
struct Scanner {
    /// The keys of this table hold secrets.
    is_secret_table: bool,
    /// The value of the last key goes on.
    is_open: bool,
    /// Whether the value of the last key may be shown.
    is_plain: bool,
    /// Open brackets and braces of the value.
    depth: usize,
    /// The quotes that end a string of several lines.
    quotes: Option<&'static str>,
}

impl<'a> SourceLine<'a> {
    /// The line that begins at this byte.
    pub(super) fn at(text: &'a str, begin: usize) -> Self {
        let mut scanner = Scanner::default();
        text[..begin].lines().for_each(|line| scanner.pass(line));
        let line = text[begin..].lines().next().unwrap_or_default();
        let (shown, hidden) = line.split_at(scanner.shown_length(line));
        // A comment is left out without a word.
        let hidden = if hidden.trim_start().starts_with('#') { "" } else { hidden };
        Self { shown, hidden }
    }

    /// The line for an error.
    pub(super) fn display(&self) -> String {
        let mark = if self.hidden.is_empty() { "" } else { HIDDEN };
        format!("{}{mark}", self.shown)
    }

    /// How many characters of the error's mark may be drawn from this column on, and where it begins.
    pub(super) fn mark(&self, column: usize, length: usize) -> (usize, usize) {
        let shown = self.shown.chars().count();
        if column >= shown && !self.hidden.is_empty() { (shown, HIDDEN.len()) } else { (column, length) }
    }
}

impl Scanner {
    /// How many bytes of this line may be shown.
    fn shown_length(&self, line: &str) -> usize {
        if self.is_open {
            // An unclosed bracket may have swallowed the line of another key.
            let is_element = self.quotes.is_none() && self.is_plain && !line.contains('=');
            return if is_element { without_comment(line) } else { 0 };
        }
        let start = line.trim_start();
        if line.trim_end().contains('\r') {
            // Several lines with line ends that TOML does not know.
            return 0;
        }
        if start.starts_with('[') || start.is_empty() {
            return without_comment(line);
        }
        match equals_sign(line) {
            // A second key on the same line may be a secret one.
            Some(at) if !self.is_secret_table && is_plain(&line[..at]) => {
                let value = &line[at + 1..];
                if equals_sign(value).is_none() { without_comment(line) } else { line.len() - value.len() }
            }
            Some(at) => line.len() - line[at + 1..].trim_start().len(),
            // A key without its sign: all behind its name may be the value.
            None => {
                let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
                let name = &start[..start.find(|c: char| !is_name(c)).unwrap_or(start.len())];
                if is_declared(name) { line.len() - start.len() + name.len() } else { 0 }
            }
        }
    }

    /// Takes a line into account.
    fn pass(&mut self, line: &str) {
        if self.is_open {
            return self.pass_value(line);
        }
        let start = line.trim_start();
        if start.starts_with('[') {
            self.is_secret_table = segments(start).any(may_hold_secret);
        } else if let Some(at) = equals_sign(line).filter(|_| !start.starts_with('#')) {
            self.is_plain = is_plain(&line[..at]);
            self.pass_value(&line[at + 1..]);
        }
    }

    /// Looks for the end of a value.
    fn pass_value(&mut self, mut rest: &str) {
        while let Some(first) = rest.chars().next() {
            if let Some(quotes) = self.quotes {
                let Some(at) = rest.find(quotes) else { break };
                self.quotes = None;
                rest = &rest[at + quotes.len()..];
                continue;
            }
            let long = ["\"\"\"", "'''"].into_iter().find(|quotes| rest.starts_with(quotes));
            let length = match first {
                _ if long.is_some() => {
                    self.quotes = long;
                    3
                }
                '"' | '\'' => string_length(rest, first),
                '#' => break,
                '[' | '{' => {
                    self.depth += 1;
                    1
                }
                ']' | '}' => {
                    self.depth = self.depth.saturating_sub(1);
                    1
                }
                other => other.len_utf8(),
            };
            rest = &rest[length..];
        }
        self.is_open = self.quotes.is_some() || self.depth > 0;
    }
}

/// The bytes of a string at the beginning of this text, up to its end or the end of the line.
fn string_length(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = quote == '"' && c == '\\' && !is_escaped;
    }
    text.len()
}

/// The bytes of a line before its comment.
fn without_comment(line: &str) -> usize {
    outside_strings(line, '#').map_or(line.len(), |at| line[..at].trim_end().len())
}

fn equals_sign(line: &str) -> Option<usize> {
    outside_strings(line, '=')
}

/// Where this character is first, outside of strings.
fn outside_strings(line: &str, wanted: char) -> Option<usize> {
    let mut at = 0;
    while let Some(c) = line[at..].chars().next() {
        at += match c {
            c if c == wanted => return Some(at),
            '"' | '\'' => string_length(&line[at..], c),
            c => c.len_utf8(),
        };
    }
    None
}

/// The names in a dotted key or in the header of a table.
fn segments(key: &str) -> impl Iterator<Item = &str> {
    key.split('.').map(|name| name.trim_matches(|c: char| c.is_whitespace() || "[]\"'".contains(c)))
}

/// Whether the value of this key may be shown.
fn is_plain(key: &str) -> bool {
    !segments(key).any(may_hold_secret) && segments(key).last().is_some_and(may_be_shown)
}
