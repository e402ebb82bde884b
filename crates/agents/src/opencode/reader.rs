//! The task that reads an event stream, opens it again, and never waits for a subscriber.

use super::bus::{Shared, Stream};
use super::event::{Event, Kind};
use super::subscription::{BusItem, Closed, Lag, Loss};
use crate::counts::Counted;
use reqwest::Method;
use serde::Deserialize;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use turnstream_sse::{AnomalyKind, Decoder, Frame};

/// Reads until nobody wants it any more or it cannot be had.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut watch = DeathWatch { shared: Some(Arc::clone(&shared)) };
    // Attempts since the stream was last healthy.
    let mut attempts = 0;
    loop {
        let loss = {
            let mut connection = pin!(connection(&shared, &mut attempts));
            loop {
                tokio::select! {
                    loss = &mut connection => break loss,
                    () = shared.unwanted() => if shared.rest() { return watch.called_off() },
                }
            }
        };
        shared.counters.count(Counted::StreamLoss);
        // The password source has been asked for another one already: trying again changes nothing.
        if let Loss::NotOpened(error) = &loss
            && error.status() == Some(401)
        {
            shared.close(&Closed::Refused(Arc::clone(error)));
            return watch.called_off();
        }
        if attempts == shared.settings.attempts {
            shared.close(&Closed::GaveUp { attempts, last: loss });
            return watch.called_off();
        }
        attempts += 1;
        shared.lost(&loss, attempts);
        let mut pause = pin!(tokio::time::sleep(pause(&shared, attempts)));
        loop {
            tokio::select! {
                () = &mut pause => break,
                () = shared.unwanted() => if shared.rest() { return watch.called_off() },
            }
        }
    }
}

/// Closes the bus when the reader's future is dropped in the middle: by a panic, or with its runtime.
struct DeathWatch {
    shared: Option<Arc<Shared>>,
}

impl DeathWatch {
    fn called_off(&mut self) {
        self.shared = None;
    }
}

impl Drop for DeathWatch {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
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
    let call = match shared.settings.stream {
        Stream::Directory => shared.transport.call(Method::GET, &["event"], Some(&shared.directory)),
        Stream::Global => shared.transport.call(Method::GET, &["global", "event"], None),
    };
    let opened_by = tokio::time::Instant::now() + timeouts.stream_open;
    let mut response = match tokio::time::timeout_at(opened_by, shared.transport.open(&call)).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Loss::NotOpened(Arc::new(error)),
        Err(_) => return Loss::Silent(timeouts.stream_open),
    };
    let mut reading = Reading { shared, attempts, live: false };
    let mut decoder = Decoder::with_limit(shared.settings.event_bytes);
    loop {
        let chunk = match reading.live {
            true => tokio::time::timeout(timeouts.event_idle, response.chunk()).await,
            false => tokio::time::timeout_at(opened_by, response.chunk()).await,
        };
        match chunk {
            Ok(Ok(Some(chunk))) => reading.take(&mut decoder, &chunk),
            Ok(Ok(None)) => return Loss::Ended,
            Ok(Err(error)) => return Loss::Broke(super::transport::causes(&error)),
            Err(_) if reading.live => return Loss::Silent(timeouts.event_idle),
            Err(_) => return Loss::Silent(timeouts.stream_open),
        }
    }
}

/// What is known of a connection.
struct Reading<'a> {
    shared: &'a Shared,
    attempts: &'a mut u32,
    /// Something came: the server has subscribed us.
    live: bool,
}

impl Reading<'_> {
    fn take(&mut self, decoder: &mut Decoder, chunk: &[u8]) {
        let mut frames = decoder.feed(chunk);
        while let Some(frame) = frames.next_frame() {
            match frame {
                Frame::Event(event) => self.event(event.data.bytes()),
                Frame::Anomaly(anomaly) => match anomaly.kind {
                    AnomalyKind::Oversize => self.unreadable(),
                    // Lines between events, which hold none, and data that is not UTF-8, which comes next as an event.
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
        let Ok(event) = Event::parse(data) else { return self.unreadable() };
        if !self.live {
            self.live = true;
            self.shared.connected();
        }
        if event.is_connected() {
            return;
        }
        *self.attempts = 0;
        if matches!(event.kind, Kind::Unknown(_)) {
            self.shared.counters.count(Counted::UnknownEvent);
        }
        if self.shared.settings.stream == Stream::Global
            && let Some(Twin { session, seq }) = Twin::read(data)
        {
            return self.shared.durable(&session, seq);
        }
        self.shared.deliver(event, data.len());
    }

    /// An event is lost and nobody knows whose it was.
    fn unreadable(&self) {
        self.shared.tell_all(&BusItem::Lagged { why: Lag::Unreadable });
    }
}

/// What `/global/event` sends behind each durable event: the same once more, with its number.
#[derive(Deserialize)]
struct Twin {
    #[serde(rename = "aggregateID")]
    session: String,
    seq: u64,
}

impl Twin {
    fn read(data: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Envelope {
            payload: Payload,
        }
        #[derive(Deserialize)]
        struct Payload {
            #[serde(rename = "syncEvent")]
            twin: Option<Twin>,
        }
        turnstream_json::from_slice::<Envelope>(data).ok()?.payload.twin
    }
}
