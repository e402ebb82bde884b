//! The requests that a keeper has received and not answered.

use crate::disk_failure;
use crate::error::RequestError;
use crate::request::ClientRequest;
use std::collections::VecDeque;
use std::pin::pin;
use tokio::sync::mpsc;
use turnstream_log::Log;

/// Requests to one keeper.
pub(super) struct RequestInbox {
    pub(super) requests: mpsc::Receiver<ClientRequest>,
    /// Received while the keeper waited for the disk, and not looked at yet.
    pub(super) postponed: VecDeque<ClientRequest>,
}

impl RequestInbox {
    pub(super) fn new(requests: mpsc::Receiver<ClientRequest>) -> Self {
        Self { requests, postponed: VecDeque::new() }
    }

    /// The next request; `None` when no handle to the keeper is left. Safe to drop and call again.
    pub(super) async fn next(&mut self) -> Option<ClientRequest> {
        match self.postponed.pop_front() {
            Some(request) => Some(request),
            None => self.requests.recv().await,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.postponed.is_empty() && self.requests.is_empty()
    }

    /// Accepts no further requests.
    pub(super) fn close(&mut self) {
        self.requests.close();
    }

    /// Answers every request with this error.
    pub(super) async fn refuse_all(mut self, error: RequestError) {
        self.close();
        while let Some(ClientRequest { request, .. }) = self.next().await {
            request.refuse(error.clone());
        }
    }

    /// Waits until the keeper owns the session. Requests wait too, unless the disk fails: then they are
    /// refused.
    pub(super) async fn until_claimed<T>(&mut self, log: &Log, claim: impl Future<Output = T>) -> T {
        let mut claim = pin!(claim);
        let failure = tokio::select! {
            biased;
            claimed = &mut claim => return claimed,
            failure = disk_failure::wait(log) => failure,
        };
        loop {
            tokio::select! {
                biased;
                claimed = &mut claim => return claimed,
                Some(ClientRequest { request, .. }) = self.requests.recv() => {
                    request.refuse(failure.clone().refused());
                }
            }
        }
    }
}
