//! The gate in front of all rules. Most text has no three characters that a rule begins with, and passes at
//! the cost of one table load per byte.

/// Three folded bytes.
const TRIGRAMS: usize = 1 << 15;

/// Which rules may begin where.
#[derive(Debug)]
pub(crate) struct Gate {
    /// One bit per trigram: 4 KiB, so that it stays in the first cache.
    bits: Box<[u64; TRIGRAMS / 64]>,
    /// Per trigram the place of its list, or 0.
    trigrams: Box<[u16]>,
    /// What could begin with the last two bytes of a text.
    pairs: Box<[u16]>,
    lists: Vec<Vec<u16>>,
    /// What may begin with the last byte of a text.
    last: Box<[Last; 256]>,
    /// Rules without a literal beginning, and the bytes they can begin with.
    anywhere: Vec<u16>,
    first: Option<Box<[bool; 256]>>,
}

/// What may begin with the last byte of a text. A summary: verifying every rule that begins with an `s`
/// would cost more than the rest of a short delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Last {
    Nothing,
    /// A name or an address, which is no secret but announces one.
    Watched,
    /// A secret, if a word may begin here.
    HeldAtWord,
    /// A secret.
    Held,
}

/// A literal beginning of a rule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beginning<'a> {
    pub(crate) rule: u16,
    /// At least three bytes.
    pub(crate) bytes: &'a [u8],
    /// What the first of them alone means at the end of a text.
    pub(crate) last: Last,
    /// Small letters stand for both cases.
    pub(crate) any_case: bool,
}

/// Letters in either case, digits and most signs fall together: 32 folds.
const FOLD: [u8; 256] = {
    let mut table = [0; 256];
    let mut letter = 0;
    while letter < 26 {
        table[(b'a' + letter) as usize] = letter + 1;
        table[(b'A' + letter) as usize] = letter + 1;
        letter += 1;
    }
    let mut digit = b'0';
    while digit <= b'9' {
        table[digit as usize] = 27;
        digit += 1;
    }
    table[b'_' as usize] = 28;
    table[b'-' as usize] = 29;
    table[b':' as usize] = 30;
    table[b'/' as usize] = 30;
    table[b'.' as usize] = 31;
    table
};

fn fold(byte: u8) -> usize {
    usize::from(FOLD[usize::from(byte)])
}

impl Gate {
    /// `beginnings` are in order of priority; `anywhere` are rules that begin with any of the given bytes.
    pub(crate) fn new(beginnings: &[Beginning<'_>], anywhere: Vec<(u16, Box<[bool; 256]>)>) -> Self {
        let mut gate = Self {
            bits: Box::new([0; TRIGRAMS / 64]),
            trigrams: vec![0; TRIGRAMS].into(),
            pairs: vec![0; 1 << 10].into(),
            lists: vec![Vec::new()],
            last: Box::new([Last::Nothing; 256]),
            anywhere: anywhere.iter().map(|(rule, _)| *rule).collect(),
            first: None,
        };
        for &Beginning { rule, bytes, last, any_case } in beginnings {
            let [a, b, c] = [fold(bytes[0]), fold(bytes[1]), fold(bytes[2])];
            let trigram = a << 10 | b << 5 | c;
            gate.bits[trigram / 64] |= 1 << (trigram % 64);
            enlist(&mut gate.trigrams[trigram], &mut gate.lists, rule);
            enlist(&mut gate.pairs[a << 5 | b], &mut gate.lists, rule);
            let both = [bytes[0], if any_case { bytes[0].to_ascii_uppercase() } else { bytes[0] }];
            for first in both {
                let known = &mut gate.last[usize::from(first)];
                *known = last.max(*known);
            }
        }
        for (_, bytes) in anywhere {
            let first = gate.first.get_or_insert_with(|| Box::new([false; 256]));
            for (at, begins) in bytes.iter().enumerate().filter(|(_, begins)| **begins) {
                first[at] |= begins;
                gate.last[at] = Last::Held;
            }
        }
        gate
    }

    /// The next place from `from` on where a rule may begin, without the last byte.
    pub(crate) fn next(&self, text: &[u8], from: usize) -> Option<usize> {
        match &self.first {
            None => self.next_trigram(text, from).or_else(|| self.next_at_end(text, from)),
            Some(first) => {
                let end = text.len().saturating_sub(1);
                let there = (from..end).find(|at| first[usize::from(text[*at])]);
                let gated = self.next_trigram(text, from).or_else(|| self.next_at_end(text, from));
                match (there, gated) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (one, other) => one.or(other),
                }
            }
        }
    }

    fn next_trigram(&self, text: &[u8], from: usize) -> Option<usize> {
        let rest = text.get(from..)?;
        let [a, b, rest @ ..] = rest else { return None };
        let mut trigram = fold(*a) << 5 | fold(*b);
        for (at, byte) in rest.iter().enumerate() {
            trigram = (trigram << 5 | fold(*byte)) % TRIGRAMS;
            if self.bits[trigram / 64] >> (trigram % 64) & 1 != 0 {
                return Some(from + at);
            }
        }
        None
    }

    fn next_at_end(&self, text: &[u8], from: usize) -> Option<usize> {
        let pair = from.max(text.len().saturating_sub(2));
        (pair + 1 < text.len() && self.last(text[pair]) != Last::Nothing && !self.list(text, pair).is_empty())
            .then_some(pair)
    }

    /// What may begin with the last byte of a text.
    pub(crate) fn last(&self, byte: u8) -> Last {
        self.last[usize::from(byte)]
    }

    fn list(&self, text: &[u8], at: usize) -> &[u16] {
        let list = match text[at..] {
            [] | [_] => 0,
            [a, b] => self.pairs[fold(a) << 5 | fold(b)],
            [a, b, c, ..] => self.trigrams[fold(a) << 10 | fold(b) << 5 | fold(c)],
        };
        &self.lists[usize::from(list)]
    }

    /// The rules that may begin at `at`, first those of the highest priority.
    pub(crate) fn rules(&self, text: &[u8], at: usize) -> impl Iterator<Item = u16> {
        self.list(text, at).iter().chain(&self.anywhere).copied()
    }
}

fn enlist(slot: &mut u16, lists: &mut Vec<Vec<u16>>, rule: u16) {
    if *slot == 0 {
        // At most one list per trigram, pair and single that a rule begins with: fewer than rules times
        // three.
        *slot = lists.len() as u16;
        lists.push(Vec::new());
    }
    let list = &mut lists[usize::from(*slot)];
    if list.last() != Some(&rule) {
        list.push(rule);
    }
}
