//! A second completion that begins at any byte: no call is committed that neither completion made, and no
//! text of both is mixed.

use crate::corpus::{Pair, Stream, pairs};
use crate::law::{Count, splice};
use crate::reading::{Read, positions, read, read_stream};
use std::collections::BTreeMap;
use turnstream_llm::{Format, StreamEnd};

fn clean() -> Count {
    Count::default()
}

#[test]
fn a_second_completion_at_any_byte_is_never_folded_into_the_first() {
    let (mut count, mut endings) = (clean(), BTreeMap::new());
    for pair in pairs() {
        splice(&pair, &pair.second.bytes(), &mut count, &mut endings);
    }
    for (ending, number) in &endings {
        println!("{number:6}  {ending}");
    }
    println!("{} splices, {} wrong calls, {} folded texts", count.cases, count.wrong_calls, count.folded);
    assert_eq!(Count { cases: 0, ..count }, clean());
    assert!(
        !endings.keys().any(|ending| ending.ends_with("incomplete") || ending.ends_with("failed")),
        "{endings:?}"
    );
}

#[test]
fn a_second_completion_that_is_cut_itself_is_never_folded_into_the_first() {
    let mut count = clean();
    for pair in pairs().iter().filter(|pair| pair.first.name.contains("dangerous")) {
        let second = pair.second.bytes();
        for end in (0..second.len()).step_by(199) {
            splice(pair, &second[..end], &mut count, &mut BTreeMap::new());
        }
    }
    println!("{} splices, {} wrong calls, {} folded texts", count.cases, count.wrong_calls, count.folded);
    assert_eq!(Count { cases: 0, ..count }, clean());
}

/// Cuts the first stream at each of its `positions` after its first event. The second one follows without
/// its beginning.
fn splice_rests(pair: &Pair, mut each: impl FnMut(&Read)) {
    let first = pair.first.bytes();
    for skipped in [1, 2, 5, 9] {
        let rest = Stream { events: pair.second.events[skipped..].to_vec(), ..pair.second.clone() }.bytes();
        for cut in positions(&first).filter(|cut| *cut >= pair.first.events[0].len()) {
            let bytes = [&first[..cut], &rest].concat();
            each(&read(pair.first.format, &pair.first.profile, &bytes));
        }
    }
}

#[test]
fn a_second_completion_without_its_beginning_is_never_folded_into_a_chat_that_has_a_name() {
    let (mut cases, mut wrong) = (0, 0);
    let named = |pair: &&Pair| pair.first.format == Format::Chat && !pair.first.name.contains("times");
    for pair in pairs().iter().filter(named).filter(|pair| pair.first.name.contains("rich")) {
        let whole = read_stream(&pair.first);
        splice_rests(pair, |read| {
            let sound = read.calls().iter().all(|call| whole.calls().contains(call))
                && read.messages().iter().all(|text| whole.messages().contains(text))
                && whole.text().starts_with(&read.text())
                && whole.reasoning().starts_with(&read.reasoning());
            cases += 1;
            wrong += u64::from(!sound);
        });
    }
    println!("{cases} splices, {wrong} with anything of the second completion");
    assert_eq!(wrong, 0);
}

/// Events of an item do not name their response. So the rest of another response shows at its end at the
/// latest, and by then none of its calls is committed.
#[test]
fn the_rest_of_another_response_commits_no_call_and_never_completes_the_first() {
    let mut cases = 0;
    for pair in pairs().iter().filter(|pair| pair.first.name == "responses rich") {
        let first = read_stream(&pair.first);
        splice_rests(pair, |read| {
            cases += 1;
            assert!(read.calls().iter().all(|call| first.calls().contains(call)), "{read:?}");
            if read.outcome.ended == StreamEnd::Complete {
                assert_eq!((read.calls(), read.text()), (first.calls(), first.text()));
            }
        });
    }
    println!("{cases} splices");
}
