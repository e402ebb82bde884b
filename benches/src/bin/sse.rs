//! The SSE decoder compared with `sse-stream`, `eventsource-stream` and a newline scan, on captured bytes.

use eventsource_stream::Eventsource;
use futures_util::{FutureExt, StreamExt, stream};
use sse_stream::SseByteStream;
use std::convert::Infallible;
use std::process::ExitCode;
use turnstream_benches::{Bars, Best, Contender, best_of, fixture, print_table};
use turnstream_sse::{Decoder, Frame};

const ROUNDS: usize = 15;
/// 200,000 events are fed as 200 times the same burst of 1,000. It stays in the cache, like bytes from a
/// socket, and the bars are for that. From one array of 51 MB the scan has less than half its speed. That
/// is shown without a bar.
const BURST: usize = 1_000;
const BURSTS: usize = 200;
const READ: usize = 16 * 1024;
/// The payload of one TCP segment on Ethernet.
const SEGMENT: usize = 1460;
const HUGE: usize = 16 * 1024 * 1024;
/// `eventsource-stream` needs quadratic time, minutes for 16 MiB.
const HUGE_FOR_EVENTSOURCE: usize = 1024 * 1024;
/// The huge event is fed from a buffer of this size, repeatedly.
const HUGE_BUFFER: usize = 256 * 1024;

const OURS: &str = "turnstream-sse";
const SSE_STREAM: &str = "sse-stream 0.3";
const EVENTSOURCE: &str = "eventsource-stream 0.2.3";
const MEMCHR: &str = "memchr newline scan";

fn main() -> ExitCode {
    let burst = captured_deltas();
    let each: Vec<&[u8]> = events(&burst).collect();
    let all = burst.repeat(BURSTS);
    let payload = captured_payload();

    let count = BURST * BURSTS;
    println!("{count} events of {} bytes on average (captured opencode deltas),", burst.len() / BURST);
    println!("and one event of {HUGE} bytes. Every decoder checks UTF-8; ours also reports comments,");
    println!(
        "anomalies and byte ranges. Best of {ROUNDS} interleaved runs; speed also relative to {OURS}.\n"
    );

    let mut rows = vec![["input", "decoder", "MB/s", "relative"].map(str::to_owned).to_vec()];
    let mut small = |name, reads: &[&[u8]]| measure(name, contenders(reads, reads), &mut rows);
    let in_reads =
        small("small events, 16 KiB reads", &burst.chunks(READ).collect::<Vec<_>>().repeat(BURSTS));
    let one_each = small("small events, one per read", &each.repeat(BURSTS));
    let array_reads = small("the same from 51 MB, 16 KiB reads", &all.chunks(READ).collect::<Vec<_>>());
    let array_each = small("the same from 51 MB, one per read", &events(&all).collect::<Vec<_>>());
    let mut huge = Vec::new();
    for (name, size) in [("16 MiB event, 1,460 B reads", SEGMENT), ("16 MiB event, 16 KiB reads", READ)] {
        let reads = huge_event(&payload, HUGE, size);
        let fewer = huge_event(&payload, HUGE_FOR_EVENTSOURCE, size);
        huge.push((name, measure(name, contenders(&reads, &fewer), &mut rows)));
    }
    print_table(&rows);
    println!("(*) on an event of 1 MiB: its time grows with the square of the size.\n");

    let mut bars = Bars::default();
    for (name, bests) in [("16 KiB reads", &in_reads), ("one per read", &one_each)] {
        let over = speed(bests, OURS) / speed(bests, SSE_STREAM);
        bars.check(
            &format!("small events, {name}: at least 1.5x {SSE_STREAM}"),
            over >= 1.5,
            &format!("{over:.2}x"),
        );
        let share = 100.0 * speed(bests, OURS) / speed(bests, MEMCHR);
        bars.check(
            &format!("small events, {name}: at least 30 % of the scan"),
            share >= 30.0,
            &format!("{share:.0} %"),
        );
    }
    for (name, bests) in &huge {
        let slower = speed(&in_reads, OURS) / speed(bests, OURS);
        let what = format!("{name}: at most twice the time per byte of small events");
        bars.check(&what, slower <= 2.0, &format!("{slower:.2}x"));
    }
    for (name, bests) in [("16 KiB reads", &array_reads), ("one per read", &array_each)] {
        let over = speed(bests, OURS) / speed(bests, SSE_STREAM);
        let share = 100.0 * speed(bests, OURS) / speed(bests, MEMCHR);
        println!("no bar   from 51 MB, {name}: {over:.2}x {SSE_STREAM}, {share:.0} % of the scan");
    }
    bars.exit_code()
}

/// Megabytes per second of one contender.
fn speed(bests: &[Best], name: &str) -> f64 {
    bests.iter().find(|best| best.name == name).map_or(f64::NAN, Best::speed)
}

fn measure(input: &str, contenders: Vec<Contender<'_>>, rows: &mut Vec<Vec<String>>) -> Vec<Best> {
    let bests = best_of(ROUNDS, contenders);
    let ours = speed(&bests, OURS);
    for best in &bests {
        let smaller = bests.iter().any(|other| other.bytes > best.bytes);
        rows.push(vec![
            input.to_owned(),
            format!("{}{}", best.name, if smaller { " (*)" } else { "" }),
            format!("{:.0}", best.speed()),
            format!("{:.2}", best.speed() / ours),
        ]);
    }
    bests
}

/// `for_eventsource` is a smaller input for the quadratic contender.
fn contenders<'a>(reads: &'a [&'a [u8]], for_eventsource: &'a [&'a [u8]]) -> Vec<Contender<'a>> {
    let bytes = reads.iter().map(|read| read.len()).sum();
    let bytes_for_eventsource = for_eventsource.iter().map(|read| read.len()).sum();
    vec![
        Contender::new(OURS, bytes, move || {
            let mut decoder = Decoder::new();
            let mut bytes = 0;
            for read in reads {
                let mut frames = decoder.feed(read);
                while let Some(frame) = frames.next_frame() {
                    match frame {
                        Frame::Event(event) => bytes += event.data.utf8().map_or(0, str::len),
                        other => panic!("captured events only: {other:?}"),
                    }
                }
            }
            assert!(decoder.finish().is_none(), "the input ends with an event");
            bytes
        }),
        Contender::new(SSE_STREAM, bytes, move || {
            let input = stream::iter(reads.iter().map(|read| Ok::<_, Infallible>(*read)));
            let bytes = SseByteStream::new(input).fold(0, |bytes, event| {
                let data = event.map(|event| event.data.map_or(0, |data| data.len()));
                std::future::ready(bytes + data.unwrap_or_else(|error| panic!("{error}")))
            });
            bytes.now_or_never().unwrap_or_else(|| panic!("the input is ready"))
        }),
        Contender::new(EVENTSOURCE, bytes_for_eventsource, move || {
            let input = stream::iter(for_eventsource.iter().map(|read| Ok::<_, Infallible>(*read)));
            let bytes = input.eventsource().fold(0, |bytes, event| {
                let data = event.map(|event| event.data.len());
                std::future::ready(bytes + data.unwrap_or_else(|error| panic!("{error}")))
            });
            bytes.now_or_never().unwrap_or_else(|| panic!("the input is ready"))
        }),
        Contender::new(MEMCHR, bytes, move || {
            let mut sum: usize = 0;
            for read in reads {
                for at in memchr::memchr_iter(b'\n', read) {
                    sum = sum.wrapping_add(at);
                }
            }
            sum
        }),
    ]
}

/// A burst of the text deltas of a captured turn.
fn captured_deltas() -> Vec<u8> {
    let stream = fixture("opencode/a-plain.sse");
    let deltas: Vec<&[u8]> = events(&stream)
        .filter(|event| memchr::memmem::find(event, b"\"message.part.delta\"").is_some())
        .collect();
    deltas.into_iter().cycle().take(BURST).flatten().copied().collect()
}

/// Each event with its blank line.
fn events(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = stream;
    std::iter::from_fn(move || {
        let end = memchr::memmem::find(rest, b"\n\n")? + 2;
        let (event, after) = rest.split_at(end);
        rest = after;
        Some(event)
    })
}

/// Captured payloads without a line ending.
fn captured_payload() -> Vec<u8> {
    let stream = fixture("opencode/o2-one-big-delta.sse");
    let payload: Vec<u8> = stream.into_iter().filter(|byte| *byte != b'\n').collect();
    payload.into_iter().cycle().take(HUGE_BUFFER).collect()
}

/// The reads of one event of this many bytes before its blank line.
fn huge_event(payload: &[u8], event: usize, read: usize) -> Vec<&[u8]> {
    let mut reads: Vec<&[u8]> = vec![b"data: "];
    let mut left = event - b"data: ".len();
    while left > 0 {
        let part = &payload[..left.min(payload.len())];
        reads.extend(part.chunks(read));
        left -= part.len();
    }
    reads.push(b"\n\n");
    reads
}
