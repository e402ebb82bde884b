//! Requests for a person that are open at the editor: permissions and questions.

use agent_client_protocol_schema::v1::{
    CreateElicitationResponse, ElicitationAction, ElicitationContentValue, PermissionOptionKind,
    RequestPermissionOutcome, RequestPermissionResponse,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::HashMap;
use turnstream_client::{Answer, Outcome};
use turnstream_dialects::acp::Permission;
use turnstream_model::event::Question;

/// The open requests, by the id of their approval or question.
#[derive(Debug, Default)]
pub(super) struct Asks(HashMap<String, Ask>);

/// A request at the editor.
#[derive(Debug)]
pub(super) enum Ask {
    /// `session/request_permission`
    Permission(Box<Permission>),
    /// `elicitation/create`
    Form(Vec<Question>),
    /// `_turnstream/question`
    Question,
}

/// What the gateway is told.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    Approval {
        outcome: Outcome,
        option: Option<String>,
    },
    Question(Answer),
    /// Nothing: the ask stays open for other clients. Says why.
    Nothing(String),
}

impl Asks {
    pub(super) fn open(&mut self, id: &str, ask: Ask) {
        self.0.insert(id.to_owned(), ask);
    }

    /// Whether the request was still open. The editor's answer comes too late from now on.
    pub(super) fn close(&mut self, id: &str) -> Option<Ask> {
        self.0.remove(id)
    }

    pub(super) fn is_open(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// Takes the ids of requests that are not among these.
    pub(super) fn close_others(&mut self, still_open: &[String]) -> Vec<String> {
        let others: Vec<String> = self.0.keys().filter(|id| !still_open.contains(id)).cloned().collect();
        others.iter().for_each(|id| drop(self.0.remove(id)));
        others
    }
}

impl Ask {
    /// What the editor's answer means. `is_cancelled`: the editor has cancelled its own turn, so that
    /// `cancelled` is no decision about the ask.
    pub(super) fn reply(self, answer: Result<Value, Value>, is_cancelled: bool) -> Reply {
        let result = match answer {
            Ok(result) => result,
            Err(error) => return Reply::Nothing(format!("the editor answered with an error: {error}")),
        };
        let read = match self {
            Self::Permission(permission) => {
                RequestPermissionResponse::deserialize(&result).map(|response| match response.outcome {
                    RequestPermissionOutcome::Selected(selected) => {
                        chosen(&permission, &selected.option_id.0)
                    }
                    _ if is_cancelled => Reply::Nothing("the turn is being cancelled".to_owned()),
                    _ => Reply::Approval { outcome: Outcome::RejectAndStop, option: None },
                })
            }
            Self::Form(questions) => {
                CreateElicitationResponse::deserialize(&result).map(|response| match response.action {
                    ElicitationAction::Accept(accepted) => {
                        let content = accepted.content.unwrap_or_default();
                        Reply::Question(Answer::Given(filled_in(&questions, &content)))
                    }
                    _ if is_cancelled => Reply::Nothing("the turn is being cancelled".to_owned()),
                    _ => Reply::Question(Answer::Rejected),
                })
            }
            Self::Question => Ok(Reply::Question(match &result["answers"] {
                Value::Object(answers) => Answer::Given(answers.clone()),
                _ => Answer::Rejected,
            })),
        };
        read.unwrap_or_else(|error| Reply::Nothing(format!("the editor's answer has no meaning: {error}")))
    }
}

/// The answer to an approval for one of its options.
fn chosen(permission: &Permission, id: &str) -> Reply {
    let Some(option) = permission.options.iter().find(|option| &*option.option_id.0 == id) else {
        return Reply::Nothing(format!("the editor chose {id:?}, which was not offered"));
    };
    let outcome = match option.kind {
        PermissionOptionKind::AllowOnce => Outcome::AllowOnce,
        PermissionOptionKind::AllowAlways => Outcome::AllowAlways,
        PermissionOptionKind::RejectOnce | PermissionOptionKind::RejectAlways => Outcome::Reject,
        // A kind of a later version: nothing is allowed that nobody understood.
        _ => Outcome::Reject,
    };
    let option = permission.is_offered_by_agent.then(|| id.to_owned());
    Reply::Approval { outcome, option }
}

/// The fields of a form as answers: those of each question, and its free text.
fn filled_in(
    questions: &[Question],
    content: &std::collections::BTreeMap<String, ElicitationContentValue>,
) -> Map<String, Value> {
    let words = |field: &str| -> Vec<Value> {
        match content.get(field) {
            Some(ElicitationContentValue::String(text)) if text.is_empty() => Vec::new(),
            Some(ElicitationContentValue::String(text)) => vec![text.clone().into()],
            Some(ElicitationContentValue::StringArray(texts)) => {
                texts.iter().map(|text| text.clone().into()).collect()
            }
            Some(ElicitationContentValue::Integer(number)) => vec![number.to_string().into()],
            Some(ElicitationContentValue::Number(number)) => vec![number.to_string().into()],
            Some(ElicitationContentValue::Boolean(flag)) => vec![flag.to_string().into()],
            Some(_) | None => Vec::new(),
        }
    };
    let answer = |asked: &Question| {
        let mut given = words(&asked.id);
        let other = words(&format!("{}.other", asked.id));
        if !other.is_empty() && !asked.multiple {
            given.clear();
        }
        given.extend(other);
        (asked.id.clone(), Value::from(given))
    };
    questions.iter().map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::{Ask, Reply};
    use serde_json::json;
    use turnstream_client::{Answer, Outcome};
    use turnstream_dialects::acp::{AcpEvent, Encoder};
    use turnstream_model::event::Event;

    fn ask(body: &str) -> Ask {
        let line = format!(r#"{{"seq":1,"time":1,"turn":"t1",{body}}}"#);
        let mut out = Vec::new();
        Encoder::new().encode(&Event::from_json(&line).unwrap(), &mut out);
        match out.remove(0) {
            AcpEvent::Permission(permission) => Ask::Permission(permission),
            AcpEvent::Question(question) => Ask::Form(question.questions),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_option_is_named_only_to_an_agent_that_offered_it() {
        let selected = |id: &str| Ok(json!({"outcome": {"outcome": "selected", "optionId": id}}));
        let own = r#""type":"approval.requested","approval":"q1","options":[{"id":"yes","kind":"allow_always","name":"Y"}]"#;
        let none = r#""type":"approval.requested","approval":"q1""#;
        assert_eq!(
            ask(own).reply(selected("yes"), false),
            Reply::Approval { outcome: Outcome::AllowAlways, option: Some("yes".to_owned()) }
        );
        assert_eq!(
            ask(none).reply(selected("reject"), false),
            Reply::Approval { outcome: Outcome::Reject, option: None }
        );
        assert!(matches!(ask(none).reply(selected("maybe"), false), Reply::Nothing(_)));
    }

    #[test]
    fn a_dismissed_permission_stops_the_turn_unless_the_editor_does_so_itself() {
        let body = r#""type":"approval.requested","approval":"q1""#;
        let dismissed = || Ok(json!({"outcome": {"outcome": "cancelled"}}));
        assert_eq!(
            ask(body).reply(dismissed(), false),
            Reply::Approval { outcome: Outcome::RejectAndStop, option: None }
        );
        assert!(matches!(ask(body).reply(dismissed(), true), Reply::Nothing(_)));
        assert!(matches!(ask(body).reply(Err(json!({"code": -32601})), false), Reply::Nothing(_)));
    }

    #[test]
    fn a_form_becomes_one_answer_for_each_question() {
        let body = r#""type":"question.asked","question":"u1","questions":[
            {"id":"0","text":"DB?","options":[{"label":"PG"}],"multiple":false,"custom":true},
            {"id":"1","text":"Which?","options":[{"label":"a"},{"label":"b"}],"multiple":true,"custom":true},
            {"id":"2","text":"Why?","options":[],"multiple":false,"custom":true}]"#
            .replace('\n', "");
        let given = json!({
            "action": "accept",
            "content": {"0": "PG", "0.other": "SQLite", "1": ["a"], "1.other": "c", "2": "because"},
        });
        let answers = json!({"0": ["SQLite"], "1": ["a", "c"], "2": ["because"]});
        let answers = answers.as_object().unwrap().clone();
        assert_eq!(ask(&body).reply(Ok(given), false), Reply::Question(Answer::Given(answers)));
        let declined = Ok(json!({"action": "decline"}));
        assert_eq!(ask(&body).reply(declined, false), Reply::Question(Answer::Rejected));
    }
}
