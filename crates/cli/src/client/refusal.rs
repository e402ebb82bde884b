//! Problems that a gateway answers, in words for the command line: commands and flags instead of routes and
//! headers.

use super::ClientError;
use crate::escape::{Untrusted, safe};
use reqwest::StatusCode;
use serde_json::Value;

/// Reads the problem in an answer. Its `reason`, if any, is the text without advice for HTTP clients.
pub(super) fn read(base: &str, status: StatusCode, body: &[u8]) -> ClientError {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    let kind = problem["type"].as_str().and_then(|kind| kind.strip_prefix("urn:turnstream:problem:"));
    let said = problem["reason"].as_str().or_else(|| problem["detail"].as_str());
    match (kind, said) {
        (Some(kind), Some(said)) => {
            let advice = advice(kind).map(|advice| safe!["; ", advice]).unwrap_or_default();
            ClientError::Refused { kind: kind.to_owned(), detail: safe![Untrusted(said), advice] }
        }
        _ => ClientError::Odd { url: base.to_owned(), status },
    }
}

/// The advice for the command line.
fn advice(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "unauthorized" => {
            "`turnstream token` prints it where the gateway runs; give it with TURNSTREAM_TOKEN or --token"
        }
        "foreign-host" => {
            "use --url with one of these, or set public_url in the configuration of the gateway"
        }
        "outside-roots" => "choose one with --cwd, or start the gateway with another --root",
        "unknown-session" => "`turnstream sessions` lists those there are",
        "agent-forgot" => {
            "`turnstream resume SESSION --as transcript` hands the conversation over from the log, `--as fresh` begins \
             anew"
        }
        "session-exists" => "`--new-id` imports it beside that one",
        "session-ended" => "its log can still be read; `turnstream run` without --session makes a new one",
        "nothing-settled" => "`turnstream export --wait` waits until that is over",
        "bad-cursor" => "leave --after out to get everything",
        "unknown-route" | "wrong-method" => "the gateway is of another version than this turnstream",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::read;
    use reqwest::StatusCode;
    use serde_json::json;

    #[test]
    fn a_forgotten_session_is_told_in_commands_and_not_in_routes() {
        let problem = json!({
            "type": "urn:turnstream:problem:agent-forgot",
            "reason": "agent \"claude\" no longer has the conversation",
            "detail": "agent \"claude\" no longer has the conversation; choose with POST …/resume",
        });
        let error = read("http://127.0.0.1", StatusCode::CONFLICT, problem.to_string().as_bytes());
        assert_eq!(
            error.to_string(),
            "agent \"claude\" no longer has the conversation; `turnstream resume SESSION --as transcript` hands the \
             conversation over from the log, `--as fresh` begins anew"
        );
    }
}
