//! A text whose beginning is unknown may begin within a secret. Its first run of characters is judged, and
//! lines of a key block are recognised without the BEGIN line.

use crate::class::{BASE64, TOKEN};
use crate::scan::Scanner;
use crate::token::CAP;
use crate::value;
use crate::view::{Found, Kind, Pending, Then, Verdict, View};

/// A line of a key block; the last one is shorter.
const LINE: usize = 40;
const END: &[u8] = b"-----END ";

/// Judges the beginning of a text.
pub(crate) fn verify(scanner: &Scanner, view: &View<'_>, kind: Kind) -> Verdict {
    let text = view.text;
    let end = TOKEN.run(text, 0, CAP);
    let found = |then| Found { start: 0, end, kind, then };
    if let Verdict::Found(_) = scanner.inside(view, 0) {
        return Verdict::No;
    }
    let run = &text[..end];
    if end == CAP {
        return Verdict::Found(found(Then::Swallow(&TOKEN)));
    }
    let secret = value::looks_cut(run);
    if end == text.len() {
        let at_end = secret.then_some(found(Then::Swallow(&TOKEN)));
        return Verdict::Pending(Pending {
            hold: 0,
            firm: end >= 8 || value::mixes(run),
            at_end,
            begun: None,
        });
    }
    let base64 = run.iter().all(|byte| BASE64.has(*byte));
    if secret {
        return Verdict::Found(found(if base64 { Then::Lines } else { Then::Text }));
    }
    // The rest of a line is too short to judge. The next line decides.
    match next_line(text, end) {
        Next::Cut if base64 => Verdict::Pending(Pending::brief(0)),
        Next::Line(line) if base64 => {
            let close = BASE64.run(text, line, line + LINE);
            if close - line == LINE && value::looks_random(&text[line..close]) {
                // With nothing before the line end, the next line is the first one that is seen.
                let nothing = Found { start: line, end: close, kind, then: Then::Lines };
                Verdict::Found(if end == 0 { nothing } else { found(Then::Lines) })
            } else if close == text.len() || END.starts_with(&text[line..text.len().min(line + END.len())]) {
                let firm = close - line >= 8;
                let cut = end > 0 && value::looks_cut(&text[line..close]);
                let at_end = cut.then_some(found(Then::Lines));
                Verdict::Pending(Pending { hold: 0, firm, at_end, begun: None })
            } else {
                Verdict::No
            }
        }
        Next::None | Next::Cut | Next::Line(_) => Verdict::No,
    }
}

/// What follows a line.
enum Next {
    /// No line end.
    None,
    /// The text ends within the line end.
    Cut,
    /// A line that begins here.
    Line(usize),
}

/// Line ends are `\n` and `\r\n`, as they are or escaped in a string.
fn next_line(text: &[u8], at: usize) -> Next {
    match text.get(at..).unwrap_or_default() {
        [] | [b'\r'] | [b'\\'] | [b'\\', b'r'] | [b'\\', b'r', b'\\'] => Next::Cut,
        [b'\n', ..] => Next::Line(at + 1),
        [b'\r', b'\n', ..] | [b'\\', b'n', ..] => Next::Line(at + 2),
        [b'\\', b'r', b'\\', b'n', ..] => Next::Line(at + 4),
        _ => Next::None,
    }
}

/// How much of `text`, which begins within a line of a key block, belongs to such lines, and whether the
/// block ends there.
pub(crate) fn lines(text: &[u8]) -> (usize, bool) {
    // The rest of the judged line.
    let mut done = BASE64.run(text, 0, text.len());
    loop {
        let line = match next_line(text, done) {
            Next::None => return (done, true),
            Next::Cut => return (done, false),
            Next::Line(line) => line,
        };
        let rest = &text[line..];
        if rest.starts_with(END) {
            let label = line + END.len();
            let close = crate::class::LABEL.run(text, label, label + 48);
            let dashes = &text[close..text.len().min(close + 5)];
            return match dashes {
                b"-----" => (close + 5, true),
                _ if b"-----".starts_with(dashes) => (done, false),
                _ => (done, true),
            };
        }
        let close = BASE64.run(text, line, text.len());
        if close == text.len() || END.starts_with(rest) {
            return (done, false);
        }
        let last = match next_line(text, close) {
            Next::None => false,
            Next::Cut => return (done, false),
            Next::Line(after) => {
                let after = &text[after..text.len().min(after + END.len())];
                if after.len() < END.len() && END.starts_with(after) {
                    return (done, false);
                }
                after == END
            }
        };
        if close - line >= LINE || (close > line && last) || value::looks_random(&text[line..close]) {
            done = close;
        } else {
            return (done, true);
        }
    }
}

/// True when `text`, at which the whole text ends, is a line of a key block.
pub(crate) fn is_line(text: &[u8]) -> bool {
    match next_line(text, 0) {
        Next::None | Next::Cut => false,
        Next::Line(line) => {
            let close = BASE64.run(text, line, text.len());
            value::looks_cut(&text[line..close])
        }
    }
}
