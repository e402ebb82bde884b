//! One request to a provider, and its answer read to the end.

use crate::errors::{self, Whole};
use crate::gate::{AfterTheEnd, Ended, Gate};
use crate::headers;
use crate::relay::{Head, Relay};
use bytes::Bytes;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};
use turnstream_llm::classify::{Answer, Failure, RootCause, Source, TimeoutKind};
use turnstream_llm::client::{
    AttemptReport, HttpClient, HttpRequest, HttpResponse, RouteSecrets, stored_headers,
};
use turnstream_llm::delay::Headers;
use turnstream_llm::{BodyKind, Head as AnswerHead, Reader, StreamEnd, Transport};
use turnstream_model::event::ErrorClass;
use turnstream_model::time::Time;
use turnstream_provider::{Operation, Route};

/// The largest document that is passed on.
const MOST_DOCUMENT: usize = 64 * 1024 * 1024;
/// The largest answer.
const MOST_BYTES: u64 = 512 << 20;
/// How long the connection may stay open after a whole answer.
const AFTER_THE_END: Duration = Duration::from_millis(500);
/// Nothing but keep-alives may come for this many times the longest silence.
const WITHOUT_PROGRESS: u32 = 3;

/// What an attempt needs.
pub(crate) struct Asked<'a> {
    pub(crate) http: &'a HttpClient,
    pub(crate) route: &'a Route,
    pub(crate) operation: Operation,
    pub(crate) is_stream: bool,
    pub(crate) request: HttpRequest,
    pub(crate) secrets: &'a RouteSecrets,
    pub(crate) relay: &'a Relay,
    /// What the client is told about the request.
    pub(crate) told: Vec<(String, String)>,
    pub(crate) now: Time,
}

/// How an attempt ended.
pub(crate) struct Attempted {
    pub(crate) result: Result<(), Box<Failed>>,
    pub(crate) report: AttemptReport,
}

/// A failed attempt.
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    /// What the provider answered, if that can be passed on as it is.
    pub(crate) answer: Option<Whole>,
    /// Content has left, so the answer cannot be repeated. The frame that left last.
    pub(crate) has_left: Option<Bytes>,
    /// The answer is whole, although it says nothing. It may be passed on.
    pub(crate) whole: Option<(Head, Vec<Bytes>)>,
}

impl Failed {
    pub(crate) fn of(failure: Failure) -> Box<Self> {
        Box::new(Self { failure, answer: None, has_left: None, whole: None })
    }
}

impl Asked<'_> {
    /// Sends the request, and passes on what may leave.
    pub(crate) async fn run(self) -> Attempted {
        let mut report = AttemptReport::default();
        let deadline = Instant::now() + self.route.first_event;
        let result = match timeout_at(deadline, self.http.send(&self.request)).await {
            Err(_) => Err(Failed::of(Failure::timeout(TimeoutKind::Headers, self.route.first_event))),
            Ok(Err(failure)) => Err(Failed::of(failure)),
            Ok(Ok(response)) => {
                let answer = Answer { status: response.status, headers: &response.headers, now: self.now };
                report.status = Some(response.status);
                report.request_id = answer.request_id().map(|mut id| {
                    self.secrets.hide_in_text(&mut id);
                    id
                });
                report.headers = stored_headers(&response.headers);
                report.headers.iter_mut().for_each(|(_, value)| self.secrets.hide_in_text(value));
                self.read(response, deadline, &mut report).await
            }
        };
        let result = result.map_err(|mut failed| {
            self.secrets.hide(&mut failed.failure);
            failed
        });
        Attempted { result, report }
    }

    async fn read(
        &self,
        mut response: HttpResponse,
        deadline: Instant,
        report: &mut AttemptReport,
    ) -> Result<(), Box<Failed>> {
        let (status, head) = (response.status, std::mem::take(&mut response.headers));
        if self.is_stream && (200..300).contains(&status) {
            return self.stream(response, status, &head, deadline, report).await;
        }
        let mut body = Vec::new();
        let transport = loop {
            match timeout(self.route.silence, response.chunk()).await {
                Err(_) => break Err(Failure::timeout(TimeoutKind::Silence, self.route.silence)),
                Ok(Err(failure)) => break Err(failure),
                Ok(Ok(None)) => break Ok(()),
                Ok(Ok(Some(bytes))) if body.len() + bytes.len() > MOST_DOCUMENT => {
                    let message = format!("the answer has more than {MOST_DOCUMENT} bytes");
                    break Err(Failure::new(ErrorClass::StreamCorrupt, Source::Stream, message));
                }
                Ok(Ok(Some(bytes))) => {
                    report.recorder.add(&bytes);
                    body.extend_from_slice(&bytes);
                }
            }
        };
        let (transport, broke) = match transport {
            Ok(()) => (Transport::Clean, None),
            Err(failure) => (Transport::Broken, Some(failure)),
        };
        self.document(status, &head, body.into(), transport, broke, report)
    }

    /// Judges an answer that is no stream.
    fn document(
        &self,
        status: u16,
        head: &Headers,
        body: Bytes,
        transport: Transport,
        broke: Option<Failure>,
        report: &mut AttemptReport,
    ) -> Result<(), Box<Failed>> {
        let answer = Answer { status, headers: head, now: self.now };
        let mut whole =
            Whole { status, headers: self.client_headers(head), body: body.clone(), in_band: None };
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_ok();
        let content_type = head.get("content-type").map(str::to_owned);
        let format = self.route.format;
        let mut reader = Reader::new(format, &self.route.profile, AnswerHead { status, content_type });
        let mut events = Vec::new();
        reader.push(&body, &mut events);
        let outcome = reader.end(transport, &mut events);
        let shown = answer.outcome(&outcome);
        let is_success = (200..300).contains(&status);
        // Lists, counts, and documents that the reader has no words for: queued responses, and long ones.
        let is_other = match &outcome.ended {
            StreamEnd::NotAStream(body) => body.kind == BodyKind::Json && body.error.is_none(),
            StreamEnd::Complete => self.operation != Operation::Generate,
            StreamEnd::Failed(_) | StreamEnd::Spliced | StreamEnd::Corrupt | StreamEnd::Incomplete => false,
        };
        let failure = match broke {
            Some(broke) => RootCause::of_attempt(shown, Some(broke), &outcome),
            None if is_success && is_json && is_other => None,
            None => shown.or_else(|| withheld(&outcome)),
        };
        report.outcome = Some(outcome);
        let Some(failure) = failure else {
            if self.relay.open(Head::Whole(whole)) {
                return Ok(());
            }
            let message = "the provider answered with a document, after the stream had begun";
            let failure = Failure::new(ErrorClass::NotAStream, Source::Stream, message);
            return Err(Failed::of(Failure { is_final: true, ..failure }));
        };
        let mut failed = Failed::of(failure);
        if failed.failure.class == ErrorClass::EmptyOutput && is_success {
            failed.whole = Some((Head::Whole(whole), Vec::new()));
        } else if !is_success && !(300..400).contains(&status) && transport == Transport::Clean {
            // The document may repeat the key of the gateway.
            if let Ok(text) = std::str::from_utf8(&body) {
                let mut text = text.to_owned();
                self.secrets.hide_in_text(&mut text);
                whole.body = text.into();
            }
            whole.in_band = errors::of_failure(format, &failed.failure).in_band;
            failed.answer = Some(whole);
        }
        Err(failed)
    }

    async fn stream(
        &self,
        mut response: HttpResponse,
        status: u16,
        head: &Headers,
        deadline: Instant,
        report: &mut AttemptReport,
    ) -> Result<(), Box<Failed>> {
        let format = self.route.format;
        let content_type = head.get("content-type").map(str::to_owned);
        let reader = Reader::new(format, &self.route.profile, AnswerHead { status, content_type });
        let mut gate = Gate::new(format, reader);
        let (mut last_left, mut bytes) = (None, 0_u64);
        let silence = self.route.silence;
        let mut progress_by = Instant::now() + silence * WITHOUT_PROGRESS;
        let (transport, broke) = loop {
            let now = Instant::now();
            let (by, kind, limit) = if !gate.has_begun() {
                (deadline, TimeoutKind::Progress, self.route.first_event)
            } else if progress_by < now + silence {
                (progress_by, TimeoutKind::Progress, silence * WITHOUT_PROGRESS)
            } else {
                (now + silence, TimeoutKind::Silence, silence)
            };
            let chunk = match timeout_at(by, response.chunk()).await {
                Err(_) => break (Transport::Stopped, Some(Failure::timeout(kind, limit))),
                Ok(Err(failure)) => break (Transport::Broken, Some(failure)),
                Ok(Ok(None)) => break (Transport::Clean, None),
                Ok(Ok(Some(chunk))) => chunk,
            };
            // The time that a slow client takes does not count.
            let took = now.elapsed();
            bytes += chunk.len() as u64;
            report.recorder.add(&chunk);
            let mut is_progress = false;
            let leaving = gate.push(&chunk, || is_progress = true);
            for frame in leaving {
                if last_left.is_none() {
                    self.relay.open(Head::Stream(self.client_headers(head)));
                }
                last_left = Some(frame.clone());
                self.relay.send(frame).await;
            }
            progress_by = if is_progress {
                Instant::now() + silence * WITHOUT_PROGRESS
            } else {
                progress_by + now.elapsed().saturating_sub(took)
            };
            if gate.is_decided() {
                break (Transport::Stopped, None);
            }
            if bytes > MOST_BYTES {
                let message = format!("the answer has more than {MOST_BYTES} bytes");
                break (
                    Transport::Stopped,
                    Some(Failure::new(ErrorClass::StreamCorrupt, Source::Stream, message)),
                );
            }
        };
        let Ended { outcome, received, held, rest, is_document } = gate.end(transport);
        if is_document && last_left.is_none() {
            return self.document(status, head, rest, transport, broke, report);
        }
        let answer = Answer { status, headers: head, now: self.now };
        let failure = RootCause::of_attempt(answer.outcome(&outcome), broke, &outcome);
        let failure = failure.or_else(|| withheld(&outcome));
        (report.outcome, report.received) = (Some(outcome), received);
        if let Some(failure) = failure {
            let is_empty = failure.class == ErrorClass::EmptyOutput;
            let whole =
                (is_empty && last_left.is_none()).then(|| (Head::Stream(self.client_headers(head)), held));
            return Err(Box::new(Failed { failure, answer: None, has_left: last_left, whole }));
        }
        if last_left.is_none() {
            self.relay.open(Head::Stream(self.client_headers(head)));
        }
        for frame in held {
            self.relay.send(frame).await;
        }
        self.relay.complete();
        self.pass_rest(response, &rest).await;
        Ok(())
    }

    /// Passes on what follows a whole answer: `[DONE]` after the end of another format, and keep-alives.
    async fn pass_rest(&self, mut response: HttpResponse, rest: &[u8]) {
        let mut after = AfterTheEnd::default();
        let by = Instant::now() + AFTER_THE_END;
        let mut bytes = Bytes::copy_from_slice(rest);
        loop {
            for frame in after.push(&bytes) {
                self.relay.send(frame).await;
            }
            if after.is_closed() {
                return;
            }
            match timeout(by.saturating_duration_since(Instant::now()), response.chunk()).await {
                Ok(Ok(Some(chunk))) => bytes = chunk,
                Ok(Ok(None) | Err(_)) | Err(_) => return,
            }
        }
    }

    fn client_headers(&self, head: &Headers) -> Vec<(String, String)> {
        let mut headers = headers::to_client(&head.0);
        headers.extend(self.told.iter().cloned());
        headers
    }
}

/// The failure of an answer that is whole, and whose calls are not.
fn withheld(outcome: &turnstream_llm::Outcome) -> Option<Failure> {
    let call = outcome.withheld.first()?;
    let finish = outcome.finish.as_ref().map_or("", |finish| finish.raw.as_str());
    let finish = &finish[..finish.floor_char_boundary(64)];
    let message = format!("the answer ended with {finish:?} within the tool call {:?}", call.name);
    Some(Failure { is_final: true, ..Failure::new(ErrorClass::OutputLimit, Source::Stream, message) })
}

/// Whether another provider could do better after this failure. It cannot if the request itself is at fault.
pub(crate) fn may_fall_back(class: ErrorClass) -> bool {
    !matches!(
        class,
        ErrorClass::InvalidRequest
            | ErrorClass::ContextOverflow
            | ErrorClass::OutputLimit
            | ErrorClass::Refused
            | ErrorClass::Cancelled
    )
}
