//! Permissions and questions: answered by a person, and by rule.

use crate::lab::Lab;
use crate::seen::Seen;
use crate::support::ANSWER;
use serde_json::{Value, json};
use turnstream_dialects::acp::AcpEvent;
use turnstream_fake_provider::{Completion, Part, Step};
use turnstream_model::event::{ApprovalOutcome, Permissions};
use turnstream_opencode_client::{SessionRef, TurnSettings};

fn script() -> Vec<Step> {
    let touch = |name: &str| {
        let command = format!("touch {name}");
        let call = Part::tool_call("bash", json!({"command": command, "description": "As scripted"}));
        [Step::new(Completion::of([call])), Step::text(ANSWER)].map(|step| step.for_user_text(name))
    };
    let question = json!({"question": "Tea or coffee?", "header": "Drink", "options": [
        {"label": "Tea", "description": "Hot"}, {"label": "Coffee", "description": "Hotter"},
    ]});
    let ask = |name: &str| {
        let call = Part::tool_call("question", json!({"questions": [question.clone()]}));
        [Step::new(Completion::of([call])), Step::text(ANSWER)].map(|step| step.for_user_text(name))
    };
    let touched = ["once.txt", "rejected.txt", "allowed.txt", "denied.txt"].map(touch);
    touched.into_iter().chain(["Offer tea", "Offer by rule"].map(ask)).flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn asks_are_answered_once_and_the_turn_goes_on_or_stops_there() {
    let lab = Lab::start(script()).await;
    let asking = lab.session_with(&json!({"permission": {"bash": "ask"}})).await;
    tokio::join!(
        a_permission_that_is_given_once(&lab, &asking),
        a_permission_that_is_refused_is_no_plain_success(&lab, &asking),
        a_permission_that_is_given_by_rule_is_told_of(&lab, &asking),
        a_permission_that_is_refused_by_rule(&lab, &asking),
        a_question_that_a_person_answers(&lab),
        a_question_that_is_declined_by_rule(&lab),
    );
}

fn by_rule(permissions: Permissions) -> TurnSettings {
    TurnSettings { permissions, ..TurnSettings::default() }
}

fn exists(session: &SessionRef, name: &str) -> bool {
    session.directory.as_path().join(name).exists()
}

/// Sends it, answers the one ask that comes, and watches it to its end.
async fn answered(lab: &Lab, session: &SessionRef, name: &str, outcome: ApprovalOutcome) -> Seen {
    let mut watch = lab.ask(session, name);
    let asked = watch.until(|event| matches!(event, AcpEvent::Permission(_))).await.clone();
    let AcpEvent::Permission(asked) = asked else { panic!("{asked:?}") };
    assert!(!exists(session, name), "nothing is done before the answer");
    let options: Vec<&str> = asked.options.iter().map(|option| &*option.option_id.0).collect();
    assert_eq!(options, ["once", "always", "reject"]);
    watch.turn.approve(asked.approval.clone(), outcome);
    // The second answer is too late and does no harm.
    watch.turn.approve(asked.approval, ApprovalOutcome::Reject);
    watch.ended().await
}

async fn a_permission_that_is_given_once(lab: &Lab, asking: &SessionRef) {
    let session = lab.session_beside(asking).await;
    let seen = answered(lab, &session, "once.txt", ApprovalOutcome::AllowOnce).await;
    assert_eq!((seen.text().as_str(), seen.end().as_str(), seen.open_asks()), (ANSWER, "end_turn", 0));
    assert_eq!(seen.call_lines(), ["execute | Run touch once.txt | completed"]);
    assert!(exists(&session, "once.txt"));
}

async fn a_permission_that_is_refused_is_no_plain_success(lab: &Lab, asking: &SessionRef) {
    let session = lab.session_beside(asking).await;
    let seen = answered(lab, &session, "rejected.txt", ApprovalOutcome::Reject).await;
    assert_eq!((seen.text().as_str(), seen.end().as_str(), seen.open_asks()), ("", "cancelled", 0));
    assert_eq!(seen.ours()["stopReason"], "rejected");
    assert_eq!(seen.call_lines(), ["execute | Run touch rejected.txt | failed"]);
    assert!(!exists(&session, "rejected.txt"));
    assert_eq!((lab.model_calls("rejected.txt"), lab.aborts(&session)), (1, 0));
}

async fn a_permission_that_is_given_by_rule_is_told_of(lab: &Lab, asking: &SessionRef) {
    let session = lab.session_beside(asking).await;
    let seen = lab.send(&session, "allowed.txt", by_rule(Permissions::Allow)).ended().await;
    assert_eq!((seen.text().as_str(), seen.end().as_str(), seen.open_asks()), (ANSWER, "end_turn", 0));
    assert_eq!(seen.notices(), ["unexpected_permission"]);
    let said = seen.events.iter().find_map(|event| match event {
        AcpEvent::Notice(notice) => Some(notice.message.as_str()),
        _ => None,
    });
    assert!(said.unwrap().contains("bash: touch allowed.txt"), "{said:?}");
    assert!(exists(&session, "allowed.txt"));
}

async fn a_permission_that_is_refused_by_rule(lab: &Lab, asking: &SessionRef) {
    let session = lab.session_beside(asking).await;
    let seen = lab.send(&session, "denied.txt", by_rule(Permissions::Deny)).ended().await;
    assert_eq!((seen.end().as_str(), seen.open_asks()), ("cancelled", 0));
    assert_eq!(seen.ours()["stopReason"], "rejected");
    assert!(!exists(&session, "denied.txt"));
    assert_eq!(lab.asks(&session).await, 0);
}

async fn a_question_that_a_person_answers(lab: &Lab) {
    let session = lab.session().await;
    let mut watch = lab.ask(&session, "Offer tea");
    let asked = watch.until(|event| matches!(event, AcpEvent::Question(_))).await.clone();
    let AcpEvent::Question(asked) = asked else { panic!("{asked:?}") };
    let [question] = &asked.questions[..] else { panic!("{asked:?}") };
    assert_eq!(question.text, "Tea or coffee?");
    let answers = [(question.id.clone(), Value::from(vec!["Tea"]))].into_iter().collect();
    watch.turn.answer(asked.question, Some(answers));
    let seen = watch.ended().await;
    assert_eq!((seen.text().as_str(), seen.end().as_str(), seen.open_asks()), (ANSWER, "end_turn", 0));
    let told = lab.provider.calls().into_iter().rfind(|call| call.asked.user_text.contains("Offer tea"));
    let history = told.unwrap().body["messages"].to_string();
    assert!(history.contains("Tea or coffee?") && history.contains("=\\\"Tea\\\""), "{history}");
}

async fn a_question_that_is_declined_by_rule(lab: &Lab) {
    let session = lab.session().await;
    let seen = lab.send(&session, "Offer by rule", by_rule(Permissions::Allow)).ended().await;
    assert_eq!((seen.end().as_str(), seen.open_asks()), ("cancelled", 0));
    assert_eq!(seen.ours()["stopReason"], "rejected");
    assert_eq!(lab.asks(&session).await, 0);
    assert_eq!(lab.model_calls("Offer by rule"), 1);
}
