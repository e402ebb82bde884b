//! Subagents: their text is theirs, also when two of them work at the same time.

use crate::lab::{Lab, slowly};
use serde_json::json;
use turnstream_dialects::acp::AcpEvent;
use turnstream_fake_provider::{Completion, Part, Step};
use turnstream_model::event::ApprovalOutcome;
use turnstream_opencode_client::TurnSettings;

const NORTH: &str = "The north is cold, says the one who went there.";
const SOUTH: &str = "The south is warm, says the one who went there.";

fn task(to: &str) -> Part {
    let arguments = json!({"description": format!("Go {to}"), "prompt": format!("You go {to}"), "subagent_type": "general"});
    Part::tool_call("task", arguments)
}

fn script() -> Vec<Step> {
    let touch = Part::tool_call("bash", json!({"command": "touch child.txt", "description": "As scripted"}));
    vec![
        Step::text(NORTH).delivered(slowly(40)).for_user_text("You go north"),
        Step::text(SOUTH).delivered(slowly(40)).for_user_text("You go south"),
        Step::new(Completion::of([touch])).for_user_text("You go west"),
        Step::text("The west is far.").for_user_text("You go west"),
        Step::new(Completion::of([Part::text("I send two. "), task("north"), task("south")]))
            .for_user_text("Send both"),
        Step::text("Both are back.").for_user_text("Send both"),
        Step::new(Completion::of([task("west")])).for_user_text("Send one"),
        Step::text("It is back.").for_user_text("Send one"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn subagents_speak_under_their_call() {
    let lab = Lab::start(script()).await;
    tokio::join!(
        two_at_the_same_time_do_not_swap(&lab),
        the_ask_of_a_subagent_is_answered_where_it_asked(&lab),
    );
}

async fn two_at_the_same_time_do_not_swap(lab: &Lab) {
    let session = lab.session().await;
    let seen = lab.ask(&session, "Send both").ended().await;
    assert_eq!((seen.text().as_str(), seen.end().as_str()), ("I send two. Both are back.", "end_turn"));
    let calls = seen.calls();
    let [(north, _), (south, _)] = calls[..] else { panic!("{calls:?}") };
    assert_eq!(
        seen.call_lines(),
        ["other | Run subagent: Go north | completed", "other | Run subagent: Go south | completed"]
    );
    assert_eq!((seen.text_of(north).as_str(), seen.text_of(south).as_str()), (NORTH, SOUTH));
    let children = lab.client.children(&session).await.unwrap().len();
    assert_eq!((children, lab.model_calls("Send both")), (2, 2));
}

async fn the_ask_of_a_subagent_is_answered_where_it_asked(lab: &Lab) {
    let session = lab.session_with(&json!({"permission": {"bash": "ask"}})).await;
    let mut watch = lab.send(&session, "Send one", TurnSettings::default());
    let asked = watch.until(|event| matches!(event, AcpEvent::Permission(_))).await.clone();
    let AcpEvent::Permission(asked) = asked else { panic!("{asked:?}") };
    assert!(asked.tag.parent.is_some(), "{asked:?}");
    watch.turn.approve(asked.approval, ApprovalOutcome::AllowOnce);
    let seen = watch.ended().await;
    assert_eq!((seen.text().as_str(), seen.end().as_str()), ("It is back.", "end_turn"));
    let [(west, _)] = seen.calls()[..] else { panic!("{:?}", seen.calls()) };
    assert_eq!(seen.text_of(west), "The west is far.");
    let [(_, touched)] = seen.calls_below(Some(west))[..] else {
        panic!("{:?}", seen.calls_below(Some(west)))
    };
    assert_eq!(touched.members["status"], "completed");
    assert!(session.directory.as_path().join("child.txt").exists());
}
