//! What a person answers, on its way to the server.

use crate::desk::{Desk, ONE, SESSION, answer_info, snapshot};
use serde_json::json;
use turnstream_model::event::{ApprovalOutcome, By, Outcome};
use turnstream_model::time::Time;
use turnstream_opencode_client::conversation::{Answer, Call, PromptAnswer};

#[test]
fn an_answer_that_never_arrived_is_given_again_when_the_server_still_asks() {
    let mut desk = Desk::new();
    desk.prompt(ONE);
    desk.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
    desk.begins(ONE, "msg_a", "prt_a");
    let mut ask =
        json!({"id": "per_1", "permission": "bash", "patterns": ["ls"], "metadata": {}, "always": []});
    desk.event("permission.asked", ask.clone());
    let approval = desk.state().approvals[0].approval.clone();
    desk.standalone.approve(&approval, ApprovalOutcome::AllowOnce, By::Client, Time(desk.now)).unwrap();
    desk.drain();
    let replies = |desk: &Desk| {
        let is_it = |call: &&Call| matches!(call, Call::Reply { key, reply, .. } if key.as_str() == "per_1" && reply == "once");
        desk.calls.iter().filter(is_it).count()
    };
    assert_eq!(replies(&desk), 1);
    // The request broke off, and nothing more comes.
    ask["sessionID"] = json!(SESSION);
    let messages = json!([{"info": answer_info("msg_a", ONE, json!({})), "parts": []}]);
    let busy = snapshot(json!({"busy": true, "messages": messages, "permissions": [ask]}));
    desk.pass(16_000, &busy);
    assert_eq!(replies(&desk), 2);
    assert_eq!(desk.state().approvals.len(), 1, "nobody is asked twice");
    desk.ends(ONE, "msg_a", "prt_a");
    assert_eq!(desk.outcomes(), [Some(Outcome::Completed)]);
}
