//! The reader of provider streams compared with a plain typed parse, and the number of wrong calls over
//! every splice of two completions.

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../../crates/llm/tests/it/corpus.rs"]
mod corpus;
#[path = "../../../crates/llm/tests/it/law.rs"]
mod law;
#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../../crates/llm/tests/it/reading.rs"]
mod reading;

use corpus::stream;
use law::{Count, splice};
use std::collections::BTreeMap;
use std::process::ExitCode;
use turnstream_benches::llm::Wire;
use turnstream_benches::{Bars, Best, Contender, best_of, print_table};
use turnstream_fake_provider::{Completion, Part};
use turnstream_llm::{Format, Head, Profile, Reader, StreamEvent, Transport};

/// The allocator of the shipped binary, for both contenders.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Many short runs, because on a shared machine a run of a millisecond or two is sometimes undisturbed.
const ROUNDS: usize = 300;
/// The same stream repeatedly, because bytes from a socket are in the cache.
const STREAMS: usize = 2;
const READ: usize = 16 * 1024;

const OURS: &str = "turnstream-llm";
const BORROWED: &str = "bare typed parse";
const OWNED: &str = "the same, owning";

/// How the events are written.
#[derive(Clone, Copy)]
enum Spelling {
    /// As the real providers write them.
    Usual,
    /// With an additional object member, so that the fast parser reads none.
    Unusual,
}

fn main() -> ExitCode {
    println!(
        "One completion of reasoning, text and four calls per format, as the scripted provider renders it,"
    );
    println!(
        "in reads of 16 KiB. The bare parse is given the payloads ready cut, borrows from them what it can and"
    );
    println!(
        "keeps nothing; a second one makes owned types of them, as client libraries do. Ours decodes the"
    );
    println!(
        "event stream, checks identity and taint, and hands out owned events. Unusual events have a member"
    );
    println!("more that the shortcut for the usual ones does not read.");
    println!("Best of {ROUNDS} interleaved runs of {STREAMS} streams.\n");
    let mut rows = vec![["format", "way", "MB/s", "ns per event", "relative"].map(str::to_owned).to_vec()];
    let mut ratios = Vec::new();
    for format in Format::ALL {
        for spelling in [Spelling::Usual, Spelling::Unusual] {
            let name = match spelling {
                Spelling::Usual => format.name().to_owned(),
                Spelling::Unusual => format!("{}, unusual", format.name()),
            };
            let (bests, events) = measure(format, spelling);
            let [ours, bare] = [bests[0].time.as_secs_f64(), bests[1].time.as_secs_f64()];
            for best in &bests {
                let each = best.time.as_nanos() as f64 / (events * STREAMS) as f64;
                let relative = best.time.as_secs_f64() / bare;
                rows.push(vec![
                    name.clone(),
                    best.name.to_owned(),
                    format!("{:.0}", best.speed()),
                    format!("{each:.0}"),
                    format!("{relative:.2}"),
                ]);
            }
            ratios.push((name, ours / bare));
        }
    }
    print_table(&rows);
    println!();

    let mut bars = Bars::default();
    for (name, ratio) in ratios {
        let what = format!("{name}: at most 2x the bare typed parse that borrows");
        bars.check(&what, ratio <= 2.0, &format!("{ratio:.2}x"));
    }
    let count = spliced();
    let wrong = count.wrong_calls + count.folded + count.second_after_first;
    let measured =
        format!("{} wrong calls, {} folded texts, {} cases", count.wrong_calls, count.folded, count.cases);
    bars.check("no wrong call and no folded text over the splice corpus", wrong == 0, &measured);
    bars.exit_code()
}

/// The best times of all contenders (the reader first, then the bar), and the number of events.
fn measure(format: Format, spelling: Spelling) -> (Vec<Best>, usize) {
    let rendered = stream(format, "long", &long_completion(), false);
    let rendered = match spelling {
        Spelling::Usual => rendered,
        Spelling::Unusual => rendered.map("unusual", |event| match event.strip_suffix("}\n\n") {
            Some(payload) => format!("{payload},\"more\":{{\"of\":\"it\"}}}}\n\n"),
            None => event.to_owned(),
        }),
    };
    let bytes = rendered.bytes();
    let payloads: Vec<&str> = rendered.events.iter().filter_map(|event| data(event)).collect();
    let wire = match format {
        Format::Chat => Wire::Chat,
        Format::Responses => Wire::Responses,
        Format::Messages => Wire::Messages,
    };
    let each = || (0..STREAMS).flat_map(|_| &payloads);
    let size = bytes.len() * STREAMS;
    let contenders = vec![
        Contender::new(OURS, size, || (0..STREAMS).map(|_| read_all(format, &bytes)).sum()),
        Contender::new(BORROWED, size, || each().map(|data| wire.parse_borrowed(data).bytes).sum()),
        Contender::new(OWNED, size, || each().map(|data| wire.parse_owned(data).bytes).sum()),
    ];
    (best_of(ROUNDS, contenders), payloads.len())
}

/// Every pair of the test corpus: cut at every byte, and followed by the second completion.
fn spliced() -> Count {
    let mut count = Count::default();
    for pair in corpus::pairs() {
        splice(&pair, &pair.second.bytes(), &mut count, &mut BTreeMap::new());
    }
    count
}

fn long_completion() -> Completion {
    let prose = "The quick brown fox jumps over the lazy dog. \"Again,\" it said,\nand again: über 那 🦀.\n";
    let source = "fn main() {\n    println!(\"hello, {}\", name);\n}\n".repeat(60);
    let calls = (0..4).map(|n| {
        Part::tool_call("write", serde_json::json!({"path": format!("/srv/{n}.rs"), "text": source}))
    });
    let texts = [Part::reasoning(&prose.repeat(40)), Part::text(&prose.repeat(60))];
    Completion::of(texts.into_iter().chain(calls))
}

/// The payload of an event; `None` for the end marker.
fn data(event: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(event).ok()?;
    let data = text.lines().find_map(|line| line.strip_prefix("data: "))?;
    data.starts_with('{').then_some(data)
}

/// Returns the bytes of text and arguments, as the plain parse does.
fn read_all(format: Format, bytes: &[u8]) -> usize {
    let mut reader = Reader::new(format, &Profile::UNKNOWN, Head::stream());
    let mut said = Vec::new();
    let mut seen = 0;
    let mut count = |said: &mut Vec<StreamEvent>| {
        for event in said.drain(..) {
            if let StreamEvent::Text { text, .. }
            | StreamEvent::Reasoning { text, .. }
            | StreamEvent::CallArguments { text, .. } = event
            {
                seen += text.len();
            }
        }
    };
    for read in bytes.chunks(READ) {
        reader.push(read, &mut said);
        count(&mut said);
    }
    let outcome = reader.end(Transport::Clean, &mut said);
    count(&mut said);
    assert_eq!(outcome.runnable().len(), 4, "a whole stream commits its calls");
    seen
}
