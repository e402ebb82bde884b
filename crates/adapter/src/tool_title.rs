//! The parts of a tool call's title that all adapters write in the same way.

/// The most characters of the subject in a title.
const SUBJECT: usize = 80;

/// The last part of a path, for a title.
pub fn file_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit(['/', '\\']).next().filter(|name| !name.is_empty()).unwrap_or(path)
}

/// The first line of a text, shortened for a title. An ellipsis marks what is left out.
pub fn one_line(text: &str) -> String {
    let mut lines = text.trim().lines();
    let line = lines.next().unwrap_or_default();
    let mut short: String = line.chars().take(SUBJECT).collect();
    if short.len() < line.len() || lines.next().is_some() {
        short.push('…');
    }
    short
}
