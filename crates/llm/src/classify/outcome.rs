//! What the end of a stream means as a failure, if it is one.

use super::{Answer, Failure, Source};
use crate::attempt::{AnomalyKind, Body, BodyKind, Ended, Item, Meaning, Outcome, Transport, Why};
use turnstream_model::event::ErrorClass;

const PACKED: &str = "a compressed body, although none was asked for";

impl Answer<'_> {
    /// The failure in the end of an attempt. A broken transport has its own failure, which the caller adds to the case.
    pub fn outcome(&self, outcome: &Outcome) -> Option<Failure> {
        match &outcome.ended {
            // Gzip is known by its first bytes, brotli has none of its own.
            Ended::Corrupt | Ended::Incomplete
                if outcome.events == 0 && outcome.bytes > 0 && self.is_packed() =>
            {
                Some(self.of_stream(ErrorClass::NotAStream, PACKED))
            }
            Ended::Complete => self.complete(outcome),
            Ended::Failed(error) => Some(self.provider_error(error, Source::Event)),
            Ended::Spliced => {
                let message = "a second completion began in the same answer; a client or proxy that repeats requests \
                               by itself does that";
                Some(self.of_stream(ErrorClass::StreamSpliced, message))
            }
            Ended::Corrupt if is_only_cut(outcome) => self.cut(outcome.transport),
            Ended::Corrupt => {
                let first = outcome.anomalies.first();
                let what = first.map_or("damage", |anomaly| anomaly.kind.name());
                let at = first.map_or(outcome.bytes, |anomaly| anomaly.range.start);
                Some(self.of_stream(ErrorClass::StreamCorrupt, format!("{what} at byte {at}")))
            }
            Ended::Incomplete => self.cut(outcome.transport),
            Ended::NotAStream(body) => Some(self.not_a_stream(body)),
        }
    }

    fn cut(&self, transport: Transport) -> Option<Failure> {
        Some(match transport {
            Transport::Clean | Transport::Stopped => {
                self.of_stream(ErrorClass::Incomplete, "the answer has no end")
            }
            Transport::Broken => {
                self.of_stream(ErrorClass::TransportLost, "the connection broke before the answer's end")
            }
        })
    }

    fn complete(&self, outcome: &Outcome) -> Option<Failure> {
        match outcome.finish.as_ref().map(|finish| finish.meaning) {
            Some(Meaning::Failed) => {
                return Some(self.of_stream(ErrorClass::ProviderError, "the answer finished with an error"));
            }
            // Whole, as far as it was let: to ask again would end in the same place.
            Some(Meaning::Length | Meaning::ContentFilter | Meaning::Paused) => return None,
            Some(Meaning::Stop | Meaning::ToolCalls | Meaning::Unknown) | None => {}
        }
        if outcome.withheld.iter().any(|call| call.why == Why::BadArguments) {
            let message = "a finished call has arguments that are no JSON object";
            return Some(self.of_stream(ErrorClass::Incomplete, message));
        }
        if outcome.withheld.iter().any(|call| call.why == Why::Finish) {
            let word = outcome.finish.as_ref().map_or("", |finish| finish.raw.as_str());
            let word = &word[..word.floor_char_boundary(64)];
            let message = format!("no call of an answer runs that ended with {word:?}");
            return Some(self.of_stream(ErrorClass::Incomplete, message));
        }
        let says_something = outcome.committed.iter().any(|item| match item {
            Item::Message { text, .. } => !text.is_empty(),
            Item::Call(_) | Item::Other { .. } => true,
            Item::Reasoning { .. } => false,
        });
        (!says_something).then(|| self.of_stream(ErrorClass::EmptyOutput, "the answer says nothing"))
    }

    fn not_a_stream(&self, body: &Body) -> Failure {
        match &body.error {
            Some(error) => self.provider_error(error, Source::Body),
            None if body.kind == BodyKind::Gzip => self.of_stream(ErrorClass::NotAStream, PACKED),
            None => self.refusal(&body.bytes),
        }
    }

    /// Whether the head says so. Proxies leave the header where they unpack the body, so it counts only where nothing was read.
    fn is_packed(&self) -> bool {
        let encoding = self.headers.get("content-encoding").unwrap_or("identity");
        !encoding.trim().eq_ignore_ascii_case("identity")
    }

    fn of_stream(&self, class: ErrorClass, message: impl Into<String>) -> Failure {
        Failure {
            status: Some(self.status),
            request_id: self.request_id(),
            ..Failure::new(class, Source::Stream, message)
        }
    }
}

/// Nothing was wrong but where the bytes stopped coming, and the transport did not end in order.
fn is_only_cut(outcome: &Outcome) -> bool {
    let cut = |kind| matches!(kind, AnomalyKind::Residue | AnomalyKind::LeftOpen);
    outcome.transport != Transport::Clean && outcome.anomalies.iter().all(|anomaly| cut(anomaly.kind))
}
