//! Problems of a gateway as errors of JSON-RPC.

use crate::rpc::INVALID_PARAMS;
use agent_client_protocol_schema::v1::Error;
use serde_json::json;
use turnstream_client::ClientError;

/// The editor must authenticate first.
const AUTH_REQUIRED: i32 = -32000;
/// There is no such session.
const NOT_FOUND: i32 = -32002;
/// Anything else.
pub(crate) const INTERNAL: i32 = -32603;

/// The error for a request that the gateway refused, or that it did not answer.
pub(crate) fn error(error: &ClientError) -> Error {
    match error {
        ClientError::Refused(problem) => {
            let (code, advice) = code(&problem.kind);
            let data = json!({"problem": problem.kind, "status": problem.status});
            Error::new(code, format!("{}{advice}", problem.reason())).data(data)
        }
        ClientError::Unreachable { .. } => {
            Error::new(INTERNAL, error.to_string()).data(json!({"class": "unreachable"}))
        }
        ClientError::Address(_) | ClientError::Odd { .. } => Error::new(INTERNAL, error.to_string()),
    }
}

/// The session is not open on this connection.
pub(crate) fn not_open(session: &str) -> Error {
    Error::new(
        NOT_FOUND,
        format!("the session {session} is not open here; session/load or session/resume opens it"),
    )
}

/// The code of a problem, and advice for a person in an editor.
fn code(kind: &str) -> (i32, &'static str) {
    match kind {
        "unauthorized" | "forbidden" => (
            AUTH_REQUIRED,
            "; `turnstream token` prints the token where the gateway runs; give it to `turnstream acp` with \
             TURNSTREAM_TOKEN",
        ),
        "unknown-session" => (NOT_FOUND, ""),
        "agent-forgot" => (
            INVALID_PARAMS,
            "; `turnstream resume SESSION --as transcript` hands the conversation over from the log",
        ),
        "mcp-refused" => (INVALID_PARAMS, "; `turnstream acp --without-mcp` leaves them out"),
        "outside-roots" => (INVALID_PARAMS, "; start the gateway with another --root"),
        kind if kind.starts_with("bad-") => (INVALID_PARAMS, ""),
        "unknown-agent" | "unknown-model" | "no-directory" | "too-long" | "too-large" | "key-reused"
        | "session-ended" => (INVALID_PARAMS, ""),
        _ => (INTERNAL, ""),
    }
}
