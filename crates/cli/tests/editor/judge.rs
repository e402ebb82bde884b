//! The protocol's published JSON schema, for every message between an editor and `turnstream acp`.

use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The definitions of a method: its parameters, and its result if it is a request.
const METHODS: &[(&str, &str, Option<&str>)] = &[
    ("initialize", "InitializeRequest", Some("InitializeResponse")),
    ("authenticate", "AuthenticateRequest", Some("AuthenticateResponse")),
    ("session/new", "NewSessionRequest", Some("NewSessionResponse")),
    ("session/load", "LoadSessionRequest", Some("LoadSessionResponse")),
    ("session/resume", "ResumeSessionRequest", Some("ResumeSessionResponse")),
    ("session/list", "ListSessionsRequest", Some("ListSessionsResponse")),
    ("session/close", "CloseSessionRequest", Some("CloseSessionResponse")),
    ("session/delete", "DeleteSessionRequest", Some("DeleteSessionResponse")),
    ("session/set_mode", "SetSessionModeRequest", Some("SetSessionModeResponse")),
    ("session/set_config_option", "SetSessionConfigOptionRequest", Some("SetSessionConfigOptionResponse")),
    ("session/prompt", "PromptRequest", Some("PromptResponse")),
    ("session/cancel", "CancelNotification", None),
    ("session/update", "SessionNotification", None),
    ("session/request_permission", "RequestPermissionRequest", Some("RequestPermissionResponse")),
    ("elicitation/create", "CreateElicitationRequest", Some("CreateElicitationResponse")),
    ("$/cancel_request", "CancelRequestNotification", None),
];

/// One conversation: it knows which requests of each side are open.
#[derive(Default)]
pub(crate) struct Judge {
    open: HashMap<(Side, String), String>,
}

/// Who sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    Editor,
    Agent,
}

fn validators() -> &'static HashMap<&'static str, Validator> {
    static VALIDATORS: OnceLock<HashMap<&'static str, Validator>> = OnceLock::new();
    VALIDATORS.get_or_init(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/acp/schema.v1.json");
        let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let compile = |name: &'static str| {
            assert!(schema["$defs"][name].is_object(), "the schema has no {name}");
            let one = json!({
                "$schema": schema["$schema"], "$defs": schema["$defs"], "$ref": format!("#/$defs/{name}")
            });
            (name, jsonschema::validator_for(&one).unwrap())
        };
        let names = METHODS.iter().flat_map(|(_, params, result)| [Some(*params), *result]);
        names.flatten().chain(["Error", "RequestId"]).map(compile).collect()
    })
}

fn fits(name: &str, value: &Value, line: &str) {
    if let Err(error) = validators()[name].validate(value) {
        panic!("not a {name}: {error}\n{line}");
    }
}

impl Judge {
    /// Panics unless the message is one of the protocol at this place of the conversation.
    #[track_caller]
    pub(crate) fn check(&mut self, side: Side, message: &Value) {
        let line = message.to_string();
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        if let Some(id) = message.get("id") {
            fits("RequestId", id, &line);
        }
        let other = if side == Side::Editor { Side::Agent } else { Side::Editor };
        let Some(method) = message["method"].as_str() else {
            let asked = self.open.remove(&(other, message["id"].to_string()));
            match (message.get("result"), message.get("error")) {
                (Some(result), None) => {
                    let asked = asked.unwrap_or_else(|| panic!("nobody asked, or it was answered: {line}"));
                    let entry = METHODS.iter().find(|(known, ..)| *known == asked);
                    if let Some((_, _, Some(name))) = entry {
                        fits(name, result, &line);
                    }
                }
                (None, Some(error)) => {
                    fits("Error", error, &line);
                    assert!(asked.is_some() || message["id"].is_null(), "nobody asked: {line}");
                }
                _ => panic!("a response has a result or an error: {line}"),
            }
            return;
        };
        if let Some(id) = message.get("id") {
            let known = self.open.insert((side, id.to_string()), method.to_owned());
            assert_eq!(known, None, "the id of an open request is used again: {line}");
        }
        match METHODS.iter().find(|(known, ..)| *known == method) {
            Some((_, name, _)) => fits(name, &message["params"], &line),
            None if side == Side::Agent => {
                assert!(method.starts_with("_turnstream/"), "{method} is not of the protocol: {line}");
            }
            None => {}
        }
    }
}
