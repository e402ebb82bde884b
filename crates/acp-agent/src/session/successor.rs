//! The agent of a gateway's session never changes. When an editor chooses another agent before the first
//! prompt, a new session takes the place of the first one, which stays empty. The editor keeps the id that it
//! knows. The log names the new session, so that the choice survives this process.

use serde_json::Value;
use turnstream_client::{Client, segment};

/// How many changes are followed.
const CHANGES: usize = 16;
/// A session with more events has a conversation of its own.
const FEW_EVENTS: u64 = 30;

/// The beginning of the key of a session that took the place of another one.
fn key_prefix(session: &str) -> String {
    format!("acp-agent/{session}/")
}

/// A key for a session that takes the place of this one.
pub(super) fn new_key(session: &str) -> String {
    turnstream_client::new_key(&key_prefix(session))
}

/// The session that took the place of this one.
pub(crate) async fn successor(client: &Client, session: &Value) -> Option<String> {
    let id = session["id"].as_str()?;
    if session["head"].as_u64()? > FEW_EVENTS {
        return None;
    }
    let prefix = key_prefix(id);
    for other in session["handed_over"].as_array()?.iter().rev().filter_map(Value::as_str) {
        let path = format!("/v1/sessions/{}/log?limit=1", segment(other));
        // A session that is gone takes nobody's place.
        let Ok(page) = client.get(&path).await else { continue };
        if page["events"][0]["key"].as_str().is_some_and(|key| key.starts_with(&prefix)) {
            return Some(other.to_owned());
        }
    }
    None
}

/// The session that an editor means by this id.
pub(super) async fn last(client: &Client, session: Value) -> Result<Value, turnstream_client::ClientError> {
    let mut session = session;
    for _ in 0..CHANGES {
        match successor(client, &session).await {
            Some(next) => session = client.session(&next).await?,
            None => break,
        }
    }
    Ok(session)
}

/// Deletes the session that an editor means by this id, and those whose place it took.
pub(crate) async fn delete(client: &Client, id: &str) -> Result<(), turnstream_client::ClientError> {
    let mut all = vec![id.to_owned()];
    let mut session = client.session(id).await?;
    for _ in 0..CHANGES {
        let Some(next) = successor(client, &session).await else { break };
        session = client.session(&next).await?;
        all.push(next);
    }
    // The first one last: it leads to the others.
    for session in all.iter().rev() {
        client.delete_session(session).await?;
    }
    Ok(())
}
