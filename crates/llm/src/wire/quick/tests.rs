//! Compares the fast parser with the full one: on all fixture payloads, and with any single byte changed.

use super::{chat, messages, responses};
use crate::wire;
use serde::Deserialize;
use std::fmt::Debug;
use std::path::Path;

/// All distinct payloads in the fixtures of a format.
pub(in crate::wire) fn payloads(format: &str) -> Vec<String> {
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

/// Counts the payloads that the fast parser reads. Fails if it reads one differently.
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

/// Every known member twice, in every object, with every kind of value.
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

/// All strings of up to three of these.
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

/// Generates events and near-events: known and unknown members in any order and number, with every kind of
/// value, and with blanks in allowed and forbidden places.
struct Scribe(fastrand::Rng);

impl Scribe {
    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.0.usize(..of.len())]
    }

    fn blank(&mut self) -> &'static str {
        match self.0.u8(..20) {
            0 => "  ",
            1 => "\n",
            2 => "\t",
            3..6 => " ",
            _ => "",
        }
    }

    fn string(&mut self) -> String {
        let parts = [
            "a",
            "zwölf",
            "那🦀",
            "0123456789",
            "\\n",
            "\\\"",
            "\\\\",
            "\\u00fc",
            "\\ud83e\\udd80",
            "\\ud83e",
            "\\u",
            "\u{7f}",
            "\u{80}",
            "\u{a0}",
            "assistant",
            "[DONE]",
            "data:",
            "{",
            "}",
            "\",\"id\":\"x",
        ];
        let length = if self.0.u8(..40) == 0 { 300 } else { self.0.usize(..5) };
        let content: String = (0..length).map(|_| self.one(&parts)).collect();
        format!("\"{content}\"")
    }

    fn value(&mut self, names: &[&str], levels: u8) -> String {
        let numbers = [
            "0",
            "1",
            "7",
            "00",
            "01",
            "-1",
            "-0",
            "1.0",
            "1e2",
            "4294967295",
            "4294967296",
            "999999999999999999",
            "1000000000000000000",
            "18446744073709551615",
            "18446744073709551616",
            "NaN",
            "+1",
            "1.",
            ".5",
            "0x1",
        ];
        match self.0.u8(..12) {
            0 => self
                .one(&[
                    "null", "nul", "nulls", "true", "tru", "false", "falsey", "Null", "[]", "{}", "[ ]",
                    "{ }",
                ])
                .to_owned(),
            1..4 => self.one(&numbers).to_owned(),
            4..7 => self.string(),
            7 if levels > 0 => {
                let (one, two) = (self.value(names, levels - 1), self.value(names, levels - 1));
                let blank = self.blank();
                match self.0.u8(..3) {
                    0 => format!("[{one},{blank}{two}]"),
                    _ => format!("[{one}{blank}]"),
                }
            }
            _ if levels > 0 => self.object(names, levels - 1),
            _ => "null".to_owned(),
        }
    }

    /// Values that mostly fit their members.
    fn fitting(&mut self, names: &[&str], name: &str, levels: u8) -> String {
        let kind = self.0.u8(..10);
        match name {
            _ if kind == 0 => self.value(names, levels),
            "choices" | "tool_calls" if levels > 0 => format!("[{}]", self.object(names, levels - 1)),
            "delta" | "function" if levels > 0 && kind < 8 => self.object(names, levels - 1),
            "index" | "created" | "sequence_number" | "output_index" => {
                self.one(&["0", "1", "17", "1794700000", "4294967296", "01"]).to_owned()
            }
            _ if kind < 3 => "null".to_owned(),
            _ => self.string(),
        }
    }

    fn object(&mut self, names: &[&str], levels: u8) -> String {
        let mut text = "{".to_owned();
        for at in 0..self.0.u8(..6) {
            let name = self.one(names);
            let value = self.fitting(names, name, levels);
            text.push_str(if at == 0 { "" } else { "," });
            text.push_str(self.blank());
            text.push_str(&format!("\"{name}\"{}:", if self.0.u8(..50) == 0 { " " } else { "" }));
            text.push_str(self.blank());
            text.push_str(&value);
            text.push_str(if self.0.u8(..50) == 0 { " " } else { "" });
        }
        text.push_str(if self.0.u8(..60) == 0 { ",}" } else { "}" });
        text
    }

    /// An event, sometimes with a byte removed, doubled or appended.
    fn event(&mut self, names: &[&str]) -> String {
        let mut text = self.object(names, 5);
        let at = self.0.usize(..=text.len());
        if self.0.u8(..8) == 0 && text.is_char_boundary(at) && at < text.len() {
            let character = text.remove(at);
            if self.0.bool() {
                text.insert(at, character);
                text.insert(at, character);
            }
        }
        text + self.one(&["", "", "", "", "", "", "", " ", "x", "}", "\0"])
    }
}

#[test]
fn events_that_nobody_wrote_are_read_as_the_parser_reads_them() {
    let chat_names = [
        "id",
        "object",
        "created",
        "model",
        "system_fingerprint",
        "choices",
        "choices",
        "choices",
        "choices",
        "delta",
        "delta",
        "delta",
        "tool_calls",
        "tool_calls",
        "function",
        "function",
        "index",
        "finish_reason",
        "usage",
        "role",
        "content",
        "content",
        "reasoning",
        "reasoning_content",
        "refusal",
        "name",
        "arguments",
        "error",
        "message",
        "x_groq",
        "logprobs",
        "ID",
        "i\\u0064",
        "",
        "obfuscation",
    ];
    let names = [
        "type",
        "type",
        "index",
        "delta",
        "delta",
        "delta",
        "text",
        "thinking",
        "partial_json",
        "signature",
        "sequence_number",
        "output_index",
        "item_id",
        "item",
        "response",
        "error",
        "usage",
        "obfuscation",
        "t\\u0079pe",
    ];
    let mut scribe = Scribe(fastrand::Rng::with_seed(7));
    let (mut chats, mut others) = (0, 0);
    for _ in 0..60_000 {
        let data = scribe.event(&chat_names);
        chats += compared::<wire::chat::Chunk<'_>>(&data, chat);
        let data = scribe.event(&names);
        others += compared::<wire::responses::Event<'_>>(&data, responses);
        others += compared::<wire::messages::Event<'_>>(&data, messages);
    }
    assert!(chats > 5000 && others > 5000, "{chats} and {others}");
}
