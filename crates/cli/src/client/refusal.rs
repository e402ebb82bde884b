//! Problems that a gateway answers, in words for the command line: commands and flags instead of routes and
//! headers.

use crate::escape::{Safe, Untrusted, safe};
use turnstream_client::Problem;

/// The problem in words for the command line.
pub(super) fn words(problem: &Problem) -> Safe {
    let advice = advice(&problem.kind).map(|advice| safe!["; ", advice]).unwrap_or_default();
    safe![Untrusted(problem.reason()), advice]
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
    use super::words;
    use serde_json::json;
    use turnstream_client::Problem;

    #[test]
    fn a_forgotten_session_is_told_in_commands_and_not_in_routes() {
        let problem = Problem {
            kind: "agent-forgot".to_owned(),
            status: 409,
            reason: Some("agent \"claude\" no longer has the conversation".to_owned()),
            detail: "agent \"claude\" no longer has the conversation; choose with POST …/resume".to_owned(),
            members: json!({}),
        };
        assert_eq!(
            words(&problem).to_string(),
            "agent \"claude\" no longer has the conversation; `turnstream resume SESSION --as transcript` hands the \
             conversation over from the log, `--as fresh` begins anew"
        );
    }
}
