//! What both sides can do: `initialize`.

use crate::Options;
use crate::rpc::{self, INVALID_PARAMS};
use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AgentCapabilities, AuthMethod, AuthMethodAgent, ClientCapabilities, Error, Implementation,
    InitializeResponse, McpCapabilities, Meta, PromptCapabilities, SessionCapabilities,
    SessionCloseCapabilities, SessionDeleteCapabilities, SessionListCapabilities, SessionResumeCapabilities,
};
use serde_json::{Value, json};

/// The one way to authenticate: with the token of the gateway.
pub(crate) const GATEWAY_TOKEN: &str = "gateway-token";
/// Our key in `_meta`.
pub(crate) const KEY: &str = "turnstream";

/// What the editor announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Announced {
    /// It can show a form and return what a person filled in.
    pub(crate) forms: bool,
    /// It shows notices.
    pub(crate) notices: bool,
    /// It understands the methods `_turnstream/…`.
    pub(crate) extensions: bool,
}

/// Reads what the editor announced. Its version does not matter: ours is the only one that we speak, and it
/// decides whether it can use that.
pub(crate) fn announced(params: &Value) -> Result<Announced, Error> {
    if !params["protocolVersion"].is_u64() {
        let told = "the parameters of initialize: `protocolVersion` must be a whole number";
        return Err(Error::new(INVALID_PARAMS, told));
    }
    let client: ClientCapabilities = match &params["clientCapabilities"] {
        Value::Null => ClientCapabilities::default(),
        capabilities => rpc::params("initialize", capabilities)?,
    };
    Ok(Announced {
        forms: client.elicitation.is_some_and(|elicitation| elicitation.form.is_some()),
        notices: client.session.is_some_and(|session| session.notices.is_some()),
        extensions: client.meta.is_some_and(|meta| meta.contains_key(KEY)),
    })
}

/// The answer to `initialize`.
pub(crate) fn initialized(options: &Options) -> InitializeResponse {
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .delete(SessionDeleteCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new());
    // Whether an agent takes a block or a server is known when it gets one. A refusal says why.
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(PromptCapabilities::new().image(true).audio(true).embedded_context(true))
        .mcp_capabilities(McpCapabilities::new().http(true).sse(true))
        .session_capabilities(sessions)
        .meta(Meta::from_iter([(KEY.to_owned(), json!({"extensions": true}))]));
    let token = AuthMethodAgent::new(GATEWAY_TOKEN, "Token of the gateway").description(
        "Set TURNSTREAM_TOKEN for `turnstream acp`. `turnstream token` prints it where the gateway runs."
            .to_owned(),
    );
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .auth_methods(vec![AuthMethod::Agent(token)])
        .agent_info(Implementation::new("turnstream", options.version).title("Turnstream".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{Announced, announced};
    use serde_json::json;

    #[test]
    fn any_version_is_accepted_and_only_what_was_announced_is_used() {
        for version in [0, 1, 2, 65_535, 70_000] {
            assert_eq!(announced(&json!({"protocolVersion": version})).unwrap(), Announced::default());
        }
        let all = json!({
            "elicitation": {"form": {}}, "session": {"notices": {}}, "_meta": {"turnstream": {}}, "new": 1
        });
        let all = announced(&json!({"protocolVersion": 1, "clientCapabilities": all})).unwrap();
        assert_eq!(all, Announced { forms: true, notices: true, extensions: true });
        for bad in [json!({}), json!({"protocolVersion": "1"}), json!(null)] {
            assert!(announced(&bad).is_err());
        }
    }
}
