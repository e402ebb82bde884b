//! Redaction of one growing text.

use crate::class::BASE64;
use crate::fragment;
use crate::rules::{OVER, Rules};
use crate::scan::{Step, Waiting, Want};
use crate::view::{Found, Kind, Pending, Then, Verdict, View};

/// Rules look back by less than this, in bytes.
const CONTEXT: usize = 128;
/// Old context is dropped after this many more bytes, so that dropping costs little per byte.
const SLACK: usize = 1024;

/// One growing text. What [`push`](Self::push), [`release`](Self::release) and [`settle`](Self::settle)
/// give out, one after the other, is the redacted text.
#[derive(Debug)]
pub struct Stream {
    rules: Rules,
    /// The end of the text: what rules may look back at, then what is held.
    tail: String,
    /// How much of `tail` was given out.
    sent: usize,
    /// Before this no secret begins in `tail`.
    from: usize,
    /// From here on, time does not release `tail`.
    firm: usize,
    /// What still belongs to the last secret.
    then: Then,
    /// The text may begin within a secret: its first run is not judged yet.
    middle: Option<Kind>,
}

/// What a [`Stream`] keeps back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Nothing.
    Nothing,
    /// Characters that may begin a secret or an ordinary word. [`Stream::release`] gives them out soon.
    Brief,
    /// A secret seems to have begun. Only more text or the end decides.
    Firm,
}

impl Stream {
    /// A text that is seen from its beginning.
    pub fn new(rules: &Rules) -> Self {
        let rules = rules.clone();
        Self { rules, tail: String::new(), sent: 0, from: 0, firm: 0, then: OVER, middle: None }
    }

    /// A text whose beginning is unknown, after a gap or a restart. Its first characters may be the end of
    /// a secret.
    pub fn in_the_middle(rules: &Rules) -> Self {
        Self { middle: rules.inner.fragment, ..Self::new(rules) }
    }

    /// Adds text and gives out what is decided.
    pub fn push(&mut self, text: &str, out: &mut String) {
        self.tail.push_str(text);
        self.go_on(out, End::Unknown);
    }

    /// What is kept back.
    pub fn holds(&self) -> Held {
        if self.sent == self.tail.len() || matches!(self.then, Then::Block | Then::Putty) {
            Held::Nothing
        } else if self.firm <= self.sent || matches!(self.then, Then::Lines) {
            Held::Firm
        } else {
            Held::Brief
        }
    }

    /// How many bytes of text it keeps, as context and held back. This is bounded.
    pub fn kept(&self) -> usize {
        self.tail.len()
    }

    /// Gives out held text without a distinctive beginning. The caller does this when a [`Held::Brief`] is
    /// 50 ms old. If it turns out to be a secret, the rest of it is still redacted.
    pub fn release(&mut self, out: &mut String) {
        if matches!(self.then, Then::Text) {
            self.send(self.firm, out);
        }
    }

    /// Gives out or redacts everything that is held, because the text may have ended. If more follows, it
    /// continues the same text. So text that begins like a secret is redacted before 12 bytes of it are
    /// out, even if it looks like a word so far.
    pub fn settle(&mut self, out: &mut String) {
        self.go_on(out, End::Doubtful);
    }

    /// Ends the text. What is held is judged as in [`Rules::redact`].
    pub fn finish(mut self, out: &mut String) {
        self.go_on(out, End::Here);
    }

    fn go_on(&mut self, out: &mut String, end: End) {
        loop {
            if !matches!(self.then, Then::Text) {
                let passed = self.rules.inner.scanner.pass(&mut self.then, self.tail.as_bytes());
                self.tail.drain(..passed.bytes);
                let kept = matches!((self.then, end), (Then::Lines, End::Here | End::Doubtful))
                    && !self.tail.is_empty();
                if kept && fragment::is_line(self.tail.as_bytes()) {
                    self.tail.clear();
                    self.then = Then::Swallow(&BASE64);
                    return;
                }
                if !passed.over && !kept {
                    return;
                }
                self.then = OVER;
            }
            let view = View { text: self.tail.as_bytes(), floor: 0 };
            if let Some(kind) = self.middle {
                match (fragment::verify(&self.rules.inner.scanner, &view, kind), end) {
                    (Verdict::No, _) => self.middle = None,
                    (Verdict::Found(found), _)
                    | (Verdict::Pending(Pending { at_end: Some(found), .. }), End::Here | End::Doubtful) => {
                        self.middle = None;
                        self.replace(&found, out);
                        continue;
                    }
                    (Verdict::Pending(_), End::Here | End::Doubtful) => {}
                    (Verdict::Pending(pending), End::Unknown) => {
                        self.firm = if pending.firm { 0 } else { self.firm_from() };
                        return;
                    }
                }
            }
            let want = match end {
                End::Unknown => Want::Held,
                End::Here | End::Doubtful => Want::AtEnd,
            };
            let found = match (self.rules.inner.scanner.next(&view, self.from, want), end) {
                (Step::Found(found), _) => found,
                (Step::Clean, _) => {
                    self.from = self.tail.len();
                    self.firm = self.tail.len();
                    self.send(self.tail.len(), out);
                    return self.forget();
                }
                (Step::Waiting(waiting), End::Unknown) => {
                    self.from = waiting.at;
                    self.firm = waiting.firm;
                    self.send(waiting.hold, out);
                    return self.forget();
                }
                (Step::Waiting(waiting), End::Here | End::Doubtful) => match waiting.found_at(end) {
                    Some(found) => found,
                    None => {
                        self.from = waiting.at;
                        self.firm = self.tail.len();
                        self.send(self.tail.len(), out);
                        return self.forget();
                    }
                },
            };
            self.replace(&found, out);
        }
    }

    /// The position from which the scanner holds text firmly.
    fn firm_from(&self) -> usize {
        let view = View { text: self.tail.as_bytes(), floor: 0 };
        match self.rules.inner.scanner.next(&view, self.from, Want::Held) {
            Step::Clean => self.tail.len(),
            Step::Found(found) => found.start,
            Step::Waiting(waiting) => waiting.firm,
        }
    }

    fn replace(&mut self, found: &Found, out: &mut String) {
        self.send(found.start, out);
        if found.end > self.sent {
            out.push_str(self.rules.inner.marker(found.kind));
        }
        self.tail.drain(..found.end);
        self.sent = self.sent.saturating_sub(found.end);
        self.from = 0;
        self.firm = 0;
        self.then = found.then;
    }

    /// Gives out everything before `until`.
    fn send(&mut self, until: usize, out: &mut String) {
        if until > self.sent {
            out.push_str(&self.tail[self.sent..until]);
            self.sent = until;
        }
    }

    /// Drops context that rules cannot look at any more.
    fn forget(&mut self) {
        let mut cut = self.from.min(self.sent).saturating_sub(CONTEXT);
        if cut < SLACK {
            return;
        }
        while !self.tail.is_char_boundary(cut) {
            cut -= 1;
        }
        self.tail.drain(..cut);
        // The beginning was dropped. It was longer than any secret that is undecided by then.
        self.middle = None;
        if self.tail.capacity() > 16 * SLACK {
            self.tail.shrink_to(2 * SLACK);
        }
        self.from -= cut;
        self.sent -= cut;
        self.firm -= cut;
    }
}

/// Whether the text ends here.
#[derive(Debug, Clone, Copy)]
enum End {
    /// It goes on.
    Unknown,
    /// It may end here.
    Doubtful,
    /// It ends here.
    Here,
}

impl Waiting {
    fn found_at(&self, end: End) -> Option<Found> {
        match end {
            End::Unknown => None,
            End::Doubtful => self.at_doubtful_end(),
            End::Here => self.at_end,
        }
    }
}
