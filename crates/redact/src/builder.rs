//! Building rules: the builtin ones, and values and expressions from the configuration.

use crate::custom::{Expression, Literal, forms};
use crate::gate::{Beginning, Gate};
use crate::name::{Sort, WORDS};
use crate::rules::{Compiled, Rules, marker};
use crate::scan::{Begins, Rule, Scanner};
use crate::token::TOKENS;
use crate::view::Kind;
use std::sync::Arc;
use thiserror::Error;

/// The shortest literal, in bytes. Shorter ones occur in ordinary text by chance.
pub const SHORTEST_LITERAL: usize = 8;
/// The shortest prefix of a pattern, in bytes.
pub const SHORTEST_PREFIX: usize = 3;
/// The longest literal, in bytes. It bounds how much text is held.
pub const LONGEST_LITERAL: usize = 4096;
/// How many literals and patterns may be added.
const MOST: usize = 4096;

/// A regular expression for a secret.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// What the marker says: `[redacted:name]`. Small letters, digits, `_` and `-`.
    pub name: String,
    /// What to redact, in the syntax of the `regex` crate.
    pub regex: String,
    /// What every match begins with, if it begins with something distinctive. From there on the text is
    /// held until it is decided, however long that takes. Without it, up to eight bytes of a secret that
    /// arrives slowly are given out before the rest is redacted.
    pub prefix: Option<String>,
}

/// The reason why a rule was refused.
#[derive(Debug, Error)]
pub enum RuleError {
    /// The value is so short that it occurs in texts by chance.
    #[error(
        "the literal {name:?} is {length} bytes long; at least {SHORTEST_LITERAL} are needed, since shorter values stand in ordinary text by chance"
    )]
    ShortLiteral {
        /// The name given to it.
        name: String,
        /// Its length in bytes.
        length: usize,
    },
    /// The value is too long to be held.
    #[error(
        "the literal {name:?} is {length} bytes long; at most {LONGEST_LITERAL} are held, so give its first line or a part of it"
    )]
    LongLiteral {
        /// The name given to it.
        name: String,
        /// Its length in bytes.
        length: usize,
    },
    /// The name cannot stand in a marker.
    #[error("{name:?} cannot be the name of a rule: take 1 to 32 small letters, digits, `_` and `-`")]
    Name {
        /// The name given.
        name: String,
    },
    /// The expression cannot be used.
    #[error("the regex of pattern {name:?} cannot be used: {why}")]
    Regex {
        /// The name of the pattern.
        name: String,
        /// What the compiler of expressions says.
        why: String,
    },
    /// The expression matches nothing at all.
    #[error("the regex of pattern {name:?} matches the empty text, which is everywhere: {regex:?}")]
    Empty {
        /// The name of the pattern.
        name: String,
        /// The expression.
        regex: String,
    },
    /// The prefix is too short.
    #[error(
        "the prefix {prefix:?} of pattern {name:?} is shorter than {SHORTEST_PREFIX} bytes: leave it out, or give more"
    )]
    ShortPrefix {
        /// The name of the pattern.
        name: String,
        /// The prefix.
        prefix: String,
    },
    /// No match can begin with the prefix.
    #[error("no match of pattern {name:?} begins with its prefix {prefix:?}: {regex:?}")]
    WrongPrefix {
        /// The name of the pattern.
        name: String,
        /// The prefix.
        prefix: String,
        /// The expression.
        regex: String,
    },
    /// There is no such builtin rule.
    #[error("there is no builtin kind {kind:?}; there are: {known}")]
    UnknownKind {
        /// The kind given.
        kind: String,
        /// All kinds there are.
        known: String,
    },
    /// The list is full.
    #[error("more than {MOST} literals and patterns: {name:?} is one too many")]
    TooMany {
        /// The name of the first that did not fit.
        name: String,
    },
}

/// A set of rules that is being built.
#[derive(Debug, Default)]
pub struct Builder {
    builtin: bool,
    without: Vec<String>,
    custom: Vec<(String, Rule)>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self { builtin: true, ..Self::default() }
    }

    pub(crate) fn empty() -> Self {
        Self::default()
    }

    /// Adds a value that is to be redacted wherever it stands, also escaped in JSON or in a URL. At least
    /// [`SHORTEST_LITERAL`] bytes.
    pub fn literal(mut self, name: &str, value: &str) -> Result<Self, RuleError> {
        self.check(name)?;
        let (name, length) = (name.to_owned(), value.len());
        if length < SHORTEST_LITERAL {
            return Err(RuleError::ShortLiteral { name, length });
        }
        if length > LONGEST_LITERAL {
            return Err(RuleError::LongLiteral { name, length });
        }
        for form in forms(value) {
            self.custom.push((name.clone(), Rule::Literal(Literal(form.into_bytes().into()))));
        }
        Ok(self)
    }

    /// Adds an expression.
    pub fn pattern(mut self, pattern: Pattern) -> Result<Self, RuleError> {
        let Pattern { name, regex, prefix } = pattern;
        self.check(&name)?;
        if let Some(prefix) = &prefix
            && prefix.len() < SHORTEST_PREFIX
        {
            return Err(RuleError::ShortPrefix { name, prefix: prefix.clone() });
        }
        let expression = match Expression::new(&regex, prefix.clone().map(Into::into)) {
            Ok(expression) => expression,
            Err(why) => return Err(RuleError::Regex { name, why }),
        };
        if expression.can_be_empty() {
            return Err(RuleError::Empty { name, regex });
        }
        if let Some(prefix) = prefix
            && !expression.may_begin_with(&prefix)
        {
            return Err(RuleError::WrongPrefix { name, prefix, regex });
        }
        self.custom.push((name, Rule::Expression(Box::new(expression))));
        Ok(self)
    }

    /// Removes every builtin rule of a kind.
    pub fn without(mut self, kind: &str) -> Result<Self, RuleError> {
        let kinds = kinds();
        if !kinds.contains(&kind) {
            return Err(RuleError::UnknownKind { kind: kind.to_owned(), known: kinds.join(", ") });
        }
        self.without.push(kind.to_owned());
        Ok(self)
    }

    /// Compiles the rules.
    pub fn build(mut self) -> Rules {
        let mut rules = Vec::new();
        let mut names: Vec<String> = Vec::new();
        let mut kind = |name: &str| {
            let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            });
            Kind(at as u16)
        };
        // Of two literals with the same beginning, the longer one is tried first.
        let length = |rule: &Rule| if let Rule::Literal(literal) = rule { literal.0.len() } else { 0 };
        self.custom.sort_by_key(|(_, rule)| std::cmp::Reverse(length(rule)));
        let literals = self.custom.iter().any(|(_, rule)| matches!(rule, Rule::Literal(_)));
        for (name, rule) in self.custom {
            rules.push((kind(&name), rule));
        }
        let mut fragment = None;
        if self.builtin {
            let wanted = |name: &str| !self.without.iter().any(|without| without == name);
            for token in TOKENS.iter().filter(|token| wanted(token.kind)) {
                rules.push((kind(token.kind), Rule::Token(token)));
            }
            fragment = wanted(FRAGMENT).then(|| kind(FRAGMENT));
            for (name, rule) in others().into_iter().filter(|(name, _)| wanted(name)) {
                rules.push((kind(name), rule));
            }
        }
        let mut beginnings = Vec::new();
        let mut anywhere = Vec::new();
        for (at, (_, rule)) in rules.iter().enumerate() {
            let at = at as u16;
            match rule.begins() {
                Begins::With(bytes, last, any_case) => {
                    beginnings.extend(bytes.into_iter().map(|bytes| Beginning {
                        rule: at,
                        bytes,
                        last,
                        any_case,
                    }));
                }
                Begins::Anywhere(first) => anywhere.push((at, first)),
            }
        }
        let gate = Gate::new(&beginnings, anywhere);
        let markers = names.iter().map(|name| marker(name)).collect();
        Rules { inner: Arc::new(Compiled { scanner: Scanner { gate, rules, literals }, markers, fragment }) }
    }

    fn check(&self, name: &str) -> Result<(), RuleError> {
        let plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
        if name.is_empty() || name.len() > 32 || !name.bytes().all(plain) {
            return Err(RuleError::Name { name: name.to_owned() });
        }
        if self.custom.len() >= MOST {
            return Err(RuleError::TooMany { name: name.to_owned() });
        }
        Ok(())
    }
}

/// The kind of a secret at the beginning of a text whose beginning is unknown.
const FRAGMENT: &str = "fragment";

/// Builtin rules that are not tokens with a prefix.
fn others() -> Vec<(&'static str, Rule)> {
    let mut rules = vec![
        ("telegram", Rule::Telegram),
        ("azure_sas", Rule::Signature),
        ("jwt", Rule::Jwt),
        ("private_key", Rule::Block),
        ("private_key", Rule::Putty),
        ("password", Rule::Command),
        ("url_password", Rule::Url),
        ("authorization", Rule::Authorization),
        ("bearer", Rule::Bearer),
        ("basic", Rule::Basic),
    ];
    rules.extend(WORDS.iter().map(|word| match word.sort {
        Sort::Password => ("password", Rule::Assigned(word)),
        Sort::Key => ("secret", Rule::Assigned(word)),
        Sort::Login => ("basic", Rule::Assigned(word)),
    }));
    rules
}

/// The kinds of builtin rules, as markers and [`Builder::without`] name them.
pub fn kinds() -> Vec<&'static str> {
    let mut kinds: Vec<_> = TOKENS.iter().map(|token| token.kind).collect();
    kinds.push(FRAGMENT);
    kinds.extend(others().iter().map(|(kind, _)| *kind));
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}
