//! Characters that are split between two deltas, or have lost one half.

use crate::corpus::{Stream, stream};
use crate::reading::{Read, read_in_every_split, read_stream};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use turnstream_fake_provider::{Arguments, Completion, Part, Pieces};
use turnstream_llm::{Format, Head, Item, StreamEnd, StreamEvent, Transport, WithheldReason};

const SEED: u64 = 0xD83D_DE00;

/// Deltas as units of UTF-16.
fn deltas() -> impl Strategy<Value = Vec<Vec<u16>>> {
    let unit =
        prop::sample::select(vec![0xD83D_u16, 0xDE00, 0xD83D, 0xDE00, 0xDBFF, 0xDC00, 0x61, 0xFC, 0xFFFD]);
    prop::collection::vec(prop::collection::vec(unit, 1..5), 1..7)
}

/// A stream in which these units replace `@n@`, the nth delta: in the deltas and in complete items.
fn streamed(format: Format, completion: &Completion, deltas: &[Vec<u16>]) -> Stream {
    let mut stream = stream(format, "halves", completion, false);
    for event in &mut stream.events {
        let mut text = String::from_utf8(event.clone()).expect("rendered text");
        for (place, units) in deltas.iter().enumerate() {
            let escaped: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            text = text.replace(&format!("@{place}@"), &escaped);
        }
        *event = text.into_bytes();
    }
    stream
}

fn marks(deltas: &[Vec<u16>]) -> Vec<String> {
    (0..deltas.len()).map(|place| format!("@{place}@")).collect()
}

fn lossy(deltas: &[Vec<u16>]) -> String {
    String::from_utf16_lossy(&deltas.concat())
}

fn is_whole(deltas: &[Vec<u16>]) -> bool {
    String::from_utf16(&deltas.concat()).is_ok()
}

fn said_arguments(read: &Read) -> String {
    let said = read.said.iter().filter_map(|said| match said {
        StreamEvent::CallArguments { text, .. } => Some(text.as_str()),
        _ => None,
    });
    said.collect()
}

fn call(deltas: &[Vec<u16>]) -> Part {
    let mut pieces = vec!["{\"path\":\"".to_owned()];
    pieces.extend(marks(deltas));
    pieces.push("\"}".to_owned());
    Part::ToolCall { name: "read".to_owned(), arguments: Arguments::Given(pieces), id: None }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: RngSeed::Fixed(SEED), ..ProptestConfig::default() })]

    #[test]
    fn texts_and_thoughts_are_what_their_deltas_make_together(deltas in deltas()) {
        let completion = Completion::of([
            Part::Reasoning { text: Pieces::Given(marks(&deltas)) },
            Part::Text { text: Pieces::Given(marks(&deltas)) },
        ]);
        for format in Format::ALL {
            let read = read_stream(&streamed(format, &completion, &deltas));
            prop_assert_eq!(&read.outcome.ended, &StreamEnd::Complete);
            prop_assert_eq!(read.anomalies(), vec![]);
            let text = lossy(&deltas);
            prop_assert_eq!(&read.text(), &text, "{:?}", format);
            prop_assert_eq!(&read.reasoning(), &text, "{:?}", format);
            prop_assert_eq!(read.messages(), vec![text.as_str()], "{:?}", format);
            let thoughts = read.outcome.committed.iter().filter_map(|item| match item {
                Item::Reasoning { text, .. } => Some(text.as_str()),
                Item::Message { .. } | Item::Call(_) | Item::Other { .. } => None,
            });
            prop_assert_eq!(thoughts.collect::<Vec<_>>(), vec![text.as_str()], "{:?}", format);
        }
    }

    #[test]
    fn a_call_runs_only_if_no_half_of_its_arguments_is_lost(deltas in deltas()) {
        for format in Format::ALL {
            let read = read_stream(&streamed(format, &Completion::of([call(&deltas)]), &deltas));
            prop_assert_eq!(&read.outcome.ended, &StreamEnd::Complete);
            let arguments = format!("{{\"path\":\"{}\"}}", lossy(&deltas));
            prop_assert_eq!(&said_arguments(&read), &arguments, "{:?}", format);
            let runs: Vec<&str> = read.runnable().into_iter().map(|(_, _, arguments)| arguments).collect();
            let why: Vec<WithheldReason> = read.outcome.withheld.iter().map(|call| call.reason).collect();
            match is_whole(&deltas) {
                true => prop_assert_eq!((runs, why), (vec![arguments.as_str()], vec![])),
                false => prop_assert_eq!((runs, why), (vec![], vec![WithheldReason::BadArguments])),
            }
        }
    }
}

#[test]
fn where_the_bytes_are_cut_makes_no_difference() {
    let deltas = [vec![0x61, 0xD83D], vec![0xDE00, 0xD83D], vec![0x62]];
    let text = Part::Text { text: Pieces::Given(marks(&deltas)) };
    for format in Format::ALL {
        let stream = streamed(format, &Completion::of([text.clone(), call(&deltas)]), &deltas);
        let read = read_in_every_split(format, &stream.profile, &Head::stream(), &stream.bytes());
        assert_eq!((read.text().as_str(), read.runnable()), ("a\u{1F600}\u{FFFD}b", vec![]), "{format:?}");
    }
}

#[test]
fn half_a_character_that_the_stream_ends_with_is_shown_as_lost() {
    let deltas = [vec![0x61], vec![0x62, 0xD83D]];
    for format in Format::ALL {
        let completion = Completion::of([Part::Text { text: Pieces::Given(marks(&deltas)) }]);
        let mut stream = streamed(format, &completion, &deltas);
        let last = stream.events.iter().position(|event| String::from_utf8_lossy(event).contains("\\ud83d"));
        stream.events.truncate(last.unwrap_or_else(|| panic!("{format:?} has no such delta")) + 1);
        let pieces = [&stream.bytes()[..]];
        let (head, transport) = (Head::stream(), Transport::Clean);
        let read = crate::reading::read_pieces(format, &stream.profile, head, transport, pieces);
        assert_eq!((read.text().as_str(), read.messages()), ("ab\u{FFFD}", vec![]), "{format:?}");
    }
}

#[test]
fn a_call_beside_one_that_lost_half_a_character_does_not_run() {
    let deltas = [vec![0xD83D]];
    let other = Part::tool_call("list", serde_json::json!({"path": "/"}));
    for format in Format::ALL {
        let read = read_stream(&streamed(format, &Completion::of([call(&deltas), other.clone()]), &deltas));
        let why: Vec<WithheldReason> = read.outcome.withheld.iter().map(|call| call.reason).collect();
        assert_eq!((read.calls(), why.len()), (vec![], 2), "{format:?}");
        assert!(
            why.contains(&WithheldReason::BadArguments) && why.contains(&WithheldReason::Sibling),
            "{format:?}: {why:?}"
        );
    }
}
