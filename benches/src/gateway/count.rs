//! Counts what one subscriber received, lost and got twice.

use super::http::{Chunks, head};
use super::stamp::{Stamp, now};
use turnstream_sse::{Decoder, Frame};

/// The result of one subscriber.
#[derive(Debug, Default)]
pub(crate) struct Count {
    /// SSE events that carry at least one event of the agent.
    pub(crate) deliveries: u64,
    /// Events of the agent. One delivery may contain several merged events.
    pub(crate) events: u64,
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    /// Violations of the SSE format.
    pub(crate) anomalies: u64,
    /// The earliest send time and the latest arrival, in microseconds.
    pub(crate) first_sent: Option<u64>,
    pub(crate) last_arrival: Option<u64>,
    /// Latencies from send to parse, if requested.
    pub(crate) micros: Vec<u64>,
    next: u64,
    latencies: bool,
}

/// Whether every latency is kept, or only counts and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Latencies,
    Totals,
}

impl Count {
    pub(crate) fn new(keep: Keep) -> Self {
        Self { latencies: keep == Keep::Latencies, ..Self::default() }
    }

    /// Whether the event with this number, or a later one, has arrived.
    pub(crate) fn reached(&self, events: u64) -> bool {
        self.next >= events
    }

    /// Ends the count. Sent events that did not arrive are lost.
    pub(crate) fn end(&mut self, events: u64) {
        self.lost += events.saturating_sub(self.next);
        self.next = self.next.max(events);
    }

    fn delivery(&mut self, data: &[u8]) {
        let mut some = false;
        for stamp in Stamp::all(data) {
            some = true;
            self.event(stamp);
        }
        if some {
            self.deliveries += 1;
        }
    }

    fn event(&mut self, stamp: Stamp) {
        let arrival = now();
        self.events += 1;
        self.first_sent = Some(self.first_sent.map_or(stamp.micros, |first| first.min(stamp.micros)));
        self.last_arrival = Some(arrival);
        if self.latencies {
            self.micros.push(arrival.saturating_sub(stamp.micros));
        }
        if stamp.number < self.next {
            self.repeated += 1;
        } else {
            self.lost += stamp.number - self.next;
            self.next = stamp.number + 1;
        }
    }
}

/// The bytes of one response.
#[derive(Debug)]
pub(crate) struct Stream {
    stage: Stage,
    decoder: Decoder,
}

#[derive(Debug)]
enum Stage {
    Head(Vec<u8>),
    /// Chunked, or until the connection ends.
    Body(Option<Chunks>),
}

impl Stream {
    pub(crate) fn new() -> Self {
        Self { stage: Stage::Head(Vec::new()), decoder: Decoder::new() }
    }

    /// Whether the server has accepted it as a subscriber.
    pub(crate) fn open(&self) -> bool {
        matches!(self.stage, Stage::Body(_))
    }

    /// Reads bytes. An error means that this is not an event stream.
    pub(crate) fn feed(&mut self, read: &[u8], count: &mut Count) -> Result<(), String> {
        match &mut self.stage {
            Stage::Head(held) => {
                held.extend_from_slice(read);
                let Some(head) = head(held)? else { return Ok(()) };
                if head.status != 200 {
                    let body = String::from_utf8_lossy(&held[head.length..]);
                    return Err(format!("status {}: {}", head.status, body.trim()));
                }
                let rest = held.split_off(head.length);
                self.stage = Stage::Body(head.chunked.then(Chunks::default));
                self.feed(&rest, count)
            }
            Stage::Body(None) => {
                decode(&mut self.decoder, read, count);
                Ok(())
            }
            Stage::Body(Some(chunks)) => {
                chunks.feed(read, |data| decode(&mut self.decoder, data, count))?;
                if chunks.ended() { Err("the server ended the stream".to_owned()) } else { Ok(()) }
            }
        }
    }
}

fn decode(decoder: &mut Decoder, data: &[u8], count: &mut Count) {
    let mut frames = decoder.feed(data);
    while let Some(frame) = frames.next_frame() {
        match frame {
            Frame::Event(event) => count.delivery(event.data.bytes()),
            Frame::Anomaly(_) => count.anomalies += 1,
            Frame::Undispatched(_) | Frame::Comment(_) | Frame::Residue(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Count, Keep, Stream};
    use crate::gateway::stamp::{Stamp, now};

    fn event(number: u64) -> Vec<u8> {
        let mut event = b"data: {\"text\":\"".to_vec();
        Stamp { number, micros: now() }.write(60, &mut event);
        event.extend(b"\"}\n\n");
        event
    }

    #[test]
    fn lost_and_repeated_events_are_counted() {
        let mut stream = Stream::new();
        let mut count = Count::new(Keep::Latencies);
        let mut bytes = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hello\n\n".to_vec();
        for number in [0, 1, 4, 4, 5] {
            bytes.extend(event(number));
        }
        for read in bytes.chunks(7) {
            stream.feed(read, &mut count).unwrap();
        }
        assert!(stream.open() && count.reached(6) && !count.reached(7));
        count.end(8);
        assert_eq!((count.deliveries, count.events, count.lost, count.repeated), (5, 5, 4, 1));
        assert_eq!(count.micros.len(), 5);
    }

    #[test]
    fn a_refusal_is_no_stream() {
        let mut count = Count::new(Keep::Totals);
        let refused = Stream::new().feed(b"HTTP/1.1 404 Not Found\r\n\r\nno such session", &mut count);
        assert_eq!(refused, Err("status 404: no such session".to_owned()));
    }
}
