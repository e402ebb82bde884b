//! The real opencode, asked without the proxy: a chunk of the provider that kills its turn does not end the
//! work.

use super::{Lab, of_type, outcomes};
use crate::support::stdout;
use serde_json::json;
use turnstream_fake_provider::{Completion, Fault, Part, Step};

/// A byte inside of the third event: the second completion begins there (capture `i-glued-chunk`).
const INSIDE_AN_EVENT: usize = 640;

#[test]
fn a_glued_chunk_fails_the_turn_and_the_run_goes_on_and_finishes() {
    let tool =
        Part::tool_call("bash", json!({"command": "echo made > made.txt", "description": "Make a file"}));
    let glued = Fault::Splice { after: INSIDE_AN_EVENT, second: Completion::text("glued") };
    let lab = Lab::new([
        Step::text("A first completion that breaks in the middle of a chunk.").fault(glued),
        Step::new(Completion::of([Part::text("Going on."), tool])),
        Step::text("It is made.").always(),
    ]);
    let _serving = lab.serve();
    let args = ["Make a file", "--permissions", "allow", "--on-failure", "continue"];
    let output = lab.run(&args).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stdout(&output).contains("It is made."), "{output:?}");
    assert_eq!(std::fs::read_to_string(lab.home.path("work/made.txt")).unwrap(), "made\n");

    let log = lab.log();
    assert_eq!(outcomes(&log), ["failed", "completed"]);
    let error = &of_type(&log, "turn.ended")[0]["error"];
    assert_eq!(error["class"], "agent_error");
    assert!(error["message"].as_str().unwrap().contains("JSON parsing failed"), "{error}");
    let continued = of_type(&log, "turn.continues");
    assert_eq!(continued.len(), 1);
    assert_eq!((&continued[0]["of"], &continued[0]["because"]), (&json!("t1"), &json!("failure")));
    assert_eq!(of_type(&log, "prompt.continues").len(), 1);
    assert_eq!(lab.calls(), 3, "the broken call, and two of the continuation");
}
