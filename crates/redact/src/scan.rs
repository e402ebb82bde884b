//! Finds the next secret in a text, or the position from which the text may still become one.

use crate::custom::{Expression, Literal};
use crate::gate::{Gate, Last};
use crate::name::Word;
use crate::token::{Place, Token};
use crate::view::{Found, Kind, Pending, Verdict, View};
use crate::{assign, block, command, header, jwt, putty, query, url};

/// One compiled rule.
#[derive(Debug)]
pub(crate) enum Rule {
    Token(&'static Token),
    Telegram,
    Signature,
    Jwt,
    Block,
    Putty,
    Url,
    Command,
    Authorization,
    Bearer,
    Basic,
    Assigned(&'static Word),
    Literal(Literal),
    Expression(Box<Expression>),
}

/// The beginnings of a rule's matches.
pub(crate) enum Begins<'a> {
    /// One of these texts, in any case or as written, and what their first byte alone means.
    With(Vec<&'a [u8]>, Last, bool),
    /// Any of these bytes.
    Anywhere(Box<[bool; 256]>),
}

/// The only prefix that is shorter than the gate's three characters, extended by a hexadecimal digit.
const TWO_LETTERS: &str = "SK";
const WITH_A_THIRD: [&[u8]; 7] = [b"SK0", b"SKa", b"SKb", b"SKc", b"SKd", b"SKe", b"SKf"];

impl Rule {
    pub(crate) fn begins(&self) -> Begins<'_> {
        let named = |bytes| Begins::With(vec![bytes], Last::Watched, true);
        match self {
            Rule::Token(token) => {
                let last = match (token.address, token.place) {
                    (true, _) => Last::Watched,
                    (false, Place::WordStart) => Last::HeldAtWord,
                    (false, Place::Anywhere) => Last::Held,
                };
                let short = token.prefix == TWO_LETTERS;
                let bytes = if short { WITH_A_THIRD.to_vec() } else { vec![token.prefix.as_bytes()] };
                Begins::With(bytes, last, false)
            }
            Rule::Telegram => Begins::With(vec![query::TELEGRAM], Last::Watched, false),
            Rule::Signature => Begins::With(vec![query::SIGNATURE], Last::Watched, false),
            Rule::Jwt => Begins::With(vec![jwt::BEGINNING], Last::HeldAtWord, false),
            Rule::Block => Begins::With(vec![block::BEGINNING], Last::Held, false),
            Rule::Putty => Begins::With(vec![putty::BEGINNING], Last::HeldAtWord, false),
            Rule::Command => Begins::With(command::FLAGS.to_vec(), Last::Watched, false),
            Rule::Url => Begins::With(url::BEGINNINGS.to_vec(), Last::Watched, false),
            Rule::Authorization => named(header::AUTHORIZATION),
            Rule::Bearer => named(header::BEARER),
            Rule::Basic => named(header::BASIC),
            Rule::Assigned(word) => named(word.word),
            Rule::Literal(literal) => Begins::With(vec![&literal.0], Last::Held, false),
            Rule::Expression(expression) => match &expression.prefix {
                Some(prefix) => Begins::With(vec![prefix.as_bytes()], Last::Held, false),
                None => Begins::Anywhere(expression.first_bytes()),
            },
        }
    }
}

/// All rules behind their gate.
#[derive(Debug)]
pub(crate) struct Scanner {
    pub(crate) gate: Gate,
    pub(crate) rules: Vec<(Kind, Rule)>,
    /// True when the rules have literals.
    pub(crate) literals: bool,
}

/// The end of a secret, extended by a literal that begins within it.
enum Stretched {
    To(Found),
    /// The text ends within that literal.
    Cut(Pending),
}

/// What the caller wants to know about a text whose end may become a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// Only the position from which it is held. Later beginnings change nothing and are skipped: otherwise
    /// held text would be judged from each position with every new piece.
    Held,
    /// Also what it is if the text ends here.
    AtEnd,
}

/// The next finding in a text.
#[derive(Debug)]
pub(crate) enum Step {
    /// No secret, whatever follows.
    Clean,
    Found(Found),
    Waiting(Waiting),
}

/// The end of the text may become a secret.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Where to continue when there is more text.
    pub(crate) at: usize,
    /// Text from here on is held back.
    pub(crate) hold: usize,
    /// Text from here on is held back even when time passes.
    pub(crate) firm: usize,
    /// What it is if the text ends here.
    pub(crate) at_end: Option<Found>,
    /// What it may become if the text goes on: the first such beginning.
    begun: Option<Found>,
}

/// So many bytes of a secret would be enough to recognise it.
const PIECE: usize = 12;

impl Waiting {
    /// What to redact at an end that may not be final. This includes everything that has begun like a
    /// secret and would show [`PIECE`] bytes: the next character may make a secret of it.
    pub(crate) fn at_doubtful_end(&self) -> Option<Found> {
        let begun = self.begun.filter(|found| found.end - found.start >= PIECE);
        match (self.at_end, begun) {
            (Some(told), Some(begun)) if begun.start < told.start => Some(begun),
            (Some(told), _) => Some(told),
            (None, begun) => begun,
        }
    }
}

impl Scanner {
    /// Searches from `from` on.
    pub(crate) fn next(&self, view: &View<'_>, from: usize, want: Want) -> Step {
        let mut waiting: Option<Waiting> = None;
        let mut from = from;
        while let Some(at) = self.gate.next(view.text, from) {
            if want == Want::Held
                && let Some(waiting) = waiting.take_if(|waiting| waiting.firm <= at)
            {
                return Step::Waiting(waiting);
            }
            for rule in self.gate.rules(view.text, at) {
                let pending = match (self.verify(view, at, rule), &waiting) {
                    (Verdict::No, _) => continue,
                    (Verdict::Found(found), None) => match self.stretch(view, found) {
                        Stretched::To(found) => return Step::Found(found),
                        Stretched::Cut(pending) => pending,
                    },
                    // Text before it is undecided and may contain it.
                    (Verdict::Found(found), Some(_)) => Pending::begun(found, true),
                    (Verdict::Pending(pending), _) => pending,
                };
                let end = view.text.len();
                let waiting =
                    waiting.get_or_insert(Waiting { at, hold: end, firm: end, at_end: None, begun: None });
                waiting.hold = waiting.hold.min(pending.hold);
                if pending.firm {
                    waiting.firm = waiting.firm.min(pending.hold);
                }
                waiting.at_end = waiting.at_end.or(pending.at_end);
                waiting.begun = match (waiting.begun, pending.begun) {
                    (Some(known), Some(other)) if other.start < known.start => Some(other),
                    (known, other) => known.or(other),
                };
            }
            from = at + 1;
        }
        if let Some(last) = view.text.len().checked_sub(1)
            && last >= from
        {
            self.wait_for_more(view, last, &mut waiting);
        }
        waiting.map_or(Step::Clean, Step::Waiting)
    }

    /// A literal that begins within a secret and ends after it is redacted completely. A literal is always
    /// found, whatever comes before it.
    fn stretch(&self, view: &View<'_>, mut found: Found) -> Stretched {
        if !self.literals {
            return Stretched::To(found);
        }
        let mut at = found.start + 1;
        while at < found.end {
            for rule in self.gate.rules(view.text, at) {
                let (kind, Rule::Literal(literal)) = &self.rules[usize::from(rule)] else { continue };
                match literal.verify(view, at, *kind, rule) {
                    Verdict::No => {}
                    Verdict::Found(other) => {
                        if other.end > found.end {
                            found = Found { end: other.end, then: other.then, ..found };
                        }
                    }
                    Verdict::Pending(Pending { at_end, .. }) => {
                        let at_end =
                            at_end.map_or(found, |other| Found { end: other.end, then: other.then, ..found });
                        return Stretched::Cut(Pending::begun(at_end, true));
                    }
                }
            }
            at += 1;
        }
        Stretched::To(found)
    }

    /// What may begin with the last byte.
    fn wait_for_more(&self, view: &View<'_>, last: usize, waiting: &mut Option<Waiting>) {
        let end = view.text.len();
        let hold = match self.gate.last(view.text[last]) {
            Last::Nothing => return,
            Last::Watched => end,
            Last::HeldAtWord => {
                if view.word_begins(last) {
                    last
                } else {
                    end
                }
            }
            Last::Held => last,
        };
        let waiting =
            waiting.get_or_insert(Waiting { at: last, hold: end, firm: end, at_end: None, begun: None });
        waiting.hold = waiting.hold.min(hold);
    }

    /// The verdict of a token, a literal or a key block about `at`, which lies within the text that another
    /// rule judges.
    pub(crate) fn inside(&self, view: &View<'_>, at: usize) -> Verdict {
        let mut waiting: Option<Pending> = None;
        if at + 1 == view.text.len() && self.gate.last(view.text[at]) > Last::Watched {
            return Verdict::Pending(Pending::brief(at));
        }
        for rule in self.gate.rules(view.text, at) {
            let alone = match &self.rules[usize::from(rule)].1 {
                Rule::Token(_)
                | Rule::Jwt
                | Rule::Block
                | Rule::Putty
                | Rule::Literal(_)
                | Rule::Expression(_) => true,
                Rule::Telegram | Rule::Signature | Rule::Url | Rule::Command => false,
                Rule::Authorization | Rule::Bearer | Rule::Basic | Rule::Assigned(_) => false,
            };
            if !alone {
                continue;
            }
            match (self.verify(view, at, rule), &mut waiting) {
                (Verdict::No, _) => {}
                (Verdict::Found(found), None) => return Verdict::Found(found),
                (Verdict::Found(found), Some(waiting)) => waiting.at_end = waiting.at_end.or(Some(found)),
                (Verdict::Pending(pending), None) => waiting = Some(pending),
                (Verdict::Pending(pending), Some(waiting)) => {
                    waiting.at_end = waiting.at_end.or(pending.at_end);
                    waiting.begun = waiting.begun.or(pending.begun);
                }
            }
        }
        waiting.map_or(Verdict::No, Verdict::Pending)
    }

    fn verify(&self, view: &View<'_>, at: usize, rule: u16) -> Verdict {
        let (kind, this) = &self.rules[usize::from(rule)];
        match this {
            Rule::Token(token) => token.verify(view, at, *kind),
            Rule::Telegram => query::telegram(view, at, *kind),
            Rule::Signature => query::signature(view, at, *kind),
            Rule::Jwt => jwt::verify(view, at, *kind),
            Rule::Block => block::verify(view, at, *kind),
            Rule::Putty => putty::verify(view, at, *kind),
            Rule::Command => command::verify(view, at, *kind),
            Rule::Url => url::verify(self, view, at, *kind),
            Rule::Authorization => header::authorization(self, view, at, *kind),
            Rule::Bearer => header::bearer(self, view, at, *kind),
            Rule::Basic => header::basic(self, view, at, *kind),
            Rule::Assigned(word) => assign::verify(self, view, at, *kind, word),
            Rule::Literal(literal) => literal.verify(view, at, *kind, rule),
            Rule::Expression(expression) => expression.verify(view, at, *kind),
        }
    }
}
