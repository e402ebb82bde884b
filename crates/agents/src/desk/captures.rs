//! Judges all captures of an agent: with and without faults, and by their whole logs.

use super::{Capture, Driver, End, Fault};
use serde_json::Value;
use std::marker::PhantomData;
use std::path::Path;
use turnstream_model::event::Event;

/// Judges the captures of one agent.
pub(crate) struct Judge<D>(PhantomData<D>);

impl<D: Driver> Judge<D> {
    /// Every capture has these ends.
    pub(crate) fn assert_ends(turns: &[(&str, &[End])]) {
        let named: Vec<&str> = turns.iter().map(|(name, _)| *name).collect();
        assert_eq!(Capture::names::<D>(), named, "every capture has its expectation");
        let mut wrong = Vec::new();
        for (name, ends) in turns {
            let found = Capture::load::<D>(name).play::<D>(Fault::None).ends();
            if found != *ends {
                wrong.push(format!("{name}\n  expected {ends:?}\n  found    {found:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// The whole log of each capture is the one in this folder. `TURNSTREAM_UPDATE=1` writes them anew.
    pub(crate) fn assert_logs(folder: &str) {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let mut wrong = Vec::new();
        for name in Capture::names::<D>() {
            let log = transcript(&Capture::load::<D>(&name).play::<D>(Fault::None).log);
            let path = directory.join(format!("{name}.jsonl"));
            if std::env::var_os("TURNSTREAM_UPDATE").is_some() {
                std::fs::create_dir_all(&directory).unwrap();
                std::fs::write(&path, &log).unwrap();
            }
            // The order of members depends on the features of a build.
            let parsed =
                |log: &str| log.lines().map(|line| line.parse().ok()).collect::<Vec<Option<Value>>>();
            if parsed(&std::fs::read_to_string(&path).unwrap_or_default()) != parsed(&log) {
                wrong.push(name);
            }
        }
        assert!(wrong.is_empty(), "changed: {wrong:?}; look at the difference after TURNSTREAM_UPDATE=1");
    }

    /// Plays each fault at each place. The laws are checked by `play`.
    pub(crate) fn assert_faults(fault: fn(usize) -> Fault, check: fn(found: &[End], whole: &[End]) -> bool) {
        let mut wrong = Vec::new();
        for name in Capture::names::<D>() {
            let capture = Capture::load::<D>(&name);
            let whole = capture.play::<D>(Fault::None).ends();
            for place in places(&capture) {
                let found = capture.play::<D>(fault(place)).ends();
                if !check(&found, &whole) {
                    wrong.push(format!("{name} at {place}: {found:?} instead of {whole:?}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{} went wrong:\n{}", wrong.len(), wrong.join("\n"));
    }
}

/// Places of faults: every second line, and all with `TURNSTREAM_FULL`.
fn places(capture: &Capture) -> impl Iterator<Item = usize> {
    let step = if std::env::var_os("TURNSTREAM_FULL").is_some() { 1 } else { 2 };
    (0..capture.outputs()).step_by(step)
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
