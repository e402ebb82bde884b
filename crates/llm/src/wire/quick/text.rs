//! JSON strings: where they end, and their unescaped text.

/// The place of the next quote or backslash. `None` at a control character, which no string may contain,
/// and at the end of the data.
#[inline]
pub(super) fn special(data: &[u8], from: usize) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    let mut at = from;
    // Eight bytes at a time. The subtraction marks zero bytes. A borrow may also mark a later byte, but the
    // first mark is always right.
    while let Some(Ok(bytes)) = data.get(at..at + 8).map(<[u8; 8]>::try_from) {
        let word = u64::from_le_bytes(bytes);
        let quotes = word ^ (ONES * b'"' as u64);
        let slashes = word ^ (ONES * b'\\' as u64);
        let zeros = |word: u64| word.wrapping_sub(ONES) & !word;
        let controls = word.wrapping_sub(ONES * 0x20) & !word;
        let found = (zeros(quotes) | zeros(slashes) | controls) & HIGHS;
        if found != 0 {
            at += found.trailing_zeros() as usize / 8;
            return (data[at] >= 0x20).then_some(at);
        }
        at += 8;
    }
    loop {
        match data.get(at)? {
            b'"' | b'\\' => return Some(at),
            0..0x20 => return None,
            _ => at += 1,
        }
    }
}

/// Unescapes a string that starts at `begin` and has its first escape at `first`. Returns the place after
/// its quote.
pub(super) fn unescaped(data: &str, begin: usize, first: usize) -> Option<(String, usize)> {
    let mut text = String::with_capacity(2 * (first - begin) + 16);
    text.push_str(&data[begin..first]);
    let mut at = first;
    loop {
        if data.as_bytes()[at] == b'"' {
            return Some((text, at + 1));
        }
        let (character, length) = escape(&data[at..])?;
        text.push(character);
        at += length;
        let next = special(data.as_bytes(), at)?;
        text.push_str(&data[at..next]);
        at = next;
    }
}

/// The character of the escape at the beginning, and the length of the escape.
#[inline]
fn escape(text: &str) -> Option<(char, usize)> {
    let character = match text.as_bytes().get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{C}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return code_point(text),
        _ => return None,
    };
    Some((character, 2))
}

/// Reads `\u00FC`. Surrogate pairs are left to the full parser.
fn code_point(text: &str) -> Option<(char, usize)> {
    let digits = text.get(2..6).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
    Some((char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, 6))
}
