//! Any text, in any pieces, with time and stale ends between: pieces make no difference, nothing panics,
//! and memory is bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use turnstream_redact::{Pattern, Rules, Stream};

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let pattern = Pattern { name: "badge".into(), regex: "B-[0-9]{4}".into(), prefix: None };
    let rules = Rules::builder().literal("vault", "aabaabaac aab").and_then(|rules| rules.pattern(pattern));
    rules.expect("the rules are good").build()
});

fuzz_target!(|input: &[u8]| {
    // The first byte is how many of the next bytes say where to cut, and what happens there.
    let [count, rest @ ..] = input else { return };
    let (cuts, text) = rest.split_at(usize::from(*count).min(rest.len()));
    let _ = RULES.redact_bytes(text);
    let Ok(text) = std::str::from_utf8(text) else { return };

    let (mut plain, mut plain_out) = (Stream::new(&RULES), String::new());
    let (mut stream, mut out) = (Stream::in_the_middle(&RULES), String::new());
    let mut rest = text;
    for cut in cuts.iter().cycle().take(text.len()) {
        let at = rest.char_indices().nth(usize::from(cut >> 2)).map_or(rest.len(), |(at, _)| at);
        let (piece, more) = rest.split_at(at);
        plain.push(piece, &mut plain_out);
        stream.push(piece, &mut out);
        match cut % 4 {
            0 => stream.release(&mut out),
            1 => stream.settle(&mut out),
            _ => {}
        }
        assert!(stream.kept() < 8 * 1024 && plain.kept() < 8 * 1024);
        rest = more;
    }
    plain.push(rest, &mut plain_out);
    plain.finish(&mut plain_out);
    assert_eq!(plain_out, RULES.redact(text));
});
