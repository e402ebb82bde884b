//! A buffered reader that can look at a whole head before it takes it.

use super::http::{HEAD_CAP, head_length};
use super::rules::Ending;
use super::sender::Stop;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes that have arrived and have not been taken.
pub(super) struct Source<R> {
    reader: R,
    buffer: Vec<u8>,
    /// A system reports a broken connection once, and an ordinary end after that.
    broken: bool,
}

// === impl Source ===

impl<R: AsyncRead + Unpin> Source<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), broken: false }
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
        match self.reader.read(&mut piece).await {
            Ok(length) if !self.broken => {
                self.buffer.extend_from_slice(&piece[..length]);
                Ok(length > 0)
            }
            Ok(_) | Err(_) => {
                self.broken = true;
                Err(Stop(Ending::Rst))
            }
        }
    }

    /// Waits for a whole head and says how long it is; `None` if none comes. What came instead stays in the buffer, to
    /// be passed on as it is; how the connection ended is told by the next [`Source::fill`].
    pub(super) async fn fill_head(&mut self) -> Option<usize> {
        loop {
            if let Some(length) = head_length(&self.buffer) {
                return Some(length);
            }
            if self.buffer.len() > HEAD_CAP || !matches!(self.fill().await, Ok(true)) {
                return None;
            }
        }
    }
}
