//! Random damage to correct streams: no panic, no dependence on the split, sound events.

use crate::corpus::pairs;
use crate::property::any_split_says_the_same_sound_things;
use serde_json::{Value, json};

/// A linear congruential generator, so that a failure repeats.
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

/// Replaces a random part of this value by another.
fn misshape(value: &mut Value, random: &mut Random) {
    let kinds =
        ["server_tool_use", "custom_tool_call", "redacted_thinking", "message", "reasoning", "ping", "error"];
    let below = match value {
        Value::Object(members) if random.below(6) > 0 => {
            let at = random.below(members.len());
            members.values_mut().nth(at)
        }
        Value::Array(list) if random.below(6) > 0 => {
            let at = random.below(list.len());
            list.get_mut(at)
        }
        _ => None,
    };
    if let Some(below) = below {
        return misshape(below, random);
    }
    let taken = value.take();
    *value = match random.below(12) {
        0 => Value::Null,
        1 => json!([]),
        2 => json!({}),
        3 => json!(""),
        4 => json!(u64::MAX),
        5 => json!(-1.5),
        6 => json!(true),
        7 => json!([taken]),
        8 => json!([taken, taken]),
        9 => json!({"type": taken}),
        10 => json!([kinds[random.below(kinds.len())]]),
        _ => json!(kinds[random.below(kinds.len())]),
    };
}

#[test]
fn random_shapes_are_read_alike_in_every_split_and_commit_only_sound_calls() {
    let mut random = Random(2);
    for pair in pairs().iter().filter(|pair| !pair.first.name.contains("without")) {
        for _ in 0..300 {
            let mut stream = pair.first.clone();
            for _ in 0..1 + random.below(6) {
                let at = random.below(stream.events.len());
                let text = String::from_utf8(stream.events[at].clone()).expect("rendered text");
                let Some((before, data)) = text.split_once("data: ") else { continue };
                let Ok(mut payload) = serde_json::from_str::<Value>(data) else { continue };
                misshape(&mut payload, &mut random);
                stream.events[at] = format!("{before}data: {payload}\n\n").into_bytes();
            }
            let lengths: Vec<u8> = (0..20).map(|_| random.below(256) as u8).collect();
            any_split_says_the_same_sound_things(stream.format, &stream.profile, &stream.bytes(), &lengths);
        }
    }
}
