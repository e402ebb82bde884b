//! The protocol's published JSON schema as a judge. It knows nothing of our types.

use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::OnceLock;
use turnstream_dialects::acp::AcpEvent;
use turnstream_dialects::acp::schema::RequestId;

pub(crate) struct Judge(HashMap<&'static str, Validator>);

/// Which definition a method's params have to fit.
const METHODS: &[(&str, &str)] = &[
    ("session/update", "SessionNotification"),
    ("session/request_permission", "RequestPermissionRequest"),
    ("elicitation/create", "CreateElicitationRequest"),
    ("$/cancel_request", "CancelRequestNotification"),
];

impl Judge {
    pub(crate) fn get() -> &'static Self {
        static JUDGE: OnceLock<Judge> = OnceLock::new();
        JUDGE.get_or_init(|| {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/acp/schema.v1.json");
            let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            let compile = |name: &'static str| {
                let one = json!({
                    "$schema": schema["$schema"], "$defs": schema["$defs"], "$ref": format!("#/$defs/{name}")
                });
                assert!(schema["$defs"][name].is_object(), "the schema has no {name}");
                (name, jsonschema::validator_for(&one).unwrap())
            };
            let names = METHODS.iter().map(|(_, name)| *name).chain(["PromptResponse", "Error", "RequestId"]);
            Judge(names.map(compile).collect())
        })
    }

    /// Panics unless every form of this event is the protocol's; gives its message.
    #[track_caller]
    pub(crate) fn check(&self, event: &AcpEvent) -> String {
        let message = event.to_json("ses_1");
        self.message(&message);
        let mut response = Vec::new();
        if event.write_response(&RequestId::Number(7), &mut response) {
            self.message(std::str::from_utf8(&response).unwrap());
        }
        if let AcpEvent::Question(question) = event {
            let mut form = Vec::new();
            question.write_elicitation("ses_1", &mut form);
            self.message(std::str::from_utf8(&form).unwrap());
        }
        if let Some(update) = event.clone().into_update() {
            // What is written by hand is what the protocol's own types write.
            let typed = serde_json::to_value(update).unwrap();
            let written: Value = serde_json::from_str(&message).unwrap();
            assert_eq!(written["params"]["update"], typed);
        }
        message
    }

    #[track_caller]
    fn message(&self, line: &str) {
        if let Err(problem) = self.judge(line) {
            panic!("{problem}\n{line}");
        }
    }

    pub(crate) fn judge(&self, line: &str) -> Result<(), String> {
        if line.contains('\n') {
            return Err("a message is one line".into());
        }
        let message: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if message["jsonrpc"] != "2.0" {
            return Err("not JSON-RPC 2.0".into());
        }
        if let Some(id) = message.get("id") {
            self.fits("RequestId", id)?;
        }
        let Some(method) = message.get("method") else {
            return match (message.get("result"), message.get("error")) {
                (Some(result), None) => self.fits("PromptResponse", result),
                (None, Some(error)) => self.fits("Error", error),
                _ => Err("a response has a result or an error".into()),
            };
        };
        let (method, params) = (method.as_str().unwrap_or_default(), &message["params"]);
        if let Some((_, name)) = METHODS.iter().find(|(known, _)| *known == method) {
            return self.fits(name, params);
        }
        if !method.starts_with("_turnstream/") || !params["sessionId"].is_string() {
            return Err(format!("{method} is neither the protocol's nor a well-formed extension"));
        }
        Ok(())
    }

    fn fits(&self, name: &str, value: &Value) -> Result<(), String> {
        self.0[name].validate(value).map_err(|error| format!("not a {name}: {error}"))
    }
}

#[test]
fn the_judge_refuses_what_is_not_the_protocol() {
    let judge = Judge::get();
    let update = |update: Value| {
        let params = json!({"sessionId": "s", "update": update});
        json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string()
    };
    let good =
        update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}));
    assert_eq!(judge.judge(&good), Ok(()));
    for bad in [
        update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text"}})),
        update(json!({"sessionUpdate": "agent_message", "content": {"type": "text", "text": "a"}})),
        update(json!({"sessionUpdate": "tool_call", "toolCallId": "c"})),
        update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "done"})),
        update(json!({"sessionUpdate": "plan", "entries": [{"content": "a"}]})),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "rejected"}}).to_string(),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"message": "x"}}).to_string(),
        json!({"jsonrpc": "2.0", "method": "turnstream/status", "params": {"sessionId": "s"}}).to_string(),
        json!({"jsonrpc": "2.0", "id": "q", "method": "session/request_permission", "params": {"sessionId": "s"}})
            .to_string(),
    ] {
        assert!(judge.judge(&bad).is_err(), "{bad}");
    }
}
