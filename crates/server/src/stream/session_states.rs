//! The states of all sessions as the body of a response.

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

/// Said when every session there was has been shown.
pub(super) const CAUGHT_UP: &str = r#"{"type":"stream","outcome":"caught_up"}"#;
/// How long changes are gathered: a session that changes often is shown as it is, not as it was in between.
pub(super) const GATHER: Duration = Duration::from_millis(20);

struct Board {
    reader: SessionWatcher,
    closing: Closing,
    pulse: HeartbeatTimer,
    heartbeat: Heartbeat,
    stage: Stage,
    /// It counts as open while it is there.
    _open: OpenStream,
}

#[derive(PartialEq)]
enum Stage {
    First,
    Changes,
    Ended,
}

/// First every session there is, then those that change.
pub(crate) fn session_states_body(
    reader: SessionWatcher,
    closing: Closing,
    heartbeat: Heartbeat,
    every: Duration,
    open: OpenStream,
) -> Body {
    let (pulse, stage) = (HeartbeatTimer::new(every), Stage::First);
    let board = Board { reader, closing, pulse, heartbeat, stage, _open: open };
    Body::from_stream(stream::unfold(board, |mut board| async move {
        let bytes = board.next().await?;
        Some((Ok::<_, Infallible>(bytes), board))
    }))
}

impl Board {
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
            entries = self.reader.next() => entries,
            () = self.pulse.due() => {
                self.pulse.said();
                return Some(alive(self.heartbeat));
            }
        };
        self.pulse.said();
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
    if let Some(retry) = &session.retry {
        status["retry"] = json!(retry);
    }
    if let Some(ended) = &session.ended {
        status["ended"] = json!(ended);
    }
    status.to_string()
}
