//! The task that reads an event stream and reconnects it. It never waits for a subscriber.

use super::bus::Shared;
use super::event::{Event, Kind};
use super::subscription::{BusItem, Closed, Lag, Loss};
use reqwest::Method;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use turnstream_adapter::Counted;
use turnstream_sse::{AnomalyKind, Decoder, Frame};

/// Reads the stream until it has no subscribers, or until reconnecting has failed too often.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut guard = CloseOnDrop { shared: Some(Arc::clone(&shared)) };
    // Attempts since the stream was last healthy.
    let mut attempts = 0;
    loop {
        let loss = {
            let mut connection = pin!(connection(&shared, &mut attempts));
            loop {
                tokio::select! {
                    loss = &mut connection => break loss,
                    () = shared.unwanted() => if shared.rest() { return guard.disarm() },
                }
            }
        };
        shared.counters.count(Counted::StreamLoss);
        // The password source was already asked for another password: a retry changes nothing.
        if let Loss::NotOpened(error) = &loss
            && error.status() == Some(401)
        {
            tracing::error!(directory = %shared.directory, error = %error.for_log(), "event stream refused");
            shared.close(&Closed::Refused(Arc::clone(error)));
            return guard.disarm();
        }
        if attempts == shared.settings.attempts {
            tracing::error!(
                directory = %shared.directory, tries = attempts, reason = %loss.for_log(),
                "gave up reconnecting the event stream"
            );
            shared.close(&Closed::GaveUp { attempts, last: loss });
            return guard.disarm();
        }
        attempts += 1;
        let pause = pause(&shared, attempts);
        // The sessions of the directory are told, and log the outage.
        // opencode ends the stream when it disposes of a directory's instance: that is no failure.
        if matches!(loss, Loss::Ended) {
            tracing::debug!(
                directory = %shared.directory, tries = attempts, ?pause,
                "event stream ended; reconnecting"
            );
        } else {
            let reason = loss.for_log();
            tracing::debug!(
                directory = %shared.directory, %reason, tries = attempts, ?pause,
                "event stream lost; reconnecting"
            );
        }
        shared.lost(&loss, attempts);
        let mut pause = pin!(tokio::time::sleep(pause));
        loop {
            tokio::select! {
                () = &mut pause => break,
                () = shared.unwanted() => if shared.rest() { return guard.disarm() },
            }
        }
    }
}

/// Closes the bus if the reader is dropped before it finished: by a panic, or with its runtime.
struct CloseOnDrop {
    shared: Option<Arc<Shared>>,
}

impl CloseOnDrop {
    fn disarm(&mut self) {
        self.shared = None;
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            if std::thread::panicking() {
                tracing::error!(directory = %shared.directory, "the reader of the event stream panicked");
            }
            shared.close(&Closed::ReaderGone);
        }
    }
}

fn pause(shared: &Shared, attempt: u32) -> Duration {
    let settings = &shared.settings;
    let doubled = settings.first_pause.saturating_mul(1 << (attempt - 1).min(20));
    doubled.min(settings.longest_pause)
}

/// One connection from its request to its end.
async fn connection(shared: &Shared, attempts: &mut u32) -> Loss {
    let timeouts = shared.transport.timeouts;
    let call = shared.transport.call(Method::GET, &["event"], Some(&shared.directory));
    let opened_by = tokio::time::Instant::now() + timeouts.stream_open;
    let mut response = match tokio::time::timeout_at(opened_by, shared.transport.open(&call)).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Loss::NotOpened(Arc::new(error)),
        Err(_) => return Loss::Silent(timeouts.stream_open),
    };
    let mut reading = Reading { shared, attempts, is_live: false };
    let mut decoder = Decoder::with_limit(shared.settings.event_bytes);
    loop {
        let chunk = match reading.is_live {
            true => tokio::time::timeout(timeouts.event_idle, response.chunk()).await,
            false => tokio::time::timeout_at(opened_by, response.chunk()).await,
        };
        match chunk {
            Ok(Ok(Some(chunk))) => reading.decode(&mut decoder, &chunk),
            Ok(Ok(None)) => return Loss::Ended,
            Ok(Err(error)) => return Loss::Broke(Arc::new(error.without_url())),
            Err(_) if reading.is_live => return Loss::Silent(timeouts.event_idle),
            Err(_) => return Loss::Silent(timeouts.stream_open),
        }
    }
}

/// The state of one connection.
struct Reading<'a> {
    shared: &'a Shared,
    attempts: &'a mut u32,
    /// The first event has arrived: the server has subscribed this client.
    is_live: bool,
}

impl Reading<'_> {
    fn decode(&mut self, decoder: &mut Decoder, chunk: &[u8]) {
        let mut frames = decoder.feed(chunk);
        while let Some(frame) = frames.next_frame() {
            match frame {
                Frame::Event(event) => self.event(event.data.bytes()),
                Frame::Anomaly(anomaly) => match anomaly.kind {
                    AnomalyKind::Oversize => {
                        let limit = self.shared.settings.event_bytes;
                        tracing::warn!(
                            directory = %self.shared.directory, limit,
                            "event larger than the limit"
                        );
                        self.unreadable();
                    }
                    // Lines outside of events. Data that is not UTF-8 follows as an event.
                    AnomalyKind::NotAField
                    | AnomalyKind::UnknownField
                    | AnomalyKind::NulInId
                    | AnomalyKind::BadRetry
                    | AnomalyKind::InvalidUtf8
                    | AnomalyKind::Skipped => {}
                },
                Frame::Undispatched(_) | Frame::Comment(_) | Frame::Residue(_) => {}
            }
        }
    }

    fn event(&mut self, data: &[u8]) {
        let event = match Event::parse(data) {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(
                    directory = %self.shared.directory, bytes = data.len(), category = ?error.category(),
                    "unreadable event"
                );
                return self.unreadable();
            }
        };
        if !self.is_live {
            self.is_live = true;
            self.shared.connected();
        }
        if event.is_connected() {
            return;
        }
        *self.attempts = 0;
        if matches!(event.kind, Kind::Unknown(_)) {
            self.shared.counters.count(Counted::UnknownEvent);
        }
        self.shared.deliver(event, data.len());
    }

    /// An event is lost, and its session is not known: every subscriber is told.
    fn unreadable(&self) {
        self.shared.send_to_all(&BusItem::Lagged { why: Lag::Unreadable });
    }
}
