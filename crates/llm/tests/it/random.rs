//! Random damage to honest streams: nothing panics, the split does not show, and what is said is sound.

use crate::corpus::pairs;
use crate::property::any_split_says_the_same_sound_things;

/// A linear congruence, so that a failure repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

#[test]
fn random_damage_is_read_alike_in_every_split_and_commits_only_sound_calls() {
    let mut random = Random(1);
    for pair in pairs() {
        let (first, second) = (pair.first.bytes(), pair.second.bytes());
        for _ in 0..400 {
            let mut bytes = first.clone();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len());
                let length = random.below(60).min(bytes.len() - at);
                match random.below(5) {
                    0 => bytes[at] = random.below(256) as u8,
                    1 => drop(bytes.drain(at..at + length)),
                    2 => bytes.insert(at, b"\n\"{}[]:,\\ \r\x00\xFF"[random.below(12)]),
                    3 => {
                        let copied = bytes[at..at + length].to_vec();
                        let to = random.below(bytes.len());
                        bytes.splice(to..to, copied);
                    }
                    _ => {
                        let from = random.below(second.len());
                        let until = (from + random.below(400)).min(second.len());
                        bytes.splice(at..at, second[from..until].iter().copied());
                    }
                }
            }
            let lengths: Vec<u8> = (0..20).map(|_| random.below(256) as u8).collect();
            any_split_says_the_same_sound_things(pair.first.format, &pair.first.profile, &bytes, &lengths);
        }
    }
}
