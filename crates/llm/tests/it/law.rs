//! The law of this crate: no call that neither of two completions made, and no mixed text. Tests and
//! benchmark share this check.

use crate::corpus::Pair;
use crate::reading::{Read, positions, read, read_stream};
use std::collections::BTreeMap;
use turnstream_llm::StreamEnd;

/// Counted violations.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) cases: u64,
    pub(crate) wrong_calls: u64,
    pub(crate) folded: u64,
    pub(crate) second_after_first: u64,
}

/// The two completions on their own.
struct Originals {
    first: Read,
    second: Read,
}

impl Originals {
    fn of(pair: &Pair) -> Self {
        Self { first: read_stream(&pair.first), second: read_stream(&pair.second) }
    }

    fn judge(&self, read: &Read, count: &mut Count) {
        count.cases += 1;
        let (first, second) = (self.first.calls(), self.second.calls());
        let calls = read.calls();
        let wrong = calls.iter().any(|call| !first.contains(call) && !second.contains(call));
        let both =
            calls.iter().any(|call| first.contains(call)) && calls.iter().any(|call| second.contains(call));
        count.wrong_calls += u64::from(wrong || both);
        let shown = |text: String, first: String, second: String| {
            !first.starts_with(&text) && !second.starts_with(&text)
        };
        let folded = shown(read.text(), self.first.text(), self.second.text())
            || shown(read.reasoning(), self.first.reasoning(), self.second.reasoning())
            || read
                .messages()
                .iter()
                .any(|text| !self.first.messages().contains(text) && !self.second.messages().contains(text));
        count.folded += u64::from(folded);
        // Something of the first was shown, and later something that only the second has was committed.
        let shown_first = !read.text().is_empty() && !self.second.text().starts_with(&read.text());
        let committed_second = calls.iter().any(|call| second.contains(call) && !first.contains(call));
        count.second_after_first += u64::from(shown_first && committed_second);
    }
}

/// Cuts the first stream at each of its `positions`. The second one follows from `from` on.
pub(crate) fn splice(pair: &Pair, from: &[u8], count: &mut Count, endings: &mut BTreeMap<String, u64>) {
    let originals = Originals::of(pair);
    let first = pair.first.bytes();
    for cut in positions(&first) {
        let bytes = [&first[..cut], from].concat();
        let read = read(pair.first.format, &pair.first.profile, &bytes);
        originals.judge(&read, count);
        let ended = match &read.outcome.ended {
            StreamEnd::Complete => "complete",
            StreamEnd::Spliced => "spliced",
            StreamEnd::Corrupt => "corrupt",
            StreamEnd::Incomplete => "incomplete",
            StreamEnd::Failed(_) => "failed",
            StreamEnd::NotAStream(_) => "not a stream",
        };
        *endings.entry(format!("{}: {ended}", pair.first.name)).or_default() += 1;
        // Either nothing of the second was read, or the first had no content.
        if ended == "complete" {
            let whole = |read: &Read| (read.text(), read.reasoning(), read.outcome.finish.clone());
            let (first, second) = (&originals.first, &originals.second);
            let is_one = [first, second]
                .into_iter()
                .any(|one| whole(&read) == whole(one) && read.calls() == one.calls());
            assert!(is_one, "{} at {cut}: {read:?}", pair.first.name);
        }
    }
}
