//! The whole log of each capture, as it was read before.

use serde_json::Value;
use std::path::Path;
use turnstream_model::event::Event;

/// Compares the log of each capture of an agent with the stored one. `TURNSTREAM_UPDATE=1` writes them anew.
pub(crate) fn assert_logs(agent: &str, logs: impl IntoIterator<Item = (String, Vec<Event>)>) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(agent).join("logs");
    let mut wrong = Vec::new();
    for (name, log) in logs {
        let log = transcript(&log);
        let path = directory.join(format!("{name}.jsonl"));
        if std::env::var_os("TURNSTREAM_UPDATE").is_some() {
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(&path, &log).unwrap();
        }
        // The order of members depends on the features of a build.
        let parsed = |log: &str| log.lines().map(|line| line.parse().ok()).collect::<Vec<Option<Value>>>();
        if parsed(&std::fs::read_to_string(&path).unwrap_or_default()) != parsed(&log) {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "changed: {wrong:?}; look at the difference after TURNSTREAM_UPDATE=1");
}

/// A log as text. The times are the test's own, and long texts are shown by their beginning and their length.
fn transcript(log: &[Event]) -> String {
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
