//! `cargo xtask prose`: finds comments and documents with long lines or long sentences.
//!
//! A line has at most 110 columns, and a sentence at most 30 words. Tables, code and lines with a URL are
//! excepted.

use crate::cargo::root;
use std::fmt;
use std::path::{Path, PathBuf};

const COLUMNS: usize = 110;
const WORDS: usize = 30;
/// What is checked by default, relative to the workspace root.
const OURS: &[&str] = &["README.md", "CHANGELOG.md", "docs", "crates", "xtask", "benches"];

/// One place that breaks a rule.
struct Finding {
    file: PathBuf,
    line: usize,
    what: Broken,
}

enum Broken {
    /// A line with this many columns.
    Line(usize),
    /// A sentence with this many words, and how it begins.
    Sentence(usize, String),
    /// A comment of one word that says nothing.
    Empty(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: ", self.file.display(), self.line)?;
        match &self.what {
            Broken::Line(columns) => write!(out, "{columns} columns, at most {COLUMNS}"),
            Broken::Sentence(words, start) => write!(out, "{words} words, at most {WORDS}: {start} …"),
            Broken::Empty(text) => write!(out, "{text:?} says nothing"),
        }
    }
}

/// Checks these files and folders; without any, the whole workspace.
pub(crate) fn run(paths: &[&str]) -> Result<(), String> {
    let mut files = Vec::new();
    let root = root();
    if paths.is_empty() {
        OURS.iter().try_for_each(|path| collect(&root.join(path), &mut files))?;
    }
    paths.iter().try_for_each(|path| collect(Path::new(path), &mut files))?;
    files.sort();
    let mut findings = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let is_code = file.extension().is_some_and(|extension| extension == "rs");
        let lines = if is_code { comments(&text) } else { paragraphs(&text) };
        findings.extend(check(&lines).into_iter().map(|(line, what)| Finding {
            file: file.strip_prefix(&root).unwrap_or(&file).to_owned(),
            line,
            what,
        }));
    }
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(format!("prose: {count} places are too long; write shorter sentences and lines")),
    }
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let fail = |error: std::io::Error| format!("{}: {error}", path.display());
    if path.is_dir() {
        if path.file_name().is_some_and(|name| name == "target" || name == "node_modules") {
            return Ok(());
        }
        for entry in std::fs::read_dir(path).map_err(fail)? {
            collect(&entry.map_err(fail)?.path(), files)?;
        }
    } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
        files.push(path.to_owned());
    }
    Ok(())
}

/// One line of prose, or the end of a paragraph.
enum Line<'a> {
    Text {
        number: usize,
        columns: usize,
        text: &'a str,
    },
    /// The end of a paragraph.
    Break,
}

/// The comments of a Rust file. Code ends a paragraph.
fn comments(source: &str) -> Vec<Line<'_>> {
    let mut fence = Fence::default();
    let mut kind = "";
    let mut lines = Vec::new();
    for (at, line) in source.lines().enumerate() {
        let trimmed = line.trim_start();
        let marker =
            ["///", "//!", "//"].into_iter().find(|marker| trimmed.starts_with(marker)).unwrap_or("");
        if marker != kind || marker.is_empty() {
            lines.push(Line::Break);
            kind = marker;
        }
        if marker.is_empty() {
            fence = Fence::default();
        } else {
            prose_line(at, line, &trimmed[marker.len()..], &mut fence, &mut lines);
        }
    }
    lines
}

/// The text of a Markdown file.
fn paragraphs(source: &str) -> Vec<Line<'_>> {
    let mut fence = Fence::default();
    let mut lines = Vec::new();
    for (at, line) in source.lines().enumerate() {
        prose_line(at, line, line, &mut fence, &mut lines);
    }
    lines
}

/// Whether a line is inside a block of code.
#[derive(Default)]
struct Fence(bool);

fn prose_line<'a>(at: usize, line: &str, text: &'a str, fence: &mut Fence, lines: &mut Vec<Line<'a>>) {
    let trimmed = text.trim();
    if trimmed.starts_with("```") {
        fence.0 = !fence.0;
        lines.push(Line::Break);
        return;
    }
    let indented = text.starts_with("     ") && matches!(lines.last(), None | Some(Line::Break));
    if fence.0 || trimmed.is_empty() || trimmed.starts_with('|') || indented {
        lines.push(Line::Break);
        return;
    }
    let (item, rest) = without_bullet(trimmed);
    if item || trimmed.starts_with('#') {
        lines.push(Line::Break);
    }
    lines.push(Line::Text { number: at + 1, columns: line.chars().count(), text: rest });
    if trimmed.starts_with('#') {
        lines.push(Line::Break);
    }
}

/// A list item is a paragraph of its own.
fn without_bullet(text: &str) -> (bool, &str) {
    let after = text.strip_prefix("- ").or_else(|| text.strip_prefix("* ")).or_else(|| {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits == 0 { None } else { text[digits..].strip_prefix(". ") }
    });
    after.map_or((false, text), |rest| (true, rest))
}

fn check(lines: &[Line<'_>]) -> Vec<(usize, Broken)> {
    let mut broken = Vec::new();
    let mut sentence: Vec<&str> = Vec::new();
    let mut start = 0;
    let mut alone = true;
    let finish = |sentence: &mut Vec<&str>, start: usize, alone: bool, broken: &mut Vec<_>| {
        if sentence.len() > WORDS {
            broken.push((start, Broken::Sentence(sentence.len(), sentence[..6].join(" "))));
        } else if alone && matches!(sentence.as_slice(), ["Why." | "Which." | "What." | "How."]) {
            broken.push((start, Broken::Empty(sentence[0].to_owned())));
        }
        sentence.clear();
    };
    for line in lines {
        let Line::Text { number, columns, text } = line else {
            finish(&mut sentence, start, alone, &mut broken);
            alone = true;
            continue;
        };
        if *columns > COLUMNS && !text.contains("://") {
            broken.push((*number, Broken::Line(*columns)));
        }
        for word in text.split_whitespace() {
            if sentence.is_empty() {
                start = *number;
            }
            if word.chars().any(char::is_alphanumeric) {
                sentence.push(word);
            }
            if ends_sentence(word) {
                finish(&mut sentence, start, alone && text.trim() == word, &mut broken);
                alone = false;
            }
        }
    }
    finish(&mut sentence, start, alone, &mut broken);
    broken
}

/// Whether a word ends a sentence. Closing brackets, quotes and emphasis may follow the full stop.
fn ends_sentence(word: &str) -> bool {
    let bare = word.trim_end_matches([')', '"', '*', '_', '`', ']']);
    let abbreviation = matches!(bare, "e.g." | "i.e." | "etc." | "vs.");
    bare.ends_with(['.', '!', '?']) && !abbreviation
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[Line<'_>]) -> Vec<String> {
        let shown = |(line, what)| Finding { file: PathBuf::from("a"), line, what }.to_string();
        check(lines).into_iter().map(shown).collect()
    }

    #[test]
    fn a_long_sentence_is_found_over_line_ends_and_a_table_is_not() {
        let long = "one two three four five six seven eight nine ten\n".repeat(4);
        assert_eq!(
            found(&paragraphs(&format!("Short.\n\n{long}"))),
            ["a:3: 40 words, at most 30: one two three four five six …"]
        );
        let row = format!("| {} |\n", long.replace('\n', " "));
        assert_eq!(found(&paragraphs(&row)), [""; 0]);
        assert_eq!(found(&paragraphs(&format!("```sh\n{long}```\n"))), [""; 0]);
    }

    #[test]
    fn a_long_line_is_found_unless_it_has_a_url() {
        let line = format!("// {}\nfn x() {{}}\n", "word. ".repeat(20));
        assert_eq!(found(&comments(&line)), ["a:1: 123 columns, at most 110"]);
        let line = format!("// https://example.org/{}\n", "word/".repeat(20));
        assert_eq!(found(&comments(&line)), [""; 0]);
    }

    #[test]
    fn code_separates_comments_and_a_lone_why_is_found() {
        let half = "word ".repeat(20);
        let source = format!("/// {half}\nfn x() {{}}\n/// {half}\n/// Why.\nstruct Y;\n    /// Why.\n");
        assert_eq!(found(&comments(&source)), ["a:6: \"Why.\" says nothing"]);
    }
}
