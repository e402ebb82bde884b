//! The classes of recorded error answers.

use crate::providers;
use serde_json::Value;
use std::collections::BTreeMap;
use turnstream_llm::classify::Answer;
use turnstream_llm::delay::Headers;
use turnstream_llm::{Format, Head, Reader, Transport};
use turnstream_model::time::Time;

/// Prints the class of every recorded error answer, equal ones once.
pub(crate) fn print(lines: &str) {
    let mut classes: BTreeMap<String, u32> = BTreeMap::new();
    for line in lines.lines() {
        let Ok(answer) = serde_json::from_str::<Value>(line) else {
            println!("errors.jsonl: a line is not JSON: {line:.80}");
            continue;
        };
        let text = |name: &str| answer[name].as_str().unwrap_or_default();
        let headers = answer["headers"].as_object().into_iter().flatten();
        let headers =
            Headers::new(headers.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))));
        let host = text("uri").split('/').nth(2).unwrap_or_default();
        let status = answer["status"].as_u64().unwrap_or_default() as u16;
        let head = Head { status, content_type: headers.get("content-type").map(str::to_owned) };
        let mut reader = Reader::new(Format::Chat, providers::profile(host), head);
        let mut events = Vec::new();
        reader.push(text("body").as_bytes(), &mut events);
        let outcome = reader.end(Transport::Clean, &mut events);
        let Some(failure) = (Answer { status, headers: &headers, now: Time(0) }).outcome(&outcome) else {
            println!("errors.jsonl: no failure in an answer of {host} with status {status}");
            continue;
        };
        let message: String = failure.message.chars().take(60).collect();
        *classes
            .entry(format!("{host} {status} {:?} by {:?}: {message}", failure.class, failure.source))
            .or_default() += 1;
    }
    println!("\nerror answers:");
    classes.iter().for_each(|(line, times)| println!("{times:>4} {line}"));
}
