//! Splits text into words, and decides which words are equal. The index, queries and excerpts all use this
//! tokenizer, so the marked words are exactly the matching ones.
//!
//! A word is a run of letters, digits and combining marks; everything else separates words. So `snake_case`,
//! a path and an address are found by their parts. `camelCase` is one word that is also found by its parts.
//!
//! Scripts without spaces, and emoji, are split into single characters, so that any piece is found as a
//! phrase. Case, accents and full-width forms are ignored.

use std::borrow::Cow;
use std::ops::Range;
use unicode_normalization::char::{decompose_canonical, is_combining_mark};

/// The significant characters of a word. Nobody types longer ones: they are hashes, keys, encoded bytes.
const LONGEST: usize = 64;

/// Changes whenever the same text could be split differently. An index of another version is rebuilt.
pub(crate) fn version() -> String {
    let (std, tables) = (char::UNICODE_VERSION, unicode_normalization::UNICODE_VERSION);
    format!("1/{}.{}.{}/{}.{}.{}", std.0, std.1, std.2, tables.0, tables.1, tables.2)
}

/// A word and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word<'a> {
    /// The byte range in the text.
    pub(crate) range: Range<usize>,
    /// The normalised form for comparison: only letters, digits and emoji, never empty.
    pub(crate) key: Cow<'a, str>,
    /// The parts of a `camelCase` word. Empty for a word of one part.
    pub(crate) parts: Vec<(Range<usize>, Cow<'a, str>)>,
}

/// The words of a text, in order.
pub(crate) struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        Self { text, at: 0 }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        loop {
            let rest = &self.text[self.at..];
            let (skipped, first) = rest.char_indices().find(|(_, character)| is_of_word(*character))?;
            let start = self.at + skipped;
            let end = if stands_alone(first) {
                start + first.len_utf8()
            } else {
                let run = &self.text[start..];
                let goes_on = |character: char| is_of_word(character) && !stands_alone(character);
                start + run.find(|character| !goes_on(character)).unwrap_or(run.len())
            };
            self.at = end;
            let word = &self.text[start..end];
            let key = key(word);
            // Only combining marks.
            if key.is_empty() {
                continue;
            }
            return Some(Word { range: start..end, key, parts: parts(word, start) });
        }
    }
}

fn is_of_word(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_alphanumeric();
    }
    character.is_alphanumeric() || is_emoji(character) || is_combining_mark(character)
}

fn is_emoji(character: char) -> bool {
    matches!(character, '\u{2600}'..='\u{27BF}' | '\u{1F000}'..='\u{1FAFF}')
}

/// True for emoji and for scripts without spaces: Thai, Lao, Burmese, Khmer, Chinese, Japanese. Also for
/// Korean, which attaches particles to words.
pub(super) fn stands_alone(character: char) -> bool {
    is_emoji(character)
        || matches!(character,
            '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1100}'..='\u{11FF}' | '\u{1780}'..='\u{17FF}'
            | '\u{2E80}'..='\u{2FDF}' | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{318F}' | '\u{31A0}'..='\u{31FF}'
            | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{A960}'..='\u{A97F}' | '\u{AC00}'..='\u{D7FF}'
            | '\u{F900}'..='\u{FAFF}' | '\u{FF66}'..='\u{FF9F}' | '\u{1B000}'..='\u{1B16F}' | '\u{20000}'..='\u{3FFFF}')
}

/// The normalised form of a word.
fn key(word: &str) -> Cow<'_, str> {
    if word.len() <= LONGEST && word.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase()) {
        return Cow::Borrowed(word);
    }
    let mut key = String::with_capacity(word.len().min(4 * LONGEST));
    for character in word.chars().take(LONGEST) {
        fold(character, &mut key);
    }
    Cow::Owned(key)
}

fn fold(character: char, key: &mut String) {
    match character {
        '\0'..='\u{7F}' => key.push(character.to_ascii_lowercase()),
        // Full-width letters and digits have the order of ASCII.
        '\u{FF10}'..='\u{FF5A}' => {
            let narrow = char::from_u32(u32::from(character) - 0xFEE0);
            key.extend(narrow.map(|narrow| narrow.to_ascii_lowercase()));
        }
        // In Latin, Greek and Cyrillic a combining mark is an accent. In other scripts it is a vowel or makes
        // another letter.
        '\u{80}'..='\u{5FF}' | '\u{1E00}'..='\u{1FFF}' => decompose_canonical(character, |part| match part {
            '\u{300}'..='\u{36F}' => {}
            // The final form of the same letter.
            'ς' => key.push('σ'),
            part => key.extend(part.to_lowercase().filter(|lower| !is_combining_mark(*lower))),
        }),
        _ => key.extend(character.to_lowercase()),
    }
}

/// The parts of `camelCase` and `HTTPServer`.
fn parts(word: &str, start: usize) -> Vec<(Range<usize>, Cow<'_, str>)> {
    let has_capital_inside = word.bytes().skip(1).any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii());
    if !has_capital_inside || word.len() > 2 * LONGEST {
        return Vec::new();
    }
    let characters: Vec<(usize, char)> = word.char_indices().collect();
    let mut cuts = vec![0];
    for (place, window) in characters.windows(2).enumerate() {
        let [(_, before), (at, this)] = window else { continue };
        let next = characters.get(place + 2);
        let is_end_of_capitals = before.is_uppercase() && next.is_some_and(|(_, next)| next.is_lowercase());
        if this.is_uppercase() && (!before.is_uppercase() || is_end_of_capitals) {
            cuts.push(*at);
        }
    }
    if cuts.len() == 1 {
        return Vec::new();
    }
    cuts.push(word.len());
    let part = |cut: &[usize]| (start + cut[0]..start + cut[1], key(&word[cut[0]..cut[1]]));
    cuts.windows(2).map(part).filter(|(_, key)| !key.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        Words::of(text).map(|word| word.key.into_owned()).collect()
    }

    fn all(text: &str) -> Vec<String> {
        let words = Words::of(text);
        words.flat_map(|word| word.parts.into_iter().map(|(_, key)| key.into_owned())).collect()
    }

    #[test]
    fn names_paths_and_addresses_are_cut_into_their_parts() {
        assert_eq!(keys("let max_retry_count = 3;"), ["let", "max", "retry", "count", "3"]);
        assert_eq!(keys("/src/embedded/mod.rs:12"), ["src", "embedded", "mod", "rs", "12"]);
        assert_eq!(keys("don't; x--y::Z<T>"), ["don", "t", "x", "y", "z", "t"]);
        assert_eq!(keys(" \0\u{7f}--\"'*^:() "), Vec::<String>::new());
    }

    #[test]
    fn a_word_with_capitals_inside_is_found_by_its_parts_too() {
        assert_eq!(keys("parseQueryString"), ["parsequerystring"]);
        assert_eq!(all("parseQueryString"), ["parse", "query", "string"]);
        assert_eq!(all("HTTPServer sha256Sum"), ["http", "server", "sha256", "sum"]);
        assert_eq!(all("Hello HELLO hello"), Vec::<String>::new());
    }

    #[test]
    fn case_accents_and_width_do_not_count() {
        assert_eq!(keys("Crème BRÛLÉE e\u{301}t\u{e9}"), ["creme", "brulee", "ete"]);
        assert_eq!(keys("Σίσυφος ΣΊΣΥΦΟΣ Ёлка"), ["σισυφοσ", "σισυφοσ", "елка"]);
        assert_eq!(keys("Ｔｅｓｔ１"), ["test1"]);
        assert_eq!(keys("\u{301}\u{302}"), Vec::<String>::new(), "a mark on nothing is no word");
    }

    #[test]
    fn scripts_without_spaces_and_emoji_are_cut_into_characters() {
        assert_eq!(keys("検索xする🚀ok"), ["検", "索", "x", "す", "る", "🚀", "ok"]);
        assert_eq!(keys("한국어"), ["한", "국", "어"]);
        assert_eq!(keys("हिन्दी"), ["हिन्दी"], "a vowel sign is part of its word");
    }

    #[test]
    fn every_range_is_of_the_text_and_a_long_word_counts_by_its_beginning() {
        let text = format!("é {} parseIt", "a".repeat(500));
        let words: Vec<Word<'_>> = Words::of(&text).collect();
        assert_eq!(words[1].key, "a".repeat(LONGEST));
        assert_eq!(words[1].range, 3..503);
        let spans: Vec<&str> = words[2].parts.iter().map(|(range, _)| &text[range.clone()]).collect();
        assert_eq!(spans, ["parse", "It"]);
    }

    /// FTS5 would split at any other ASCII character, and an underscore begins a tag.
    #[test]
    fn a_key_of_any_character_is_one_token() {
        for character in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            let text = format!("x{character}X {character}");
            for word in Words::of(&text) {
                for key in word.parts.iter().map(|(_, key)| key).chain([&word.key]) {
                    let is_plain =
                        |one: char| !one.is_ascii() || one.is_ascii_lowercase() || one.is_ascii_digit();
                    assert!(!key.is_empty() && key.chars().all(is_plain), "{character:?}: {key:?}");
                }
            }
        }
    }
}
