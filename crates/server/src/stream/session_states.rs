//! The states of all sessions as an event stream.

use super::carrier::{closing, data_frame};
use super::heartbeat::HeartbeatTimer;
use super::open_streams::OpenStream;
use super::sse::alive;
use crate::closing::Closing;
use crate::params::Heartbeat;
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use serde_json::json;
use std::convert::Infallible;
use std::time::Duration;
use turnstream_gateway::{SessionEntry, SessionWatcher};

/// Sent after the first state of every session.
pub(super) const CAUGHT_UP: &str = r#"{"type":"stream","outcome":"caught_up"}"#;
/// How long changes are collected: of several changes of a session, only the last one is sent.
pub(super) const GATHER: Duration = Duration::from_millis(20);

struct StatesStream {
    watcher: SessionWatcher,
    closing: Closing,
    timer: HeartbeatTimer,
    heartbeat: Heartbeat,
    stage: Stage,
    /// Counts the stream as open.
    _open: OpenStream,
}

#[derive(PartialEq)]
enum Stage {
    First,
    Changes,
    Ended,
}

/// First every session, then those that change.
pub(crate) fn session_states_body(
    watcher: SessionWatcher,
    closing: Closing,
    heartbeat: Heartbeat,
    every: Duration,
    open: OpenStream,
) -> Body {
    let (timer, stage) = (HeartbeatTimer::new(every), Stage::First);
    let states = StatesStream { watcher, closing, timer, heartbeat, stage, _open: open };
    Body::from_stream(stream::unfold(states, |mut states| async move {
        let bytes = states.next().await?;
        Some((Ok::<_, Infallible>(bytes), states))
    }))
}

impl StatesStream {
    async fn next(&mut self) -> Option<Bytes> {
        if self.stage == Stage::Ended {
            return None;
        }
        let first = self.stage == Stage::First;
        if !first {
            tokio::time::sleep(GATHER).await;
        }
        let entries = tokio::select! {
            biased;
            () = self.closing.begun() => {
                self.stage = Stage::Ended;
                return Some(closing());
            }
            entries = self.watcher.next() => entries,
            () = self.timer.due() => {
                self.timer.sent();
                return Some(alive(self.heartbeat));
            }
        };
        self.timer.sent();
        let mut out = BytesMut::new();
        for entry in &entries {
            out.extend_from_slice(&data_frame("session.status", &status(entry)));
        }
        if first {
            self.stage = Stage::Changes;
            out.extend_from_slice(&data_frame("stream", CAUGHT_UP));
        }
        Some(out.freeze())
    }
}

pub(super) fn status(entry: &SessionEntry) -> String {
    let session = &entry.session;
    let mut status = json!({
        "type": "session.status",
        "session": entry.id,
        "status": session.status,
        "agent": session.agent,
        "cwd": session.cwd,
    });
    if let Some(title) = &session.title {
        status["title"] = json!(title);
    }
    if let Some(cost) = &session.cost {
        status["cost"] = json!(cost);
    }
    if let Some(last) = &session.last {
        status["last"] = json!(last);
    }
    if let Some(retry) = &session.retry {
        status["retry"] = json!(retry);
    }
    if let Some(ended) = &session.ended {
        status["ended"] = json!(ended);
    }
    status.to_string()
}
