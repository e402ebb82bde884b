//! The shortcut against the parser: over all payloads of the fixtures, and over those with any one byte changed.

use super::{chat, messages, responses};
use crate::wire;
use serde::Deserialize;
use std::fmt::Debug;
use std::path::Path;

/// All payloads in the fixtures of a format, once.
fn payloads(format: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/llm");
    let mut payloads = Vec::new();
    for folder in [root.join(format), root.join("rows")] {
        for entry in std::fs::read_dir(folder).expect("a folder of fixtures") {
            let path = entry.expect("an entry").path();
            let is_of_format = path.to_string_lossy().contains(format);
            let bytes = std::fs::read(&path).expect("a fixture");
            let text = String::from_utf8_lossy(&bytes);
            let lines = text.lines().filter_map(|line| line.strip_prefix("data:"));
            payloads.extend(lines.filter(|_| is_of_format).map(|data| data.trim_start().to_owned()));
        }
    }
    payloads.sort();
    payloads.dedup();
    payloads
}

/// How many of them the shortcut reads; the same as the parser, or this fails.
fn compared<'a, E: Debug + Deserialize<'a>>(data: &'a str, quick: fn(&'a str) -> Option<E>) -> usize {
    let Some(event) = quick(data) else { return 0 };
    let parsed =
        serde_json::from_str::<E>(data).unwrap_or_else(|error| panic!("{data} is no event: {error}"));
    assert_eq!(format!("{event:?}"), format!("{parsed:?}"), "{data}");
    1
}

macro_rules! compare {
    ($format:literal, $event:ty, $quick:expr) => {
        let payloads = payloads($format);
        let read: usize = payloads.iter().map(|data| compared::<$event>(data, $quick)).sum();
        // Most events of a stream are deltas; of those that differ, and of damaged ones, fewer.
        assert!(3 * read > payloads.len(), "{read} of {}", payloads.len());
        for data in payloads.iter().step_by(7) {
            for at in 0..data.len() {
                for byte in *b"\"\\{}[]:,0 9nu\n" {
                    let mut bytes = data.clone().into_bytes();
                    bytes[at] = byte;
                    if let Ok(changed) = String::from_utf8(bytes) {
                        compared::<$event>(&changed, $quick);
                    }
                }
                if data.is_char_boundary(at) {
                    compared::<$event>(&data[at..], $quick);
                    compared::<$event>(&data[..at], $quick);
                }
            }
        }
    };
}

#[test]
fn chunks_of_a_chat_are_read_as_the_parser_reads_them() {
    compare!("chat", wire::chat::Chunk<'_>, chat);
}

#[test]
fn events_of_responses_are_read_as_the_parser_reads_them() {
    compare!("responses", wire::responses::Event<'_>, responses);
}

#[test]
fn events_of_messages_are_read_as_the_parser_reads_them() {
    compare!("messages", wire::messages::Event<'_>, messages);
}

/// Every member that is known, twice, in every object, with every kind of value.
#[test]
fn members_that_come_twice_are_the_parsers() {
    let chat_names = "id object created model system_fingerprint choices usage x_groq error index delta message \
                      finish_reason role content reasoning_content reasoning reasoning_details refusal tool_calls \
                      function_call function name arguments logprobs";
    let other_names = "type sequence_number output_index item_id delta response item error index message \
                       content_block usage text thinking signature partial_json stop_reason";
    let values = ["null", "\"x\"", "\"\"", "1", "true", "[]", "{}"];
    let mut read = 0;
    for (names, one) in [(chat_names, true), (other_names, false)] {
        for name in names.split_ascii_whitespace() {
            for first in values {
                for members in values
                    .map(|second| format!("\"{name}\":{first},\"{name}\":{second}"))
                    .into_iter()
                    .chain([format!("\"{name}\":{first}")])
                {
                    let nested = [
                        format!("{{{members}}}"),
                        format!("{{\"delta\":{{{members}}}}}"),
                        format!("{{\"choices\":[{{{members}}}]}}"),
                        format!("{{\"choices\":[{{\"delta\":{{{members}}}}}]}}"),
                        format!("{{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{{members}}}]}}}}]}}"),
                        format!(
                            "{{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"function\":{{{members}}}}}]}}}}]}}"
                        ),
                    ];
                    for data in &nested {
                        read += match one {
                            true => compared::<wire::chat::Chunk<'_>>(data, chat),
                            false => {
                                compared::<wire::responses::Event<'_>>(data, responses)
                                    + compared::<wire::messages::Event<'_>>(data, messages)
                            }
                        };
                    }
                }
            }
        }
    }
    assert!(read > 1000, "{read}");
}

/// All lists of up to three of these in a string.
#[test]
fn strings_are_read_as_the_parser_reads_them() {
    let parts = [
        "a",
        "é那🦀",
        "\\n",
        "\\\"",
        "\\\\",
        "\\/",
        "\\b",
        "\\f",
        "\\r",
        "\\t",
        "\\u00fc",
        "\\u0000",
        "\\uD83E",
        "\\uDD80",
        "\\ud83e\\udd80",
        "\\u12",
        "\\u+123",
        "\\x",
        "\\",
        "\n",
        "\u{7f}",
        "\"",
        "0123456789",
    ];
    let mut read = 0;
    for one in parts {
        for two in parts {
            for three in parts {
                let data = format!("{{\"type\":\"response.x\",\"delta\":\"{one}{two}{three}\"}}");
                read += compared::<wire::responses::Event<'_>>(&data, responses);
            }
        }
    }
    assert!(read > 2000, "{read}");
}
