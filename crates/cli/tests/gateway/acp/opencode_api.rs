//! An ACP agent seen through opencode's API.

use super::{Lab, MARK, shell};
use crate::opencode_scenes::{Scene, steps};
use crate::support::is_full;
use serde_json::json;
use turnstream_fake_provider::{Completion, Part, Step};

#[test]
fn the_tui_drives_an_acp_agent_and_a_second_one_shows_the_same() {
    if !is_full() {
        return;
    }
    let lab = Lab::new(steps(shell).into_iter().chain([Step::text("Once more.").always()]));
    let serving = lab.serve();
    let scene = Scene { home: &lab.home, serving: &serving, agent: "Acp", mark: MARK };
    scene.play();
    scene.run("And again", "Once more.");
}

#[test]
fn the_tui_answers_a_question_of_an_acp_agent() {
    if !is_full() {
        return;
    }
    let options = ["Tea", "Coffee"].map(|label| json!({"label": label, "description": label}));
    let question =
        json!({"question": "Tea or coffee?", "header": "Drink", "options": options, "multiSelect": false});
    let call = Part::tool_call("AskUserQuestion", json!({"questions": [question]}));
    let lab = Lab::new([Step::new(Completion::of([call])), Step::text("Then it is that one.")]);
    let serving = lab.serve();
    let scene = Scene { home: &lab.home, serving: &serving, agent: "Acp", mark: MARK };
    let clients = scene.clients();
    let tui = scene.attach(&clients, "");
    tui.until(&["Acp"]);
    scene.answer_a_question(&tui, &clients);
}
