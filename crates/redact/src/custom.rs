//! Rules from configuration: literal values and regular expressions.

use crate::class::QUOTED;
use crate::token::CAP;
use crate::view::{Found, Kind, Pending, Stands, Then, Verdict, View, is_char_boundary, stands};
use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind};

/// From this many matched bytes on, a literal is held even when time passes.
const FIRM: usize = 4;
/// From this many matched bytes on, a literal at the end of a text is redacted.
const PARTLY: usize = 8;

/// A literal value to redact.
#[derive(Debug)]
pub(crate) struct Literal(pub(crate) Box<[u8]>);

impl Literal {
    pub(crate) fn verify(&self, view: &View<'_>, at: usize, kind: Kind, rule: u16) -> Verdict {
        match stands(view.text, at, &self.0) {
            Stands::No => Verdict::No,
            Stands::Whole => {
                Verdict::Found(Found { start: at, end: at + self.0.len(), kind, then: Then::Text })
            }
            Stands::Partly => {
                let end = view.text.len();
                let then = Then::Rest { rule, done: end - at };
                let found = Found { start: at, end, kind, then };
                let at_end = (end - at >= PARTLY).then_some(found);
                Verdict::Pending(Pending { hold: at, firm: end - at >= FIRM, at_end, begun: at_end })
            }
        }
    }
}

/// The forms in which a value is written: as it is, in a string of JSON, in a URL, in a form.
pub(crate) fn forms(value: &str) -> Vec<String> {
    let mut json = String::new();
    for sign in value.chars() {
        match sign {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            sign => json.push(sign),
        }
    }
    let mut url = String::new();
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => url.push(char::from(byte)),
            byte => url.push_str(&format!("%{byte:02X}")),
        }
    }
    let form = url.replace("%20", "+");
    let mut forms = vec![value.to_owned()];
    for form in [json, url, form] {
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    forms
}

/// A regular expression, as an automaton that says at every byte whether a match is still possible.
#[derive(Debug)]
pub(crate) struct Expression {
    automaton: dense::DFA<Vec<u32>>,
    pub(crate) prefix: Option<Box<str>>,
}

/// States of the automaton may take this much memory.
const LARGEST: usize = 4 * 1024 * 1024;

impl Expression {
    pub(crate) fn new(regex: &str, prefix: Option<Box<str>>) -> Result<Self, String> {
        let automaton = dense::Builder::new()
            .configure(
                dense::Config::new()
                    .start_kind(StartKind::Anchored)
                    .match_kind(MatchKind::LeftmostFirst)
                    .dfa_size_limit(Some(LARGEST))
                    .determinize_size_limit(Some(LARGEST)),
            )
            .build(regex)
            .map_err(|error| describe(&error))?;
        Ok(Self { automaton, prefix })
    }

    pub(crate) fn can_be_empty(&self) -> bool {
        self.automaton.has_empty()
    }

    /// The bytes it can begin with, whatever stands before it.
    pub(crate) fn first_bytes(&self) -> Box<[bool; 256]> {
        let mut bytes = Box::new([false; 256]);
        let before = [None, Some(b'a'), Some(b'\n'), Some(b'\r'), Some(b' '), Some(b'_'), Some(0xff)];
        for before in before {
            let config = start::Config::new().anchored(Anchored::Yes).look_behind(before);
            let Ok(start) = self.automaton.start_state(&config) else { continue };
            for byte in 0..=u8::MAX {
                bytes[usize::from(byte)] |= !self.is_over(self.automaton.next_state(start, byte));
            }
        }
        bytes
    }

    /// Whether a match that begins with `prefix` is possible.
    pub(crate) fn may_begin_with(&self, prefix: &str) -> bool {
        [None, Some(b'a'), Some(b'\n'), Some(b' ')].into_iter().any(|before| {
            let config = start::Config::new().anchored(Anchored::Yes).look_behind(before);
            let Ok(start) = self.automaton.start_state(&config) else { return false };
            let end = prefix.bytes().fold(start, |state, byte| self.automaton.next_state(state, byte));
            !self.is_over(end)
        })
    }

    fn is_over(&self, state: regex_automata::util::primitives::StateID) -> bool {
        self.automaton.is_dead_state(state) || self.automaton.is_quit_state(state)
    }

    pub(crate) fn verify(&self, view: &View<'_>, at: usize, kind: Kind) -> Verdict {
        if let Some(prefix) = &self.prefix {
            match stands(view.text, at, prefix.as_bytes()) {
                Stands::No => return Verdict::No,
                Stands::Partly => {
                    return Verdict::Pending(Pending::brief(at));
                }
                Stands::Whole => {}
            }
        }
        let config = start::Config::new().anchored(Anchored::Yes).look_behind(view.before(at));
        let Ok(mut state) = self.automaton.start_state(&config) else { return Verdict::No };
        let found = |end, then| Found { start: at, end, kind, then };
        let mut matched = None;
        let text = view.text;
        for here in at..text.len() {
            state = self.automaton.next_state(state, text[here]);
            // The automaton tells of a match one byte late, so that it can look at what follows.
            if self.automaton.is_match_state(state) {
                matched = Some(here);
            }
            if self.is_over(state) {
                return matched.map_or(Verdict::No, |end| Verdict::Found(found(end, Then::Text)));
            }
            if here - at >= CAP && is_char_boundary(text, here) {
                return match (matched, &self.prefix) {
                    (_, Some(_)) => Verdict::Found(found(here, Then::Swallow(&QUOTED))),
                    (Some(end), None) => Verdict::Found(found(end, Then::Text)),
                    (None, None) => Verdict::No,
                };
            }
        }
        if self.automaton.is_match_state(self.automaton.next_eoi_state(state)) {
            matched = Some(text.len());
        }
        let length = text.len() - at;
        let cut = self.prefix.as_ref().is_some_and(|prefix| length >= (prefix.len() + 4).clamp(5, 11));
        let at_end = match matched {
            Some(end) => {
                Some(found(end, if end == text.len() { Then::Swallow(&QUOTED) } else { Then::Text }))
            }
            None => cut.then(|| found(text.len(), Then::Swallow(&QUOTED))),
        };
        let firm = self.prefix.is_some() || length >= PARTLY;
        let begun = Some(found(text.len(), Then::Swallow(&QUOTED)));
        Verdict::Pending(Pending { hold: at, firm, at_end, begun })
    }
}

/// The whole chain, in one line.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    if text.contains("Unicode word boundaries") {
        return r"a word boundary must be of ASCII here: write (?-u:\b) for \b".to_owned();
    }
    text
}
