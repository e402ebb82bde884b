//! The plain reader: splits lines, parses JSON, concatenates. It checks nothing, as most clients do, and
//! shares no code with the reader that it is compared with.

use serde_json::Value;
use turnstream_llm::Format;

/// What a plain reader finds in a recording.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plain {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    /// Name and arguments.
    pub(crate) calls: Vec<(String, String)>,
    /// Whether the finish lets calls run.
    pub(crate) may_call: bool,
    /// The provider reported an error.
    pub(crate) failed: bool,
    /// Why this is not one whole answer.
    pub(crate) broken: Option<String>,
}

pub(crate) fn read(format: Format, bytes: &[u8]) -> Plain {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let mut plain = Plain { may_call: true, ..Plain::default() };
    let mut payloads = Vec::new();
    let mut done = 0;
    for line in text.lines() {
        if let Some(error) = line.strip_prefix("error:") {
            plain.failed |= error.trim_start().starts_with('{');
        }
        let Some(data) = line.strip_prefix("data:").map(str::trim) else { continue };
        if data == "[DONE]" {
            done += 1;
        } else if !data.is_empty() {
            match serde_json::from_str::<Value>(data) {
                Ok(value) => payloads.push(value),
                Err(error) => plain.broken = Some(format!("a payload is not JSON ({error})")),
            }
        }
    }
    match format {
        Format::Chat => chat(&payloads, done, &mut plain),
        Format::Messages => messages(&payloads, &mut plain),
        Format::Responses => responses(&payloads, &mut plain),
    }
    for (_, arguments) in &mut plain.calls {
        if arguments.is_empty() {
            arguments.push_str("{}");
        }
    }
    plain
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn chat(payloads: &[Value], done: u32, plain: &mut Plain) {
    let mut finishes = Vec::new();
    // Calls by index and id.
    let mut calls: Vec<(Value, String, String, String)> = Vec::new();
    for chunk in payloads {
        plain.failed |= chunk["error"].is_object() || chunk["error"].is_string();
        for choice in list(&chunk["choices"]) {
            let delta = &choice["delta"];
            // The API before chat has no deltas. Some providers send both.
            if delta.is_null() {
                plain.text.push_str(text_of(&choice["text"]));
            }
            plain.text.push_str(text_of(&delta["content"]));
            for part in list(&delta["content"]) {
                plain.text.push_str(text_of(&part["text"]));
                list(&part["thinking"]).for_each(|part| plain.reasoning.push_str(text_of(&part["text"])));
            }
            let thought = [&delta["reasoning_content"], &delta["reasoning"]];
            let thought = thought.into_iter().map(text_of).find(|thought| !thought.is_empty());
            match thought {
                Some(thought) => plain.reasoning.push_str(thought),
                None => list(&delta["reasoning_details"]).for_each(|detail| {
                    plain.reasoning.push_str(text_of(&detail["text"]));
                    plain.reasoning.push_str(text_of(&detail["summary"]));
                }),
            }
            for call in list(&delta["tool_calls"]) {
                let (index, id) = (call["index"].clone(), text_of(&call["id"]).to_owned());
                let known = calls
                    .iter()
                    .rposition(|(known, its, _, _)| *known == index && (id.is_empty() || *its == id));
                let at = known.unwrap_or_else(|| {
                    calls.push((index, id, String::new(), String::new()));
                    calls.len() - 1
                });
                let function = &call["function"];
                if calls[at].2.is_empty() {
                    calls[at].2.push_str(text_of(&function["name"]));
                }
                calls[at].3.push_str(text_of(&function["arguments"]));
            }
            finishes.extend(choice["finish_reason"].as_str().filter(|word| !word.is_empty()));
        }
    }
    plain.calls = calls.into_iter().map(|(_, _, name, arguments)| (name, arguments)).collect();
    plain.may_call = !finishes.iter().any(|word| ["length", "content_filter"].contains(word));
    if finishes.is_empty() && done == 0 && !plain.failed {
        plain.broken = Some("neither a finish nor [DONE]".to_owned());
    } else if done > 1 {
        plain.broken = Some(format!("{done} times [DONE]"));
    }
}

fn messages(payloads: &[Value], plain: &mut Plain) {
    let mut ids = Vec::new();
    let (mut stops, mut finish) = (0, "");
    let mut blocks: Vec<&Value> = Vec::new();
    let mut inputs: Vec<String> = Vec::new();
    for event in payloads {
        let index = event["index"].as_u64().unwrap_or_default() as usize;
        let delta = &event["delta"];
        match text_of(&event["type"]) {
            "message_start" if !blocks.is_empty() => {
                plain.broken = Some("a second message_start after content".to_owned());
            }
            "message_start" => ids.push(text_of(&event["message"]["id"])),
            "content_block_start" => {
                blocks.push(&event["content_block"]);
                inputs.push(String::new());
                plain.text.push_str(text_of(&event["content_block"]["text"]));
                plain.reasoning.push_str(text_of(&event["content_block"]["thinking"]));
            }
            "content_block_delta" => {
                plain.text.push_str(text_of(&delta["text"]));
                plain.reasoning.push_str(text_of(&delta["thinking"]));
                match inputs.get_mut(index) {
                    Some(input) => input.push_str(text_of(&delta["partial_json"])),
                    None => plain.broken = Some(format!("a delta for block {index}, which never began")),
                }
            }
            "message_delta" => finish = delta["stop_reason"].as_str().unwrap_or(finish),
            "message_stop" => stops += 1,
            "error" => plain.failed = true,
            _ => {}
        }
    }
    for (block, input) in blocks.iter().zip(inputs) {
        if text_of(&block["type"]) == "tool_use" {
            let whole = if block["input"] == serde_json::json!({}) {
                String::new()
            } else {
                block["input"].to_string()
            };
            plain
                .calls
                .push((text_of(&block["name"]).to_owned(), if input.is_empty() { whole } else { input }));
        }
    }
    plain.may_call = ["tool_use", "end_turn", "stop_sequence"].contains(&finish);
    ids.dedup();
    if ids.len() != 1 {
        plain.broken = Some(format!("{} messages begin", ids.len()));
    } else if stops != 1 && !plain.failed {
        plain.broken = Some(format!("{stops} times message_stop"));
    }
}

fn responses(payloads: &[Value], plain: &mut Plain) {
    let (mut created, mut ends) = (0, Vec::new());
    for event in payloads {
        match text_of(&event["type"]) {
            "response.created" => created += 1,
            "response.output_item.done" => item(&event["item"], plain),
            end @ ("response.completed" | "response.incomplete") => {
                plain.may_call =
                    end == "response.completed" && event["response"]["incomplete_details"].is_null();
                ends.push(end);
            }
            "response.failed" | "error" => plain.failed = true,
            _ => {}
        }
    }
    if created > 1 {
        plain.broken = Some(format!("{created} responses begin"));
    } else if ends.len() != 1 && !plain.failed {
        plain.broken = Some(format!("{} terminal events", ends.len()));
    }
}

fn item(item: &Value, plain: &mut Plain) {
    let texts = |of: &Value, between: &str| {
        let texts: Vec<&str> = list(of)
            .map(|part| part["text"].as_str().or(part["refusal"].as_str()).unwrap_or_default())
            .filter(|text| !text.is_empty())
            .collect();
        texts.join(between)
    };
    match text_of(&item["type"]) {
        "message" => plain.text.push_str(&texts(&item["content"], "")),
        "reasoning" => {
            let summary = texts(&item["summary"], "\n\n");
            plain.reasoning.push_str(&if summary.is_empty() { texts(&item["content"], "") } else { summary });
        }
        "function_call" => {
            plain.calls.push((text_of(&item["name"]).to_owned(), text_of(&item["arguments"]).to_owned()));
        }
        "custom_tool_call" => {
            plain.calls.push((text_of(&item["name"]).to_owned(), text_of(&item["input"]).to_owned()));
        }
        _ => {}
    }
}
