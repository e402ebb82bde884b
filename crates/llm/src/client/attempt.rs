//! One attempt: one POST, and its answer read to the end.

use super::answer_headers;
use super::call_event::CallEvent;
use super::delivery::DeliveryFilter;
use super::post::{HttpResponse, post};
use super::sender::{Abandoned, CallEventSender};
use super::timers::Timers;
use super::{Client, ModelCall};
use crate::attempt::{Outcome, StreamEvent, Transport};
use crate::classify::{Answer, Failure, RootCause, Source};
use crate::evidence::Recorder;
use crate::head::Head;
use crate::reader::Reader;
use crate::retry::Consumer;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use turnstream_model::event::ErrorClass;

/// The most bytes that are read of a body that is not an event stream.
const MOST_DOCUMENT: u64 = 1 << 20;
/// How long the body may go on after its completion. Whether it ends in order is part of the outcome.
const AFTER_THE_END: Duration = Duration::from_millis(500);

/// The result of an attempt.
pub(super) struct AttemptResult {
    pub(super) failure: Option<Failure>,
    pub(super) outcome: Option<Outcome>,
    pub(super) delivery: DeliveryFilter,
    pub(super) status: Option<u16>,
    pub(super) request_id: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) recorder: Recorder,
    /// Why the attempt was stopped before its end.
    pub(super) abandoned: Option<Abandoned>,
}

impl AttemptResult {
    /// The result before anything was sent.
    pub(super) fn nothing(consumer: Consumer) -> Self {
        Self {
            failure: None,
            outcome: None,
            delivery: DeliveryFilter::new(consumer),
            status: None,
            request_id: None,
            headers: Vec::new(),
            recorder: Recorder::default(),
            abandoned: None,
        }
    }
}

/// Sends the request and reads the answer.
pub(super) async fn run_attempt(
    client: &Client,
    call: &ModelCall,
    number: u32,
    sender: &mut CallEventSender,
) -> AttemptResult {
    let mut timers = Timers::new(&client.settings.timeouts, &call.route.profile);
    let mut result = AttemptResult::nothing(call.consumer);
    let (limit, kind) = timers.for_head();
    let began = Instant::now();
    let sent = tokio::select! {
        biased;
        abandoned = sender.abandoned() => {
            result.abandoned = Some(abandoned);
            return result;
        }
        sent = timeout(limit, post(&client.connector, call)) => sent,
    };
    timers.waited(began.elapsed());
    match sent {
        Err(_) => result.failure = Some(timers.failure(kind)),
        Ok(Err(failure)) => result.failure = Some(failure),
        Ok(Ok(response)) => read(client, call, number, response, &mut timers, sender, &mut result).await,
    }
    result
}

/// Reads the answer, and delivers its events.
async fn read(
    client: &Client,
    call: &ModelCall,
    number: u32,
    mut response: HttpResponse,
    timers: &mut Timers,
    sender: &mut CallEventSender,
    result: &mut AttemptResult,
) {
    let (status, headers) = (response.status, std::mem::take(&mut response.headers));
    tracing::Span::current().record("status", status);
    let answer = Answer { status, headers: &headers, now: client.environment.clock.wall() };
    result.status = Some(status);
    result.request_id = answer.request_id();
    result.headers = answer_headers::stored(&headers);
    let head = Head { status, content_type: headers.get("content-type").map(str::to_owned) };
    let mut reader = Reader::new(call.route.format, &call.route.profile, head);
    let (mut events, mut bytes) = (Vec::new(), 0_u64);
    let mut body = BodyReader { response: &mut response, timers, over_since: None };
    let (transport, broke) = loop {
        if reader.is_document() && bytes > MOST_DOCUMENT {
            break (Transport::Stopped, None);
        }
        if bytes > client.settings.most_bytes {
            let message = format!("the answer has more than {} bytes", client.settings.most_bytes);
            let failure = Failure::new(ErrorClass::StreamCorrupt, Source::Stream, message);
            break (Transport::Stopped, Some(failure));
        }
        let chunk = match body.next_chunk(&reader, sender).await {
            NextChunk::Bytes(chunk) => chunk,
            NextChunk::End(transport, broke) => break (transport, broke),
            NextChunk::Abandoned(abandoned) => {
                result.abandoned = Some(abandoned);
                break (Transport::Stopped, None);
            }
        };
        bytes += chunk.len() as u64;
        result.recorder.add(&chunk);
        reader.push(&chunk, &mut events);
        if events.iter().any(StreamEvent::is_progress) {
            body.timers.progressed();
        }
        if let Err(abandoned) = deliver(&mut events, &mut result.delivery, number, sender).await {
            result.abandoned = Some(abandoned);
            break (Transport::Stopped, None);
        }
    };
    let outcome = reader.end(transport, &mut events);
    if result.abandoned.is_none() {
        result.abandoned = deliver(&mut events, &mut result.delivery, number, sender).await.err();
    }
    result.failure = RootCause::of_attempt(answer.outcome(&outcome), broke, &outcome);
    result.outcome = Some(outcome);
}

/// The body of a response, with its timeouts.
struct BodyReader<'a> {
    response: &'a mut HttpResponse,
    timers: &'a mut Timers,
    /// When the completion was over.
    over_since: Option<Instant>,
}

/// What a body brings next.
enum NextChunk {
    Bytes(bytes::Bytes),
    /// The body is over, with the failure that ended it early.
    End(Transport, Option<Failure>),
    Abandoned(Abandoned),
}

impl BodyReader<'_> {
    /// Waits for the next bytes as long as the timeouts allow.
    async fn next_chunk(&mut self, reader: &Reader, sender: &CallEventSender) -> NextChunk {
        let (mut limit, kind) = self.timers.for_bytes();
        if reader.is_over() {
            let since = self.over_since.get_or_insert_with(Instant::now);
            limit = limit.min(AFTER_THE_END.saturating_sub(since.elapsed()));
        }
        let timed_out = |timers: &Timers| {
            NextChunk::End(Transport::Stopped, (!reader.is_over()).then(|| timers.failure(kind)))
        };
        if limit.is_zero() {
            return timed_out(self.timers);
        }
        let began = Instant::now();
        let chunk = tokio::select! {
            biased;
            abandoned = sender.abandoned() => return NextChunk::Abandoned(abandoned),
            chunk = timeout(limit, self.response.chunk()) => chunk,
        };
        self.timers.waited(began.elapsed());
        match chunk {
            Err(_) => timed_out(self.timers),
            Ok(Err(failure)) => NextChunk::End(Transport::Broken, Some(failure)),
            Ok(Ok(None)) => NextChunk::End(Transport::Clean, None),
            Ok(Ok(Some(chunk))) => NextChunk::Bytes(chunk),
        }
    }
}

/// Sends the events that the consumer may see.
async fn deliver(
    events: &mut Vec<StreamEvent>,
    delivery: &mut DeliveryFilter,
    attempt: u32,
    sender: &CallEventSender,
) -> Result<(), Abandoned> {
    for event in events.drain(..).flat_map(|event| delivery.filter(event)) {
        sender.send(CallEvent::Stream { attempt, event }).await?;
    }
    Ok(())
}
