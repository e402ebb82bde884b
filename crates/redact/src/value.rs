//! Judges a value in the place of a secret: a placeholder, a word, or something random.

/// Placeholders that people write instead of a secret.
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

/// Words in names of variables and in invented values, which generated values do not contain.
const NAMES: &[&[u8]] = &[b"token", b"secret", b"password", b"apikey", b"api_key", b"api-key"];

/// How much of a value is judged. A longer value did not begin like a word either, and judging is repeated
/// with every new piece and every name within it.
const JUDGED: usize = 256;

fn head(value: &[u8]) -> &[u8] {
    &value[..value.len().min(JUDGED)]
}

/// True for a placeholder: it says so, has few different characters, or names a variable.
pub(crate) fn is_placeholder(value: &[u8]) -> bool {
    let value = head(value);
    if is_template(value) {
        return true;
    }
    if value.len() >= 6 && distinct(value) < 4 {
        return true;
    }
    // Four letters in a row stand in one of ten thousand keys by chance.
    let random = value.len() >= 24 && looks_random(value);
    !random && PLACEHOLDERS.iter().any(|word| contains_in_any_case(value, word))
}

/// True when it names a variable, whatever follows.
pub(crate) fn is_template(value: &[u8]) -> bool {
    let value = head(value);
    value.iter().any(|byte| matches!(byte, b'<' | b'>' | b'{' | b'}'))
        || value.starts_with(b"$")
        || value.starts_with(b"%")
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

/// Which letters follow a letter in words: 329 of the 676 pairs, which make up 96.5 % of the pairs in the
/// names and comments of 46 MB of Rust. Bit 0 is `a`. Half of the pairs of a random text are outside.
#[rustfmt::skip]
const FOLLOWS: [u32; 26] = [
    0x1febd6f, 0x1164915, 0x13eddbd, 0x13ec93b, 0x1fffd7f, 0x11e493d, 0x016f9d1, 0x01e5119, 0x2aefc7f, 0x0004010, 0x0040111, 0x11ccd39, 0x01cd91f, 0x13eed7f, 0x0fefd7f, 0x01ec995, 0x0100000, 0x17efd7d, 0x17efdfd, 0x1def9bd, 0x00ef97f, 0x0005111, 0x0066191, 0x0088115, 0x004f010, 0x0000011,
];

/// How many pairs of neighbours are not what words are made of: unusual letters, a digit beside a letter, a
/// capital soon after another. Capitals that begin the words of a name are usual.
fn strange(value: &[u8]) -> usize {
    let mut count = 0;
    // Letters since the last capital, sign or digit.
    let mut word = 0;
    for (at, b) in value.iter().copied().enumerate() {
        let a = if at == 0 { b' ' } else { value[at - 1] };
        let odd = if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() {
            let (row, bit) = ((a | 0x20) - b'a', (b | 0x20) - b'a');
            let camel = a.is_ascii_lowercase() && b.is_ascii_uppercase();
            if camel { word <= 2 } else { FOLLOWS[usize::from(row)] >> bit & 1 == 0 }
        } else {
            (a.is_ascii_digit() && b.is_ascii_alphabetic()) || (a.is_ascii_alphabetic() && b.is_ascii_digit())
        };
        count += usize::from(odd);
        word = match b {
            b'a'..=b'z' => word + 1,
            b'A'..=b'Z' => 1,
            _ => 0,
        };
    }
    count
}

/// A few characters that are no word.
pub(crate) fn mixes(value: &[u8]) -> bool {
    let value = head(value);
    strange(value) >= 2
}

/// Words in one case with signs between them, perhaps with a number.
pub(crate) fn is_wordy(value: &[u8]) -> bool {
    let value = head(value);
    let camel = value.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    !camel && strange(value) == 0 && value.iter().filter(|byte| byte.is_ascii_digit()).count() <= 2
}

/// Long, of many different characters, and no words: what a generator makes. Of pairs in names one in
/// twenty is strange, of pairs in random text one in two.
pub(crate) fn looks_random(value: &[u8]) -> bool {
    let value = head(value);
    let many = distinct(value);
    value.len() >= 16 && ((many >= 8 && strange(value) * 5 >= value.len()) || (many >= 6 && is_hex(value)))
}

/// The end of a secret whose beginning was not seen: shorter than a whole one, and stranger than any name.
pub(crate) fn looks_cut(value: &[u8]) -> bool {
    let value = head(value);
    value.len() >= 12
        && (looks_random(value)
            || is_long_number(value)
            || (distinct(value) >= 8 && strange(value) * 4 >= value.len()))
        && !is_code(value)
        && !is_placeholder(value)
}

/// No count and no time is this long.
fn is_long_number(value: &[u8]) -> bool {
    value.iter().filter(|byte| byte.is_ascii_digit()).count() >= 22
}

/// In hex the letters are few and digits stand together, so that few pairs are strange.
fn is_hex(value: &[u8]) -> bool {
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = value.iter().any(u8::is_ascii_alphabetic);
    letters && digits >= 5 && value.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
}

/// A password is told from a word by a digit or a sign.
pub(crate) fn is_password(value: &[u8]) -> bool {
    let value = head(value);
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = value.iter().filter(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii()).count();
    let signs = value
        .iter()
        .filter(|byte| {
            matches!(byte, b'!' | b'@' | b'#' | b'$' | b'%' | b'^' | b'&' | b'*' | b'?' | b'~' | b'+')
        })
        .count();
    letters >= 1 && (digits >= 1 || signs >= 1)
        || strange(value) >= 3
        || (digits >= 6 && digits == value.len())
}

/// Shorter than what [`looks_random`] needs, but no name.
pub(crate) fn looks_generated(value: &[u8]) -> bool {
    let value = head(value);
    if NAMES.iter().any(|word| contains_in_any_case(value, word)) {
        return false;
    }
    let odd = strange(value);
    looks_random(value) || (value.len() >= 8 && distinct(value) >= 6 && odd >= 3 && odd * 4 >= value.len())
}

/// Digits with hyphens between them: an id may begin like this.
pub(crate) fn is_number(value: &[u8]) -> bool {
    let value = head(value);
    value.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-')
}

/// A path, a URL, an access to a member or a name from a module.
pub(crate) fn is_code(value: &[u8]) -> bool {
    let value = head(value);
    let path = value.starts_with(b"/")
        || value.starts_with(b"./")
        || value.starts_with(b"../")
        || value.starts_with(b"~/");
    let short =
        |sign: u8| value.split(|byte| *byte == sign).all(|part| part.len() < 20 && !looks_random(part));
    let constant = value.contains(&b'_')
        && value.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_')
        && !looks_random(value);
    is_surely_code(value) || constant || (path && short(b'/')) || (value.contains(&b'.') && members(value))
}

/// Code, and stays code whatever follows: a pointer, a URL, a name from a module, an index.
pub(crate) fn is_surely_code(value: &[u8]) -> bool {
    let value = head(value);
    let has = |part: &[u8]| value.windows(part.len()).any(|here| here == part);
    matches!(value.first(), Some(b'*' | b'&')) || has(b"://") || has(b"::") || value.contains(&b'[')
}

/// `settings.token2`, `a.b.c`: names with dots between them.
fn members(value: &[u8]) -> bool {
    value.split(|byte| *byte == b'.').all(|part| {
        let name = part.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
        name && part.len() < 20
            && strange(part) <= 2
            && part.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    })
}

/// `user:password` in base64.
pub(crate) fn decodes_to_user_and_password(text: &[u8]) -> bool {
    text.len() >= 8 && decoded(text).is_some_and(|decoded| decoded.iter().skip(1).any(|byte| *byte == b':'))
}

/// Printable text in base64.
pub(crate) fn decodes_to_text(text: &[u8]) -> bool {
    decoded(text).is_some()
}

/// What printable ASCII this is in base64. A rest of fewer than four characters is left out.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    for four in text.chunks(4).filter(|four| four.len() == 4) {
        let mut bits = 0u32;
        let mut signs = 0;
        for byte in four {
            let six = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' | b'-' => 62,
                b'/' | b'_' => 63,
                b'=' => {
                    signs += 1;
                    0
                }
                _ => return None,
            };
            bits = bits << 6 | u32::from(six);
        }
        let [_, three @ ..] = bits.to_be_bytes();
        out.extend_from_slice(&three[..3 - signs.min(2)]);
    }
    out.iter().all(|byte| (0x20..0x7f).contains(byte)).then_some(out)
}
