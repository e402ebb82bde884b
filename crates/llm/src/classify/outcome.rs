//! The failure in the outcome of a stream.

use super::{Answer, Failure, Source};
use crate::attempt::{
    AnomalyKind, Body, BodyKind, FinishMeaning, Item, Outcome, StreamEnd, Transport, WithheldReason,
};
use turnstream_model::event::ErrorClass;

const PACKED: &str = "a compressed body, although none was asked for";

impl Answer<'_> {
    /// The failure in an attempt's outcome, if there is one.
    ///
    /// A broken transport has a failure of its own, which the caller adds to the
    /// [`RootCause`](super::RootCause).
    pub fn outcome(&self, outcome: &Outcome) -> Option<Failure> {
        match &outcome.ended {
            // Gzip is recognised by its first bytes. Brotli has no such mark, so the header decides.
            StreamEnd::Corrupt | StreamEnd::Incomplete
                if outcome.events == 0 && outcome.bytes > 0 && self.is_packed() =>
            {
                Some(self.of_stream(ErrorClass::NotAStream, PACKED))
            }
            StreamEnd::Complete => self.complete(outcome),
            StreamEnd::Failed(error) => Some(self.provider_error(error, Source::Event)),
            StreamEnd::Spliced => {
                let message = "a second completion began in the same answer; a client or proxy that repeats requests \
                               by itself does that";
                Some(self.of_stream(ErrorClass::StreamSpliced, message))
            }
            StreamEnd::Corrupt if is_only_cut(outcome) => self.cut(outcome.transport),
            StreamEnd::Corrupt => {
                let first = outcome.anomalies.first();
                let what = first.map_or("damage", |anomaly| anomaly.kind.name());
                let at = first.map_or(outcome.bytes, |anomaly| anomaly.range.start);
                Some(self.of_stream(ErrorClass::StreamCorrupt, format!("{what} at byte {at}")))
            }
            StreamEnd::Incomplete => self.cut(outcome.transport),
            StreamEnd::NotAStream(body) => Some(self.not_a_stream(body)),
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
            Some(FinishMeaning::Failed) => {
                return Some(self.of_stream(ErrorClass::ProviderError, "the answer finished with an error"));
            }
            // The answer is complete as far as it was allowed to be. A retry would end at the same place.
            Some(FinishMeaning::Length | FinishMeaning::ContentFilter | FinishMeaning::Paused) => {
                return None;
            }
            Some(FinishMeaning::Stop | FinishMeaning::ToolCalls | FinishMeaning::Unknown) | None => {}
        }
        let word = outcome.finish.as_ref().map_or("", |finish| finish.raw.as_str());
        let word = &word[..word.floor_char_boundary(64)];
        if outcome.withheld.iter().any(|call| call.reason == WithheldReason::BadArguments) {
            let message = "a finished call has arguments that are not a JSON object";
            return Some(self.of_stream(ErrorClass::Incomplete, message));
        }
        if outcome.withheld.iter().any(|call| call.reason == WithheldReason::Finish) {
            let message = format!("the answer ended with {word:?}, under which no call runs");
            return Some(self.of_stream(ErrorClass::Incomplete, message));
        }
        if outcome.finish.as_ref().is_some_and(|finish| finish.meaning == FinishMeaning::Unknown) {
            let message = format!("the answer ended with {word:?}, which may mean that it is not complete");
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

    /// Whether the header says that the body is compressed. Proxies that decompress a body often keep the
    /// header, so it counts only if nothing could be read.
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

/// Whether the only damage is a cut at the end, and the transport did not end in order.
fn is_only_cut(outcome: &Outcome) -> bool {
    let cut = |kind| matches!(kind, AnomalyKind::Residue | AnomalyKind::LeftOpen);
    outcome.transport != Transport::Clean && outcome.anomalies.iter().all(|anomaly| cut(anomaly.kind))
}
