//! Finding the next secret in a text, or the place from which on the text may still become one.

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

/// How a rule begins.
pub(crate) enum Begins<'a> {
    /// With one of these, and what the first byte of them means by itself; in any case or as written.
    With(Vec<&'a [u8]>, Last, bool),
    /// With any of these bytes.
    Anywhere(Box<[bool; 256]>),
}

/// The only prefix shorter than what the gate looks at, with what follows it: a digit in base 16.
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
    /// There are literals among the rules.
    pub(crate) literals: bool,
}

/// How far a secret goes with what begins within it.
enum Stretched {
    To(Found),
    /// The text ends within what begins within it.
    Cut(Pending),
}

/// What is to be known of a text that ends in what may become a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// From where on it is held. What begins behind that changes nothing, and is not looked at: held text
    /// would be judged from each of its places with every piece that comes.
    Held,
    /// Also what it is if the text ends here.
    AtEnd,
}

/// What comes next in a text.
#[derive(Debug)]
pub(crate) enum Step {
    /// No secret, whatever follows.
    Clean,
    Found(Found),
    Waiting(Waiting),
}

/// The text ends in what may become a secret.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Where to look again when there is more.
    pub(crate) at: usize,
    /// From here on nothing goes out, if no time passes.
    pub(crate) hold: usize,
    /// From here on nothing goes out by time.
    pub(crate) firm: usize,
    /// What it is if the text ends here.
    pub(crate) at_end: Option<Found>,
    /// What it may become if the text goes on: that which begins first.
    begun: Option<Found>,
}

/// A piece of a secret by which it would be recognised.
const PIECE: usize = 12;

impl Waiting {
    /// What it is if the text may end here, and may as well go on: what is told from other text, and
    /// whatever has begun and would be out with a whole piece, because the next character may make a secret
    /// of it.
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
    /// Looks from `from` on.
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
                    // What stands before it is not decided, and may contain it.
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

    /// A literal that begins within a secret and goes on behind it is redacted to its end. That a given
    /// value is always caught does not depend on what stands before it.
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

    /// What the last byte may begin.
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

    /// What a token, a literal or a key block says about `at`, which lies within what another rule looks at.
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
