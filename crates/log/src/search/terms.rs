//! Parses a query into terms: words, `"phrases"`, prefixes (`retr*`), and negated words (`-word`). All other
//! characters separate words, so a query cannot be malformed, only empty or too large.

use super::SearchError;
use super::words::{Words, stands_alone};
use std::ops::Range;

/// The largest query in bytes.
pub const MOST_QUERY_BYTES: usize = 1_024;
/// The largest number of words in a query.
const MOST_WORDS: usize = 32;
/// The shortest prefix before a star. One letter would match half of all words.
const SHORTEST_BEGINNING: usize = 2;

/// A parsed query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Terms that must all occur; at least one.
    pub(crate) wanted: Vec<Term>,
    /// Terms that must not occur.
    pub(crate) unwanted: Vec<Term>,
}

/// Consecutive words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    /// The words; at least one.
    pub(crate) keys: Vec<String>,
    /// The last word is a prefix.
    pub(crate) is_beginning: bool,
}

impl Terms {
    pub(crate) fn parse(query: &str) -> Result<Self, SearchError> {
        if query.len() > MOST_QUERY_BYTES {
            let problem =
                format!("it has {} bytes and may have {MOST_QUERY_BYTES}; use fewer words", query.len());
            return Err(SearchError::Words(problem));
        }
        let mut terms = Self { wanted: Vec::new(), unwanted: Vec::new() };
        let mut rest = query.trim_start();
        while !rest.is_empty() {
            // `--flag` is a word; `-flag` is a negated one.
            let negated = rest
                .strip_prefix('-')
                .filter(|after| after.starts_with(|next: char| !next.is_whitespace() && next != '-'));
            let is_unwanted = negated.is_some();
            let (typed, after) = split_first(negated.unwrap_or(rest));
            rest = after.trim_start();
            let Some(term) = Term::of(typed)? else { continue };
            if is_unwanted { terms.unwanted.push(term) } else { terms.wanted.push(term) }
        }
        terms.check()
    }

    fn check(self) -> Result<Self, SearchError> {
        let count: usize = self.wanted.iter().chain(&self.unwanted).map(|term| term.keys.len()).sum();
        let problem = match (self.wanted.is_empty(), self.unwanted.is_empty()) {
            _ if count > MOST_WORDS => {
                format!("it has {count} words and may have {MOST_WORDS}; use fewer")
            }
            (true, true) => "there is no word in it; give at least one".to_owned(),
            (true, false) => "it has only excluded words; give one that must occur".to_owned(),
            (false, _) => return Ok(self),
        };
        Err(SearchError::Words(problem))
    }

    /// True if the text matches the query. Reads the text once for all terms.
    pub(crate) fn fit(&self, text: &str) -> bool {
        let mut missing: Vec<bool> = self.wanted.iter().map(|_| true).collect();
        let (mut wanted, mut unwanted) = (Finder::new(&self.wanted), Finder::new(&self.unwanted));
        for word in Words::of(text) {
            wanted.push_each(&word, |term, _| missing[term] = false);
            let mut is_refused = false;
            unwanted.push_each(&word, |_, _| is_refused = true);
            if is_refused {
                return false;
            }
            if self.unwanted.is_empty() && !missing.contains(&true) {
                return true;
            }
        }
        !missing.contains(&true)
    }
}

/// The next quoted phrase or run without spaces, and the rest. An unclosed quote extends to the end.
fn split_first(text: &str) -> (&str, &str) {
    if let Some(quoted) = text.strip_prefix('"') {
        let Some(end) = quoted.find('"') else { return (quoted, "") };
        return (&quoted[..end], &quoted[end + 1..]);
    }
    let end = text.find(|next: char| next.is_whitespace() || next == '"').unwrap_or(text.len());
    text.split_at(end)
}

impl Term {
    /// `None` if the input has no word. Words that were typed as one (`snake_case`, `a/path`) become a
    /// phrase.
    fn of(typed: &str) -> Result<Option<Self>, SearchError> {
        let mut words: Vec<_> = Words::of(typed).collect();
        let Some(last) = words.pop() else { return Ok(None) };
        // A character that is a word by itself needs no prefix search.
        let is_beginning =
            typed[last.range.end..].starts_with('*') && !typed[last.range.clone()].starts_with(stands_alone);
        if is_beginning && last.key.chars().count() < SHORTEST_BEGINNING {
            let problem = format!(
                "the prefix {:?} is too short; put at least {SHORTEST_BEGINNING} letters before the star",
                format!("{}*", last.key)
            );
            return Err(SearchError::Words(problem));
        }
        words.push(last);
        let keys = words.into_iter().map(|word| word.key.into_owned()).collect();
        Ok(Some(Self { keys, is_beginning }))
    }

    /// True if these words, newest first, end with the term.
    fn ends<'k>(&self, newest_first: impl Iterator<Item = &'k str>) -> bool {
        let mut newest_first = newest_first;
        self.keys.iter().rev().enumerate().all(|(place, key)| {
            newest_first.next().is_some_and(|word| {
                if place == 0 && self.is_beginning { word.starts_with(key.as_str()) } else { word == key }
            })
        })
    }
}

/// Finds terms in a stream of words.
pub(crate) struct Finder<'t> {
    terms: &'t [Term],
    /// The latest words, as many as the longest term has.
    last: std::collections::VecDeque<(Range<usize>, String)>,
    longest: usize,
}

impl<'t> Finder<'t> {
    pub(crate) fn new(terms: &'t [Term]) -> Self {
        let longest = terms.iter().map(|term| term.keys.len()).max().unwrap_or(0);
        Self { terms, last: std::collections::VecDeque::with_capacity(longest + 1), longest }
    }

    /// Adds the next word. Returns the range of the text that matches with it, if any.
    pub(crate) fn push(&mut self, word: &super::words::Word<'_>) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        self.push_each(word, |_, range| found.push(range));
        found
    }

    /// Adds the next word, and calls `found` with every term that matches with it.
    fn push_each(&mut self, word: &super::words::Word<'_>, mut found: impl FnMut(usize, Range<usize>)) {
        if self.terms.is_empty() {
            return;
        }
        self.last.push_front((word.range.clone(), word.key.clone().into_owned()));
        self.last.truncate(self.longest);
        for (place, term) in self.terms.iter().enumerate() {
            let length = term.keys.len();
            if self.last.len() >= length && term.ends(self.last.iter().map(|(_, key)| key.as_str())) {
                found(place, self.last[length - 1].0.start..word.range.end);
            }
            for end in length..=word.parts.len() {
                if term.ends(word.parts[..end].iter().rev().map(|(_, key)| &**key)) {
                    found(place, word.parts[end - length].0.start..word.parts[end - 1].0.end);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(terms: &[Term]) -> Vec<String> {
        let star = |term: &Term| if term.is_beginning { "*" } else { "" };
        terms.iter().map(|term| term.keys.join(" ") + star(term)).collect()
    }

    fn parsed(query: &str) -> (Vec<String>, Vec<String>) {
        let Terms { wanted, unwanted } = Terms::parse(query).unwrap();
        (shown(&wanted), shown(&unwanted))
    }

    #[test]
    fn words_phrases_beginnings_and_exclusions() {
        let (wanted, unwanted) = parsed(r#"Retry "too many" over* -draft -"old one" max_count src/li*"#);
        assert_eq!(wanted, ["retry", "too many", "over*", "max count", "src li*"]);
        assert_eq!(unwanted, ["draft", "old one"]);
    }

    #[test]
    fn what_other_languages_take_for_operators_is_words_or_nothing() {
        assert_eq!(parsed("a AND b OR NOT NEAR(c, 2)").0, ["a", "and", "b", "or", "not", "near c", "2"]);
        assert_eq!(
            parsed("words : {x} ^y (z) + --json - ; DROP").0,
            ["words", "x", "y", "z", "json", "drop"]
        );
        assert_eq!(parsed("\"never closed").0, ["never closed"]);
        assert_eq!(parsed("a\"b c\"d").0, ["a", "b c", "d"]);
        assert_eq!(parsed("x\0y 検索* 🚀").0, ["x y", "検 索", "🚀"]);
    }

    #[test]
    fn what_cannot_be_looked_for_is_refused_with_a_reason() {
        for (query, told) in [
            ("", "there is no word in it"),
            ("  \"\" -- *** ^:()", "there is no word in it"),
            ("-only", "only excluded words"),
            ("a*", "at least 2 letters"),
            ("ж*", "at least 2 letters"),
        ] {
            let SearchError::Words(problem) = Terms::parse(query).unwrap_err() else { panic!("{query}") };
            assert!(problem.contains(told), "{query}: {problem}");
        }
        for large in ["x".repeat(10_000), "a ".repeat(100)] {
            assert!(matches!(Terms::parse(&large), Err(SearchError::Words(_))));
        }
    }

    #[test]
    fn a_term_fits_as_it_is_said_in_the_documentation() {
        let fits = |query: &str, text: &str| Terms::parse(query).unwrap().fit(text);
        assert!(fits("query", "fn parseQueryString()") && fits("parse_query", "fn parseQueryString()"));
        assert!(fits("parseQuery*", "fn parseQueryString()") && !fits("parseQuery", "fn parseQueryString()"));
        assert!(fits("creme", "Crème") && fits("検索", "全文検索です") && !fits("検索", "索検"));
        assert!(fits("\"a b\"", "x A-b") && !fits("\"a b\"", "a x b"));
        assert!(!fits("a -b", "a b") && fits("a -b", "a c"));
        assert!(!fits("\"bar baz\"", "fooBar bazQux"), "parts of two words do not follow each other");
    }
}
