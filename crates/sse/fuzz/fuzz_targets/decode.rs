//! Any bytes, in any split, under any cap: the frames are the same and sound, and memory is bounded.
#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

use libfuzzer_sys::fuzz_target;
use support::property::any_split_gives_the_same_sound_frames;

fuzz_target!(|input: &[u8]| {
    // The first byte is the cap (255: none), the second how many of the next bytes are lengths of reads.
    let [cap, count, rest @ ..] = input else { return };
    let limit = if *cap == u8::MAX { usize::MAX } else { usize::from(*cap) };
    let (lengths, stream) = rest.split_at(usize::from(*count).min(rest.len()));
    any_split_gives_the_same_sound_frames(stream, lengths, limit);
});
