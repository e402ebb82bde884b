//! Finds a session by the unique beginning of its id.

use super::{Client, ClientError, segment};
use crate::escape::{Safe, Untrusted, safe};
use crate::record::Record;
use serde_json::Value;

/// The prefix of every id. It does not have to be typed.
const COMMON: &str = "ses_";
/// How many candidates are listed.
const LISTED: usize = 10;
/// The width of a title in the list.
const WIDEST: usize = 100;

impl Client {
    /// The session with this id, or the only one whose id begins with it.
    pub(crate) async fn find_session(&self, asked: &str) -> Result<Value, ClientError> {
        if asked.trim().is_empty() {
            let told = safe!["the id of the session is empty; `turnstream sessions` lists those there are"];
            return Err(unknown(told));
        }
        match self.get(&format!("/v1/sessions/{}", segment(asked))).await {
            Err(error) if error.kind() == Some("unknown-session") => {}
            answer => return answer,
        }
        let listed = self.get("/v1/sessions").await?;
        let sessions = listed["sessions"].as_array().map(Vec::as_slice).unwrap_or_default();
        pick(sessions, asked).cloned()
    }

    /// The full id of that session.
    pub(crate) async fn session_id(&self, asked: &str) -> Result<String, ClientError> {
        let session = self.find_session(asked).await?;
        Ok(session["id"].as_str().unwrap_or_default().to_owned())
    }
}

fn pick<'a>(sessions: &'a [Value], asked: &str) -> Result<&'a Value, ClientError> {
    let begins = |session: &&Value| {
        let id = session["id"].as_str().unwrap_or_default();
        id.starts_with(asked) || id.strip_prefix(COMMON).is_some_and(|rest| rest.starts_with(asked))
    };
    let found: Vec<&Value> = sessions.iter().filter(begins).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => {
            let asked = Untrusted(asked);
            Err(unknown(safe![
                "there is no session ",
                asked,
                "; `turnstream sessions` lists those there are"
            ]))
        }
        several => {
            let line = |session: &&Value| {
                let session = Record(session);
                let about = session.some_text("title").unwrap_or_else(|| session.text("cwd"));
                safe!["\n  ", session.text("id"), "  ", about.preview(WIDEST)]
            };
            let lines: Safe = several.iter().take(LISTED).map(line).collect();
            let more = several.len().saturating_sub(LISTED);
            let rest = if more > 0 { safe!["\n  and ", more, " more"] } else { safe![] };
            let (count, asked) = (several.len(), Untrusted(asked));
            let detail = safe![count, " sessions begin with ", asked, "; type more of the id:", lines, rest];
            Err(ClientError::Refused { kind: "ambiguous-session".to_owned(), detail, may_pass: false })
        }
    }
}

fn unknown(detail: Safe) -> ClientError {
    ClientError::Refused { kind: "unknown-session".to_owned(), detail, may_pass: false }
}

#[cfg(test)]
mod tests {
    use super::pick;
    use serde_json::{Value, json};

    #[test]
    fn a_beginning_is_enough_while_only_one_has_it() {
        let sessions = [
            json!({"id": "ses_ab12", "cwd": "/w"}),
            json!({"id": "ses_ab34", "cwd": "/w", "title": "Tidy"}),
            json!({"id": "other", "cwd": "/w"}),
        ];
        let id = |found: &Value| found["id"].as_str().map(str::to_owned);
        for (asked, wanted) in [("ses_ab1", "ses_ab12"), ("ab3", "ses_ab34"), ("o", "other")] {
            assert_eq!(id(pick(&sessions, asked).unwrap()).as_deref(), Some(wanted));
        }
        let several = pick(&sessions, "ab").unwrap_err();
        assert_eq!(several.kind(), Some("ambiguous-session"));
        let told = several.to_string();
        assert!(told.ends_with("more of the id:\n  ses_ab12  /w\n  ses_ab34  Tidy"), "{told}");
        let sessions = [json!({"id": "ab1", "title": "t\nturnstream: all is deleted"}), json!({"id": "ab2"})];
        let told = pick(&sessions, "ab").unwrap_err().to_string();
        assert!(told.contains(r"ab1  t\nturnstream: all is deleted"), "{told}");
        assert_eq!(pick(&sessions, "b12").unwrap_err().kind(), Some("unknown-session"));
    }
}
