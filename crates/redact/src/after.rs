//! The rest of a secret after its marker: of a run, a literal or a key block. It is dropped.

use crate::class::BASE64;
use crate::scan::{Rule, Scanner};
use crate::token::CAP;
use crate::view::{Then, is_char_boundary};
use crate::{fragment, putty};

/// How much text is kept while looking for the END line: the longest one, with some room.
const END_LINE: usize = 80;

/// How much of the text belongs to the secret.
#[derive(Debug)]
pub(crate) struct Passed {
    /// Bytes that are dropped.
    pub(crate) bytes: usize,
    /// True when ordinary text follows. Otherwise the remaining text belongs to the secret, and is needed
    /// again together with more text.
    pub(crate) over: bool,
}

impl Scanner {
    /// Drops what belongs to a secret at the beginning of `text`.
    pub(crate) fn pass(&self, then: &mut Then, text: &[u8]) -> Passed {
        let mut passed = self.pass_bytes(then, text);
        // A text may be cut only between characters.
        while passed.bytes > 0 && !is_char_boundary(text, passed.bytes) {
            passed.bytes -= 1;
        }
        passed
    }

    fn pass_bytes(&self, then: &mut Then, text: &[u8]) -> Passed {
        match then {
            Then::Text => Passed { bytes: 0, over: true },
            Then::Swallow(class) => {
                let bytes = class.run(text, 0, text.len());
                Passed { bytes, over: bytes < text.len() }
            }
            Then::Rest { rule, done } => {
                let Rule::Literal(literal) = &self.rules[usize::from(*rule)].1 else {
                    return Passed { bytes: 0, over: true };
                };
                let rest = &literal.0[*done..];
                let bytes = text.iter().zip(rest).take_while(|(a, b)| a == b).count();
                *done += bytes;
                Passed { bytes, over: bytes < text.len() || *done == literal.0.len() }
            }
            Then::Block => match end_line(text) {
                Some(bytes) => Passed { bytes, over: true },
                None => Passed { bytes: text.len().saturating_sub(END_LINE), over: false },
            },
            Then::Putty => match putty::end_of(text) {
                Some(bytes) => Passed { bytes, over: true },
                None => Passed { bytes: text.len().saturating_sub(END_LINE), over: false },
            },
            Then::Lines => {
                let (bytes, over) = fragment::lines(text);
                if !over && text.len() - bytes > CAP {
                    *then = Then::Swallow(&BASE64);
                    return Passed { bytes: text.len(), over: false };
                }
                Passed { bytes, over }
            }
        }
    }
}

/// The position after the END line of a key block.
fn end_line(text: &[u8]) -> Option<usize> {
    const END: &[u8] = b"-----END ";
    const DASHES: &[u8] = b"-----";
    let mut from = 0;
    while let Some(at) = memchr::memmem::find(&text[from..], END) {
        let label = from + at + END.len();
        let close = crate::class::LABEL.run(text, label, label + 48);
        if text[close..].starts_with(DASHES) {
            return Some(close + DASHES.len());
        }
        from = label;
    }
    None
}
