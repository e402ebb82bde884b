//! The queue between the spans that end and the task that exports them. It is bounded and never waits.

use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// How many spans wait at most. Spans that end while the queue is full are dropped and counted.
const CAPACITY: usize = 2_048;

/// The end of the queue that spans go into.
#[derive(Debug)]
pub(super) struct SpanQueue {
    sender: mpsc::Sender<SpanData>,
    dropped: Arc<AtomicU64>,
}

/// The end that they come out of.
pub(super) struct QueuedSpans {
    pub(super) receiver: mpsc::Receiver<SpanData>,
    /// Spans that found the queue full, since it was last read.
    pub(super) dropped: Arc<AtomicU64>,
}

impl SpanQueue {
    pub(super) fn new() -> (Self, QueuedSpans) {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        let dropped = Arc::new(AtomicU64::new(0));
        (Self { sender, dropped: Arc::clone(&dropped) }, QueuedSpans { receiver, dropped })
    }
}

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.sender.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The exporting task flushes by itself.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    /// The exporting task is ended by [`super::otlp::Exporter::end`].
    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}
