//! Random bytes, random events and random splits; and a second decoder to compare with.

mod support;

use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, StreamExt, stream};
use proptest::collection::vec;
use proptest::prelude::*;
use sse_stream::{Sse, SseByteStream};
use support::property::any_split_gives_the_same_sound_frames;
use support::{Fields, Seen, decode_whole};
use turnstream_sse::encode::{self, Outgoing};

/// Pieces that streams are made of, so that random ones hit the rules often.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    const WRITTEN: &[&[u8]] = &[
        b"\n",
        b"\n\n",
        b"\r\n",
        b"\r",
        b"data: a",
        b"data:",
        b"data",
        b"event: e",
        b"id: 1",
        b"id",
        b"id: \0",
        b"retry: 10",
        b"retry: x",
        b": c",
        b":",
        b" ",
        b"junk",
        b"un: known",
        b"\xEF\xBB\xBF",
        "\u{1F980}".as_bytes(),
    ];
    prop_oneof![
        8 => prop::sample::select(WRITTEN).prop_map(<[u8]>::to_vec),
        1 => ".{0,8}".prop_map(String::into_bytes),
    ]
}

fn stream_bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(piece(), 0..40).prop_map(|pieces| pieces.concat())
}

fn broken_stream_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![4 => piece(), 1 => vec(any::<u8>(), 0..4)];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// The blocks that `sse-stream` sees. It too returns blocks without data.
fn sse_stream_blocks(input: &[u8]) -> Vec<Sse> {
    let reads = stream::iter([Ok::<_, std::io::Error>(Bytes::copy_from_slice(input))]);
    let blocks: Vec<_> = SseByteStream::new(reads).collect().now_or_never().expect("the input is ready");
    blocks.into_iter().map(|block| block.expect("the input is UTF-8")).collect()
}

fn our_blocks(input: &[u8]) -> Vec<Sse> {
    let to_sse = |fields: Fields, has_data: bool| Sse {
        event: Some(fields.event),
        data: has_data.then(|| String::from_utf8(fields.data).expect("the input is UTF-8")),
        id: fields.id,
        retry: fields.retry,
    };
    let blocks = decode_whole(input).into_iter().filter_map(|frame| match frame {
        Seen::Event(fields) => Some(to_sse(fields, true)),
        Seen::Undispatched(fields) => Some(to_sse(fields, false)),
        Seen::Comment { .. } | Seen::Anomaly { .. } | Seen::Residue { .. } => None,
    });
    blocks.collect()
}

fn one_line() -> impl Strategy<Value = String> {
    "[^\r\n\0]{0,12}"
}

proptest! {
    #[test]
    fn any_bytes_in_any_split_give_the_same_sound_frames(
        input in prop_oneof![broken_stream_bytes(), vec(any::<u8>(), 0..200)],
        lengths in vec(0u8..12, 0..30),
        limit in prop_oneof![Just(usize::MAX), 0usize..60],
    ) {
        any_split_gives_the_same_sound_frames(&input, &lengths, limit);
    }

    #[test]
    fn sse_stream_sees_the_same_blocks(input in stream_bytes()) {
        let theirs: Vec<Sse> = sse_stream_blocks(&input)
            .into_iter()
            .map(|sse| Sse {
                event: Some(sse.event.filter(|event| !event.is_empty()).unwrap_or("message".to_owned())),
                ..sse
            })
            .collect();
        prop_assert_eq!(our_blocks(&input), theirs);
    }

    #[test]
    fn what_is_encoded_decodes_to_the_same(
        events in vec(
            (prop::option::of(one_line()), prop::option::of(one_line()), prop::option::of(any::<u64>()),
             "[a\r\n:\0 \u{1F980}]{0,12}", prop::option::of("[a\r\n:]{0,6}")),
            0..8,
        ),
    ) {
        let mut out = BytesMut::new();
        let mut expected = Vec::new();
        for (event, id, retry, data, comment) in &events {
            encode::event(&Outgoing { event: event.as_deref(), id: id.as_deref(), retry: *retry, data }, &mut out)
                .expect("one line each");
            let data = data.replace("\r\n", "\n").replace('\r', "\n");
            let event = event.clone().filter(|event| !event.is_empty()).unwrap_or("message".to_owned());
            expected.push(Sse { event: Some(event), data: Some(data), id: id.clone(), retry: *retry });
            if let Some(comment) = comment {
                encode::comment(comment, &mut out);
            }
        }
        prop_assert_eq!(our_blocks(&out), expected);
        let anomalies = decode_whole(&out).iter().filter(|frame| {
            matches!(frame, Seen::Anomaly { .. } | Seen::Residue { .. })
        }).count();
        prop_assert_eq!(anomalies, 0);
    }
}
