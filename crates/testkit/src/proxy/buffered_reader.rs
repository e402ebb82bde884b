//! A buffered reader that can wait for a whole HTTP head before consuming it.

use super::http::{HEAD_CAP, head_length};
use super::rules::Ending;
use super::sender::Stop;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes that have arrived and are not consumed.
pub(super) struct BufferedReader<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Whether the connection broke. The system reports that once, and an ordinary end afterwards.
    broken: bool,
}

// === impl BufferedReader ===

impl<R: AsyncRead + Unpin> BufferedReader<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), broken: false }
    }

    pub(super) fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    pub(super) fn consume(&mut self, length: usize) {
        self.buffer.drain(..length);
    }

    /// Consumes all bytes.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Waits for more; `false` at the end. A broken connection breaks the other side too.
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

    /// Waits for a complete head, and returns its length; `None` if none comes.
    ///
    /// Other bytes stay in the buffer and are passed on unchanged. The next [`BufferedReader::fill`]
    /// returns how the connection ended.
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
