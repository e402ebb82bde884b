//! Responses: any bytes, in any split, under any profile say the same sound things.
#![no_main]

#[path = "../../tests/it/property.rs"]
mod property;

use libfuzzer_sys::fuzz_target;
use property::any_split_says_the_same_sound_things;
use turnstream_llm::{Format, Profile};

fuzz_target!(|input: &[u8]| {
    // The first byte is the profile, the second how many of the next bytes are lengths of reads.
    let [profile, count, rest @ ..] = input else { return };
    let profile = Profile::ALL[usize::from(*profile) % Profile::ALL.len()];
    let (lengths, stream) = rest.split_at(usize::from(*count).min(rest.len()));
    any_split_says_the_same_sound_things(Format::Responses, profile, stream, lengths);
});
