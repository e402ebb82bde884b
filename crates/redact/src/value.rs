//! Judging what stands where a secret would: a placeholder, a word, or something random.

/// What people write where a secret belongs.
const PLACEHOLDERS: &[&[u8]] = &[
    b"example",
    b"placeholder",
    b"your",
    b"changeme",
    b"change_me",
    b"change-me",
    b"redacted",
    b"dummy",
    b"xxxx",
    b"****",
    b"....",
    b"----",
    b"____",
    b"0000000000",
    b"insert",
    b"replace",
    b"sample",
    b"process.env",
    b"environ",
    b"getenv",
    b"import.meta",
    b"secrets.",
    b"undefined",
    b"1234567890abcdef",
    b"abcdefghijkl",
    b"foobar",
    b"notreal",
    b"not-a-real",
    b"fake",
];

/// Said so, or made of hardly any characters, or it names a variable.
pub(crate) fn is_placeholder(value: &[u8]) -> bool {
    if value.iter().any(|byte| matches!(byte, b'<' | b'>' | b'{' | b'}'))
        || value.starts_with(b"$")
        || value.starts_with(b"%")
    {
        return true;
    }
    if value.len() >= 6 && distinct(value) < 4 {
        return true;
    }
    PLACEHOLDERS.iter().any(|word| contains_in_any_case(value, word))
}

fn distinct(value: &[u8]) -> u32 {
    let mut seen = [0u64; 4];
    for byte in value {
        seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
    seen.iter().map(|part| part.count_ones()).sum()
}

fn contains_in_any_case(value: &[u8], word: &[u8]) -> bool {
    value.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word))
}

/// Has a digit between letters, or both cases other than at the start of a word.
pub(crate) fn mixes(value: &[u8]) -> bool {
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = value.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    (digits > 0 && letters > 0) || odd_cases(value) >= 2
}

/// How often a capital stands behind a capital and before a small letter, or alone within one word: `aXbQ`. Names in
/// camel case have capitals too, but words of three letters and more between them.
fn odd_cases(value: &[u8]) -> usize {
    let mut odd = 0;
    let mut since = usize::MAX;
    for byte in value {
        if byte.is_ascii_uppercase() {
            if (1..3).contains(&since) {
                odd += 1;
            }
            since = 0;
        } else {
            since = since.saturating_add(1);
        }
    }
    odd
}

/// Letters of one case or capitalised words, with separators between them.
pub(crate) fn is_wordy(value: &[u8]) -> bool {
    !mixes(value)
}

/// Long, of many different characters, and no words: what a generator makes.
pub(crate) fn looks_random(value: &[u8]) -> bool {
    if value.len() < 16 || distinct(value) < 8 {
        return false;
    }
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = value.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    // Runs of letters between digits and separators: in names they are words, in random text they are short.
    digits >= 2 && letters >= 2 && shifts(value) * 8 >= value.len() || odd_cases(value) * 8 >= value.len()
}

/// How often letters change to digits or back.
fn shifts(value: &[u8]) -> usize {
    value
        .windows(2)
        .filter(|pair| {
            pair[0].is_ascii_digit() != pair[1].is_ascii_digit()
                && pair[0].is_ascii_alphanumeric()
                && pair[1].is_ascii_alphanumeric()
        })
        .count()
}
