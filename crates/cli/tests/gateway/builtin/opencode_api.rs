//! The built-in agent seen through opencode's API.

use super::Lab;
use crate::opencode_scenes::{Scene, steps};
use crate::support::is_full;
use serde_json::json;
use turnstream_fake_provider::{Completion, Part, Step};

fn shell(command: &str) -> Step {
    let call = Part::tool_call("bash", json!({"command": command}));
    Step::new(Completion::of([Part::text("I run it."), call]))
}

#[test]
fn the_tui_drives_the_built_in_agent_and_a_second_one_shows_the_same() {
    if !is_full() {
        return;
    }
    let lab = Lab::new(steps(shell).into_iter().chain([Step::text("Once more.").always()]));
    let serving = lab.serve(None);
    let scene = Scene { home: &lab.home, serving: &serving, agent: "Builtin", mark: "" };
    scene.play();
    scene.run("And again", "Once more.");
}
