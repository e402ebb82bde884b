//! Codex seen through opencode's API.

use super::{Lab, shell};
use crate::opencode_scenes::{Scene, steps};
use crate::support::is_full;
use serde_json::json;
use turnstream_fake_provider::{Completion, Part, Step};

#[test]
fn the_tui_drives_codex_and_a_second_one_shows_the_same() {
    if !is_full() {
        return;
    }
    let lab = Lab::new(steps(shell).into_iter().chain([Step::text("Once more.").always()]));
    let serving = lab.serve();
    let scene = Scene { home: &lab.home, serving: &serving, agent: "Codex", mark: "" };
    scene.play();
    scene.run("And again", "Once more.");
}

#[test]
fn the_tui_answers_a_question_of_codex_in_its_plan_mode() {
    if !is_full() {
        return;
    }
    let question = json!({"id": "drink", "header": "Drink", "question": "Tea or coffee?",
        "options": [{"label": "Tea", "description": "Hot"}, {"label": "Coffee", "description": "Hotter"}]});
    let call = Part::tool_call("request_user_input", json!({"questions": [question]}));
    let lab = Lab::new([Step::new(Completion::of([call])), Step::text("Then it is that one.").always()]);
    let serving = lab.serve();
    let scene = Scene { home: &lab.home, serving: &serving, agent: "Codex", mark: "" };
    let clients = scene.clients();
    let tui = scene.attach(&clients, "");
    tui.until(&["Codex"]);
    tui.choose_agent("codex:plan");
    scene.answer_a_question(&tui, &clients);
}
