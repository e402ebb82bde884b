//! Half characters: UTF-16 surrogates without their partner.

/// The replacement for a half without its partner.
pub(crate) const LOST: char = char::REPLACEMENT_CHARACTER;
/// The replacement in UTF-8.
pub(crate) const LOST_BYTES: usize = LOST.len_utf8();

/// The first half of a character.
pub(crate) fn is_high(unit: u16) -> bool {
    (0xD800..0xDC00).contains(&unit)
}

/// The second half of a character.
pub(crate) fn is_low(unit: u16) -> bool {
    (0xDC00..0xE000).contains(&unit)
}

/// The character of two halves, if they match.
pub(crate) fn pair(high: u16, low: u16) -> Option<char> {
    let mut characters = char::decode_utf16([high, low]);
    characters.next().and_then(Result::ok).filter(|_| is_high(high) && is_low(low))
}

/// Whether a JSON document has an escape that is half a character, such as `"\ud83d"`.
///
/// Two escapes that form a pair do not count, and neither does `"\\ud83d"`, a backslash and five letters.
pub fn has_lone_half(json: &str) -> bool {
    let bytes = json.as_bytes();
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        at += found;
        match unit(bytes, at) {
            Some(high) if is_high(high) => match unit(bytes, at + 6) {
                Some(low) if is_low(low) => at += 12,
                Some(_) | None => return true,
            },
            Some(low) if is_low(low) => return true,
            Some(_) => at += 6,
            // Another escape. Its second byte may be a backslash.
            None => at = (at + 2).min(bytes.len()),
        }
    }
    false
}

/// The code unit of an escape such as `\u00fc`.
fn unit(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let hex = digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| hex)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_is_an_escape_without_its_other_half() {
        for halved in
            [r#""\ud83d""#, r#""\uD83D""#, r#""\ude00""#, r#""\ud83d\ud83d\ude00""#, r#""\ud83dx\ude00""#]
        {
            assert!(has_lone_half(halved), "{halved}");
        }
        assert!(has_lone_half(r#""\\\ud83d""#), "a backslash and then a half");
        for whole in [
            r#""\ud83d\ude00""#,
            r#""\uD83D\uDE00""#,
            r#""\\ud83d""#,
            r#""\u00fc\ud7ff\ue000""#,
            r#""\"#,
            r#""\u"#,
        ] {
            assert!(!has_lone_half(whole), "{whole}");
        }
    }
}
