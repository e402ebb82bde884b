//! Event streams that leave out a kind of event altogether: the turn ends once all the same, with the whole
//! text.

use crate::lab::{Lab, events, slowly};
use crate::support::ANSWER;
use serde_json::json;
use turnstream_fake_provider::{Completion, Part, Step};
use turnstream_testkit::proxy::{Edit, Fault, Rule};

const THOUGHT: &str = "A thought that is not to be shown as text.";

fn script() -> Vec<Step> {
    let call = Part::tool_call("bash", json!({"command": "echo said", "description": "As scripted"}));
    let first = Completion::of([Part::reasoning(THOUGHT), Part::text("Look. "), call]);
    let kinds = ["A", "B", "C", "D", "E", "F", "G"];
    let turn = |name: &str| {
        let steps =
            [Step::new(first.clone()).delivered(slowly(20)), Step::text(ANSWER).delivered(slowly(20))];
        steps.map(|step| step.for_user_text(&format!("Turn {name}")))
    };
    kinds.into_iter().flat_map(turn).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_of_event_that_never_comes_costs_nothing() {
    let lab = Lab::start(script()).await;
    tokio::join!(
        without(&lab, "A", &[]),
        without(&lab, "B", &["message.updated"]),
        without(&lab, "C", &["session.idle"]),
        without(&lab, "D", &["session.status"]),
        without(&lab, "E", &["session.idle", "session.status"]),
        without(&lab, "F", &["message.part.updated"]),
        without(&lab, "G", &["message.updated", "session.idle", "session.status"]),
    );
}

async fn without(lab: &Lab, name: &str, kinds: &[&str]) {
    let line = lab.line().await;
    let session = &line.session;
    let mut rules = Vec::new();
    for kind in kinds {
        let rule = Rule::new(Fault::Event(events(kind, session), Edit::Drop)).always();
        rules.push(lab.proxy.add(rule.on_request(line.is_stream())));
    }
    let text = format!("Turn {name}");
    let seen = line.ask(&text).ended().await;
    assert!(rules.iter().all(|rule| lab.proxy.fired(*rule) > 0), "nothing was dropped of {kinds:?}");
    let expected = (
        THOUGHT.to_owned(),
        format!("Look. {ANSWER}"),
        vec!["execute | Run echo said | completed".to_owned()],
        "end_turn".to_owned(),
    );
    assert_eq!(seen.whole(), expected, "without {kinds:?}");
    assert_eq!(lab.model_calls(&text), 2, "without {kinds:?}");
    assert_eq!((lab.prompts(session), lab.aborts(session)), (1, 0), "without {kinds:?}");
}
