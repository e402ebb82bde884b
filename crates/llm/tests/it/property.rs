//! What must hold for any bytes in any split. The tests and the fuzz targets run the same body.

use turnstream_llm::{
    Format, Head, Item, Outcome, Profile, Reader, StreamEnd, StreamEvent, ToolCallKind, Transport,
};

/// Reads `input` whole, and in pieces whose lengths come from `lengths` in turn.
pub(crate) fn any_split_says_the_same_sound_things(
    format: Format,
    profile: &Profile,
    input: &[u8],
    lengths: &[u8],
) {
    let whole = read(format, profile, [input]);
    check(&whole.0, &whole.1, input);
    let mut rest = input;
    let mut pieces = Vec::new();
    for &length in lengths {
        let (piece, behind) = rest.split_at(usize::from(length).min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces.push(rest);
    assert_eq!(read(format, profile, pieces), whole, "in pieces of {lengths:?}");
}

fn read<'a>(
    format: Format,
    profile: &Profile,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<StreamEvent>, Outcome) {
    let mut reader = Reader::new(format, profile, Head::stream());
    let mut said = Vec::new();
    pieces.into_iter().for_each(|piece| reader.push(piece, &mut said));
    let outcome = reader.end(Transport::Clean, &mut said);
    (said, outcome)
}

fn check(said: &[StreamEvent], outcome: &Outcome, input: &[u8]) {
    for call in outcome.committed.iter().filter_map(Item::call) {
        let parsed = serde_json::from_str::<serde_json::Value>(&call.arguments);
        assert!(call.kind == ToolCallKind::Custom || parsed.is_ok_and(|value| value.is_object()), "{call:?}");
        assert!(!call.name.is_empty(), "{call:?}");
    }
    let committed = said.iter().filter(|said| matches!(said, StreamEvent::Committed(_))).count();
    assert_eq!(committed, outcome.committed.len());
    // A committed call may run, whatever follows it.
    let told = said.iter().filter_map(|said| match said {
        StreamEvent::Committed(item) => item.call(),
        _ => None,
    });
    let mut told: Vec<_> = told.collect();
    told.sort_by_key(|call| call.item);
    let mut runnable = outcome.runnable();
    runnable.sort_by_key(|call| call.item);
    assert_eq!(told, runnable);
    assert_eq!(told.len(), outcome.delivered.committed_calls as usize);
    let lets_run = outcome.finish.as_ref().is_none_or(|finish| finish.meaning.lets_calls_run());
    assert!(told.is_empty() || lets_run, "{outcome:?}");
    assert!(outcome.anomalies.len() <= Outcome::MOST_ANOMALIES);
    for anomaly in &outcome.anomalies {
        assert!(anomaly.range.end <= input.len() as u64, "{anomaly:?}");
    }
    match &outcome.ended {
        StreamEnd::Complete => assert!(outcome.finish.is_some(), "{outcome:?}"),
        StreamEnd::Spliced => assert!(!outcome.identity.findings.is_empty(), "{outcome:?}"),
        StreamEnd::Corrupt => assert!(outcome.anomaly_count > 0, "{outcome:?}"),
        StreamEnd::Failed(_) | StreamEnd::Incomplete | StreamEnd::NotAStream(_) => {}
    }
    assert_eq!(outcome.bytes, input.len() as u64);
}
