//! Excerpts: a few words around a match, with the match marked.

use super::terms::{Finder, Term};
use super::words::Words;
use serde::Serialize;
use std::ops::Range;

/// Characters before the first match.
const BEFORE: usize = 60;
/// Characters in total.
const WIDTH: usize = 240;

/// A part of an excerpt. The text is unescaped, as in the log: escape it for the place where it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The text. Runs of white space are one space, and an ellipsis stands for omitted text.
    pub text: String,
    /// Whether this part is a match.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hit: bool,
}

/// The excerpt of a text.
pub(crate) fn snippet(text: &str, terms: &[Term]) -> Vec<Part> {
    let mut hits: Vec<Range<usize>> = Vec::new();
    let mut finder = Finder::new(terms);
    for word in Words::of(text) {
        // Long enough for characters of any size.
        if hits.first().is_some_and(|first| word.range.start > first.start + 4 * WIDTH) {
            break;
        }
        hits.extend(finder.push(&word));
    }
    hits.sort_by_key(|hit| (hit.start, hit.end));
    let first = hits.first().map_or(0, |hit| hit.start);
    let window = window(text, first);
    let mut parts = Parts::default();
    if window.start > 0 {
        parts.push("\u{2026}", false);
    }
    let mut at = window.start;
    for hit in hits {
        let (start, end) = (hit.start.max(at), hit.end.min(window.end));
        if start >= end {
            continue;
        }
        parts.push(&text[at..start], false);
        parts.push(&text[start..end], true);
        at = end;
    }
    parts.push(&text[at..window.end], false);
    if window.end < text.len() {
        parts.push("\u{2026}", false);
    }
    parts.done
}

/// A range of about `WIDTH` characters around a position, beginning at a word if one is near.
fn window(text: &str, first: usize) -> Range<usize> {
    let start = text[..first].char_indices().rev().nth(BEFORE - 1).map_or(0, |(at, _)| at);
    let start = if start == 0 {
        0
    } else {
        let gap = text[start..first].find(char::is_whitespace).map(|gap| start + gap);
        gap.filter(|gap| *gap < first).unwrap_or(start)
    };
    let end = text[start..].char_indices().nth(WIDTH).map_or(text.len(), |(at, _)| start + at);
    start..end
}

#[derive(Default)]
struct Parts {
    done: Vec<Part>,
}

impl Parts {
    fn push(&mut self, text: &str, hit: bool) {
        let mut shown = String::with_capacity(text.len());
        let mut after_space = match self.done.last() {
            Some(last) => last.text.ends_with(' '),
            None => true,
        };
        for character in text.chars() {
            let is_space = character.is_whitespace();
            if !is_space {
                shown.push(character);
            } else if !after_space {
                shown.push(' ');
            }
            after_space = is_space;
        }
        match self.done.last_mut() {
            _ if shown.is_empty() => {}
            Some(last) if last.hit == hit => last.text.push_str(&shown),
            _ => self.done.push(Part { text: shown, hit }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::terms::Terms;
    use super::*;

    fn shown(text: &str, query: &str) -> String {
        let parts = snippet(text, &Terms::parse(query).unwrap().wanted);
        parts
            .iter()
            .map(|part| if part.hit { format!("[{}]", part.text) } else { part.text.clone() })
            .collect()
    }

    #[test]
    fn what_was_found_is_marked_and_nothing_else() {
        assert_eq!(shown("The  retry\npolicy of RETRIES", "retr*"), "The [retry] policy of [RETRIES]");
        assert_eq!(shown("no max, but max_count", "max_count"), "no max, but [max_count]");
        assert_eq!(shown("fn parseQueryString()", "query"), "fn parse[Query]String()");
        assert_eq!(shown("全文検索です", "検索"), "全文[検索]です");
        assert_eq!(shown("Crème brûlée", "creme"), "[Crème] brûlée");
    }

    #[test]
    fn a_long_text_is_shown_around_its_first_hit() {
        let text = format!("{}needle {}", "filler words ".repeat(10_000), "more é ".repeat(10_000));
        let shown = shown(&text, "needle");
        assert!(shown.starts_with("\u{2026} ") && shown.ends_with('\u{2026}'), "{shown}");
        assert!(shown.contains(" [needle] more"), "{shown}");
        assert!(shown.chars().count() < WIDTH + 8, "{shown}");
        assert_eq!(shown.matches('[').count(), 1);
    }

    #[test]
    fn hits_that_overlap_are_marked_once() {
        assert_eq!(shown("one two three", "\"one two\" \"two three\""), "[one two three]");
        assert_eq!(shown("", "x"), "");
    }
}
