//! A buffered reader that can look at a whole head before it takes it.

use super::http::{HEAD_CAP, head_length};
use super::rules::Ending;
use super::sender::Stop;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes that have arrived and have not been taken.
pub(super) struct Source<R> {
    reader: R,
    buffer: Vec<u8>,
}

// === impl Source ===

impl<R: AsyncRead + Unpin> Source<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new() }
    }

    pub(super) fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    pub(super) fn consume(&mut self, length: usize) {
        self.buffer.drain(..length);
    }

    /// Everything there is.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Waits for more; `false` at the end. A connection that breaks breaks the other side too.
    pub(super) async fn fill(&mut self) -> Result<bool, Stop> {
        let mut piece = [0; 16 * 1024];
        let length = self.reader.read(&mut piece).await.map_err(|_| Stop(Ending::Rst))?;
        self.buffer.extend_from_slice(&piece[..length]);
        Ok(length > 0)
    }

    /// Waits for a whole head and says how long it is; `None` at the end, or if what comes is not a head of HTTP.
    pub(super) async fn fill_head(&mut self) -> Result<Option<usize>, Stop> {
        loop {
            if let Some(length) = head_length(&self.buffer) {
                return Ok(Some(length));
            }
            if self.buffer.len() > HEAD_CAP || !self.fill().await? {
                return Ok(None);
            }
        }
    }
}
