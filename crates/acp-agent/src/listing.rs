//! `session/list`: the sessions of the gateway, the last active first.

use crate::capabilities::KEY;
use crate::problem;
use crate::session::successor;
use agent_client_protocol_schema::v1::{Error, ListSessionsRequest, ListSessionsResponse, Meta, SessionInfo};
use serde_json::{Value, json};
use turnstream_client::{Client, segment};
use turnstream_model::time::Time;

/// How many sessions are on a page.
const PAGE: usize = 50;
/// How many pages of the gateway are read for one page with a filter.
const PAGES: usize = 40;

/// One page of sessions.
pub(crate) async fn list(
    client: &Client,
    request: &ListSessionsRequest,
) -> Result<ListSessionsResponse, Error> {
    let (mut sessions, mut cursor) = (Vec::new(), request.cursor.clone());
    for _ in 0..PAGES {
        let after = cursor.take().map(|cursor| format!("&after={}", segment(&cursor))).unwrap_or_default();
        let path = format!("/v1/sessions?limit={PAGE}&order=activity{after}");
        let page = client.get(&path).await.map_err(|error| problem::error(&error))?;
        for session in page["sessions"].as_array().into_iter().flatten() {
            let is_there =
                |cwd: &std::path::PathBuf| session["cwd"].as_str().map(AsRef::as_ref) == Some(cwd.as_path());
            if request.cwd.as_ref().is_none_or(is_there) && successor(client, session).await.is_none() {
                sessions.push(info(session));
            }
        }
        cursor = page["next"].as_str().map(str::to_owned);
        if cursor.is_none() || sessions.len() >= PAGE {
            break;
        }
    }
    Ok(ListSessionsResponse::new(sessions).next_cursor(cursor))
}

fn info(session: &Value) -> SessionInfo {
    let text = |member: &str| session[member].as_str().map(str::to_owned);
    let ours = json!({"agent": session["agent"], "status": session["status"]});
    let id = text("id").unwrap_or_default();
    let active = session["active"].as_u64().or_else(|| session["created"].as_u64());
    SessionInfo::new(id, text("cwd").unwrap_or_default())
        .title(text("title"))
        .updated_at(active.map(|active| iso_8601(Time(active))))
        .meta(Meta::from_iter([(KEY.to_owned(), ours)]))
}

/// For example `2026-11-16T10:30:05Z`.
fn iso_8601(time: Time) -> String {
    let (seconds, (year, month, day)) = (time.0 / 1_000, time.date());
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::iso_8601;
    use turnstream_model::time::Time;

    #[test]
    fn a_time_is_written_as_the_protocol_wants_it() {
        assert_eq!(iso_8601(Time(1_794_825_005_000)), "2026-11-16T10:30:05Z");
    }
}
