//! Messages to the editor. One task writes them, so that lines are never mixed.

use agent_client_protocol_schema::v1::{Error, RequestId};
use serde::Serialize;
use std::io;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How many pieces wait for the editor. Sessions that are behind it wait.
const WAITING: usize = 64;
/// Pieces are joined up to this size, to save system calls.
const JOINED: usize = 256 * 1024;

/// Where messages to the editor go. The order of one sender is kept.
#[derive(Clone, Debug)]
pub(crate) struct Output(mpsc::Sender<Vec<u8>>);

/// The editor does not read any more.
#[derive(Debug)]
pub(crate) struct EditorGone;

impl Output {
    /// Starts the task that writes. It ends when all senders are gone, or with the first error.
    pub(crate) fn start(
        mut sink: impl AsyncWrite + Unpin + Send + 'static,
    ) -> (Self, JoinHandle<io::Result<()>>) {
        let (sender, mut waiting) = mpsc::channel::<Vec<u8>>(WAITING);
        let writing = tokio::spawn(async move {
            while let Some(mut bytes) = waiting.recv().await {
                while bytes.len() < JOINED
                    && let Ok(more) = waiting.try_recv()
                {
                    bytes.extend_from_slice(&more);
                }
                sink.write_all(&bytes).await?;
                sink.flush().await?;
            }
            Ok(())
        });
        (Self(sender), writing)
    }

    /// Sends whole lines. Waits while the editor is behind.
    pub(crate) async fn send(&self, lines: Vec<u8>) -> Result<(), EditorGone> {
        if lines.is_empty() {
            return Ok(());
        }
        self.0.send(lines).await.map_err(|_| EditorGone)
    }

    /// Answers a request.
    pub(crate) async fn respond<T: Serialize>(
        &self,
        id: &RequestId,
        answer: Result<T, Error>,
    ) -> Result<(), EditorGone> {
        let mut line = Vec::new();
        write_response(id, &answer, &mut line);
        self.send(line).await
    }
}

/// Adds the answer to a request, with its line feed.
pub(crate) fn write_response<T: Serialize>(id: &RequestId, answer: &Result<T, Error>, out: &mut Vec<u8>) {
    #[derive(Serialize)]
    struct Response<'a, T> {
        jsonrpc: &'static str,
        id: &'a RequestId,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a T>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a Error>,
    }
    let (result, error) = match answer {
        Ok(result) => (Some(result), None),
        Err(error) => (None, Some(error)),
    };
    write_line(&Response { jsonrpc: "2.0", id, result, error }, out);
}

/// Adds one message, with its line feed.
pub(crate) fn write_line<T: Serialize>(message: &T, out: &mut Vec<u8>) {
    let written = serde_json::to_writer(&mut *out, message);
    debug_assert!(written.is_ok(), "a Vec takes every byte, and the keys of all maps are strings");
    out.push(b'\n');
}
