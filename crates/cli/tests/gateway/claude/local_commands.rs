//! Commands that Claude Code executes itself, such as `/cost` and `/compact`.

use super::{Lab, accepted, of_type, outcomes};
use crate::support::{ask, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use turnstream_fake_provider::{Delivery, Ended, Step};
use turnstream_testkit::agents::ClaudeVersion;

const VERSIONS: [ClaudeVersion; 2] = [ClaudeVersion::V2_1_197, ClaudeVersion::V2_1_325];

/// The items of the last turn: kind and text.
fn items_of_last_turn(lab: &Lab, session: &str) -> Vec<(String, String)> {
    let log = lab.log(session);
    let turn = of_type(&log, "turn.ended").last().unwrap()["turn"].clone();
    let started = of_type(&log, "item.started").into_iter().filter(|item| item["turn"] == turn);
    let text = |item: &Value| {
        let deltas = of_type(&log, "item.delta").into_iter().filter(|delta| delta["item"] == item["item"]);
        deltas.map(|delta| delta["text"].as_str().unwrap()).collect::<String>()
    };
    started.map(|item| (item["kind"].as_str().unwrap().to_owned(), text(item))).collect()
}

#[test]
fn the_answer_to_a_command_that_needs_no_model_is_shown() {
    for version in VERSIONS {
        let lab = Lab::of(version, [Step::text("Yes.").always()]);
        let serving = lab.serve();
        let session = lab.session(&serving);
        accepted(&serving, &session, "Hello");
        lab.ended(&session, 1);
        let calls = lab.provider.calls().len();
        accepted(&serving, &session, "/cost");
        assert_eq!(outcomes(&lab.ended(&session, 2)), ["completed"; 2], "{version:?}");
        assert_eq!(lab.provider.calls().len(), calls, "{version:?}: no model was asked");
        let items = items_of_last_turn(&lab, &session);
        let is_shown = items.iter().any(|(kind, text)| kind == "message" && text.contains("cost"));
        assert!(is_shown, "{version:?}: {items:#?}");
        accepted(&serving, &session, "And now?");
        assert_eq!(outcomes(&lab.ended(&session, 3)), ["completed"; 3], "{version:?}");
    }
}

#[test]
fn a_compaction_that_outlives_the_gateway_is_completed() {
    for version in VERSIONS {
        let slow = Delivery { before_delta_ms: 400, ..Delivery::default() };
        let summary = "<summary>We talked about fruit, and about nothing else at all.</summary>";
        let lab = Lab::of(
            version,
            [
                Step::text("An answer of some length, so that there is something to summarise."),
                Step::text("Another one."),
                Step::text(summary).delivered(slow),
                Step::text("Yes.").always(),
            ],
        );
        let serving = lab.serve();
        let session = lab.session(&serving);
        for (turn, text) in ["Tell me of fruit", "And more"].iter().enumerate() {
            accepted(&serving, &session, text);
            lab.ended(&session, turn + 1);
        }
        accepted(&serving, &session, "/compact");
        // The model writes the summary.
        wait_for(|| (lab.provider.calls().len() == 3).then_some(()));
        serving.end(Signal::KILL);
        let serving = lab.serve();
        let log = lab.ended(&session, 3);
        assert_eq!(lab.provider.calls()[2].ended, Ended::Complete, "{version:?}");
        assert_eq!(outcomes(&log), ["completed"; 3], "{version:?}: {log:#?}");
        let items = items_of_last_turn(&lab, &session);
        let is_shown = items.iter().any(|(kind, text)| kind == "compaction" && text.contains("fruit"));
        assert!(is_shown, "{version:?}: {items:#?}");
        accepted(&serving, &session, "And now?");
        assert_eq!(outcomes(&lab.ended(&session, 4)), ["completed"; 4], "{version:?}");
        let path = format!("/v1/sessions/{session}");
        wait_for(|| (ask(&serving.address, "GET", &path, &json!({})).1["status"] == "idle").then_some(()));
    }
}
