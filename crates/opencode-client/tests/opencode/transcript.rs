//! A log as text, to be kept beside the test and compared.

use serde_json::Value;
use turnstream_model::event::Event;

/// The whole log as text, a line for each event. The times are the test's own, and long texts are shown by
/// their beginning and their length.
pub(crate) fn transcript(log: &[Event]) -> String {
    let line = |event: &Event| {
        let mut value: Value = serde_json::from_str(&event.to_json()).unwrap();
        value.as_object_mut().unwrap().remove("time");
        shorten(&mut value);
        value.to_string() + "\n"
    };
    log.iter().map(line).collect()
}

fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.chars().count() > 300 => {
            let start: String = text.chars().take(60).collect();
            *text = format!("{start}… ({} bytes)", text.len());
        }
        Value::Array(values) => values.iter_mut().for_each(shorten),
        Value::Object(members) => members.values_mut().for_each(shorten),
        _ => {}
    }
}
