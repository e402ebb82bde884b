//! Parses one line by the field rules of the specification.

/// A line without its ending. Values have no leading space.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    Data(&'a [u8]),
    Event(&'a [u8]),
    Id(&'a [u8]),
    Retry(&'a [u8]),
    Comment(&'a [u8]),
    UnknownField,
    NotAField,
}

impl<'a> Line<'a> {
    #[inline]
    pub(crate) fn parse(line: &'a [u8]) -> Self {
        // By far the most frequent kind.
        if let Some(value) = line.strip_prefix(b"data:") {
            return Self::Data(without_space(value));
        }
        Self::parse_other(line)
    }

    fn parse_other(line: &'a [u8]) -> Self {
        let (name, value, colon) = match memchr::memchr(b':', line) {
            Some(at) => (&line[..at], without_space(&line[at + 1..]), true),
            None => (line, &line[line.len()..], false),
        };
        match (name, colon) {
            (b"", true) => Self::Comment(value),
            (b"data", _) => Self::Data(value),
            (b"event", _) => Self::Event(value),
            (b"id", _) => Self::Id(value),
            (b"retry", _) => Self::Retry(value),
            (_, true) => Self::UnknownField,
            (_, false) => Self::NotAField,
        }
    }
}

/// Removes at most one leading space.
#[inline]
pub(crate) fn without_space(value: &[u8]) -> &[u8] {
    value.strip_prefix(b" ").unwrap_or(value)
}

/// Parses a reconnection time: ASCII digits only. `u64::from_str` would accept `+5`.
pub(crate) fn parse_retry(value: &[u8]) -> Option<u64> {
    if !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}
