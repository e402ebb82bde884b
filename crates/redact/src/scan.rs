//! Finding the next secret in a text, or the place from which on the text may still become one.

use crate::custom::{Expression, Literal};
use crate::gate::Gate;
use crate::token::Token;
use crate::view::{Found, Kind, Pending, Verdict, View};

/// One compiled rule.
#[derive(Debug)]
pub(crate) enum Rule {
    Token(&'static Token),
    Literal(Literal),
    Expression(Expression),
}

/// All rules behind their gate.
#[derive(Debug)]
pub(crate) struct Scanner {
    pub(crate) gate: Gate,
    pub(crate) rules: Vec<(Kind, Rule)>,
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
}

impl Scanner {
    /// Looks from `from` on.
    pub(crate) fn next(&self, view: &View<'_>, from: usize) -> Step {
        let mut waiting: Option<Waiting> = None;
        let mut from = from;
        while let Some(at) = self.gate.next(view.text, from) {
            for rule in self.gate.rules(view.text, at) {
                let pending = match (self.verify(view, at, rule), &waiting) {
                    (Verdict::No, _) => continue,
                    (Verdict::Found(found), None) => return Step::Found(found),
                    // What stands before it is not decided, and may contain it.
                    (Verdict::Found(found), Some(_)) => {
                        Pending { hold: found.start, firm: true, at_end: Some(found) }
                    }
                    (Verdict::Pending(pending), _) => pending,
                };
                let end = view.text.len();
                let waiting = waiting.get_or_insert(Waiting { at, hold: end, firm: end, at_end: None });
                waiting.hold = waiting.hold.min(pending.hold);
                if pending.firm {
                    waiting.firm = waiting.firm.min(pending.hold);
                }
                waiting.at_end = waiting.at_end.or(pending.at_end);
            }
            from = at + 1;
        }
        waiting.map_or(Step::Clean, Step::Waiting)
    }

    fn verify(&self, view: &View<'_>, at: usize, rule: u16) -> Verdict {
        let (kind, this) = &self.rules[usize::from(rule)];
        match this {
            Rule::Token(token) => token.verify(view, at, *kind),
            Rule::Literal(literal) => literal.verify(view, at, *kind, rule),
            Rule::Expression(expression) => expression.verify(view, at, *kind),
        }
    }
}
