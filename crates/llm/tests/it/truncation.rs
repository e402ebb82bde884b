//! A stream that is cut at any byte commits only complete items, and never passes for complete.

use crate::corpus::pairs;
use crate::reading::{positions, read_pieces, read_stream};
use turnstream_llm::{Format, Head, StreamEnd, Transport};

#[test]
fn a_stream_cut_at_any_byte_commits_only_what_is_whole() {
    let (mut cases, mut wrong) = (0, 0);
    for pair in pairs() {
        for stream in [&pair.first, &pair.second] {
            let whole = read_stream(stream);
            let bytes = stream.bytes();
            for (cut, transport) in positions(&bytes[..bytes.len() - 1]).flat_map(|cut| {
                [Transport::Clean, Transport::Broken, Transport::Stopped].map(|transport| (cut, transport))
            }) {
                let pieces = [&bytes[..cut]];
                let read = read_pieces(stream.format, &stream.profile, Head::stream(), transport, pieces);
                cases += 1;
                let (calls, texts) = (whole.calls(), whole.messages());
                let sound = read.calls().iter().all(|call| calls.contains(call))
                    && read.messages().iter().all(|text| texts.contains(text))
                    && whole.text().starts_with(&read.text());
                wrong += u64::from(!sound);
                if read.outcome.ended == StreamEnd::Complete {
                    assert_eq!(
                        (read.calls(), read.text()),
                        (calls, whole.text()),
                        "{} at {cut}",
                        stream.name
                    );
                    assert_eq!(read.outcome.finish, whole.outcome.finish, "{} at {cut}", stream.name);
                } else if stream.format != Format::Responses {
                    assert_eq!(read.outcome.committed, [], "{} at {cut}", stream.name);
                }
                assert_eq!(read.evidence(), [], "{} at {cut}", stream.name);
            }
        }
    }
    println!("{cases} truncations, {wrong} with an item that is not whole");
    assert_eq!(wrong, 0);
}
