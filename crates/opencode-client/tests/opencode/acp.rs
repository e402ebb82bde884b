//! Every capture as a client of the Agent Client Protocol gets it: each message fits the protocol's schema,
//! the screen shows the fold, each turn has one terminator. Some are kept whole; `TURNSTREAM_UPDATE=1`
//! writes those anew.

use crate::capture::Capture;
use crate::captures::TURNS;
use crate::client::Screen;
use crate::judge::Judge;
use crate::playback::{End, Fault};
use turnstream_dialects::acp::{AcpEvent, Encoder};
use turnstream_model::event::Event;
use turnstream_model::fold::Fold;
use turnstream_opencode_client::conversation::Budget;

const WHOLE: &[&str] = &[
    "b-reasoning",
    "c-multistep",
    "d2-permission-reject",
    "j1-cut-midstream",
    "j4-finish-length",
    "m-subagent",
    "s1-todo",
];

fn log(name: &str) -> Vec<Event> {
    Capture::load(name).play_with(&Fault::None, Budget { steps: None, ..Budget::default() }).1
}

fn encode(log: &[Event]) -> Vec<AcpEvent> {
    let (mut encoder, mut out) = (Encoder::new(), Vec::new());
    for event in log {
        encoder.encode(event, &mut out);
    }
    out
}

#[test]
fn every_message_fits_the_protocol_and_every_turn_has_one_terminator() {
    for (name, turns) in TURNS {
        let log = log(name);
        let out = encode(&log);
        for event in &out {
            Judge::get().check(event);
        }
        Screen::of(&out).assert_shows(Fold::of(&log).state());
        let ends: Vec<&AcpEvent> = out.iter().filter(|event| event.is_terminator()).collect();
        assert_eq!(ends.len(), turns.len(), "{name}");
        for (end, turn) in ends.iter().zip(*turns) {
            let fails = matches!(turn, End::Failed(_) | End::Lost | End::Open);
            assert_eq!(matches!(end, AcpEvent::Error(_)), fails, "{name}: {end:?}");
        }
    }
}

#[test]
fn some_captures_are_kept_whole() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/opencode/acp");
    for name in WHOLE {
        let found: String = encode(&log(name)).iter().map(|event| event.to_json("ses_1") + "\n").collect();
        let path = directory.join(format!("{name}.ndjson"));
        if std::env::var_os("TURNSTREAM_UPDATE").is_some() {
            std::fs::write(&path, &found).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(found.lines().collect::<Vec<_>>(), kept.lines().collect::<Vec<_>>(), "{name}");
    }
}
