//! Export and import of sessions. The bodies are streamed.

use crate::error::unreachable;
use crate::{Client, ClientError, segment};
use reqwest::{Body, Method, Response};
use serde_json::Value;
use std::fs::File;
use std::time::Duration;
use tokio::time::timeout;

/// How long a gateway may take to start an export, in addition to the wait that was asked for.
const BEGIN: Duration = Duration::from_secs(60);
/// The longest pause in an export.
const PAUSE: Duration = Duration::from_secs(60);
/// How long an import may take.
const IMPORT: Duration = Duration::from_secs(60 * 60);

/// A running export.
#[derive(Debug)]
pub struct Download {
    client: Client,
    response: Response,
    /// The `seq` of its first event.
    pub first: u64,
    /// How many later events are not in it.
    pub left_out: u64,
}

impl Client {
    /// Starts the export of a session. Waits up to `wait` for open turns to end.
    pub async fn export(&self, session: &str, format: &str, wait: Duration) -> Result<Download, ClientError> {
        let seconds = wait.as_secs();
        let path = format!("/v1/sessions/{}/export?format={format}&wait={seconds}", segment(session));
        let sent = timeout(wait + BEGIN, self.request(Method::GET, &path)?.send()).await;
        let response = sent.map_err(|_| self.broken("it says nothing"))?;
        let response = response.map_err(|error| unreachable(&self.base, &error))?;
        let status = response.status();
        if !status.is_success() {
            let body = response.bytes().await.map_err(|error| unreachable(&self.base, &error))?;
            return Err(ClientError::read(&self.base, status.as_u16(), &body));
        }
        let number = |name: &str| response.headers().get(name)?.to_str().ok()?.parse().ok();
        match (number("turnstream-first"), number("turnstream-left-out")) {
            (Some(first), Some(left_out)) => Ok(Download { client: self.clone(), response, first, left_out }),
            _ => Err(self.odd(status.as_u16())),
        }
    }

    /// Imports a session from a file; returns the session.
    pub async fn import(&self, file: File, new_id: bool) -> Result<Value, ClientError> {
        let path = format!("/v1/import?new_id={new_id}");
        let body = Body::from(tokio::fs::File::from_std(file));
        let request = self.request(Method::POST, &path)?.header("content-type", "application/x-ndjson");
        let response = self.send(request.timeout(IMPORT).body(body)).await?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(|error| unreachable(&self.base, &error))?;
        if !status.is_success() {
            return Err(ClientError::read(&self.base, status.as_u16(), &bytes));
        }
        serde_json::from_slice(&bytes).map_err(|_| self.odd(status.as_u16()))
    }
}

impl Download {
    /// The next bytes; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        let chunk = timeout(PAUSE, self.response.chunk()).await;
        let chunk = chunk.map_err(|_| self.client.broken("the export went silent"))?;
        let chunk = chunk.map_err(|error| unreachable(&self.client.base, &error))?;
        Ok(chunk.map(|bytes| bytes.to_vec()))
    }
}
