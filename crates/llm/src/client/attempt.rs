//! One attempt: one POST, read to whatever end it comes to.

use super::hold::Hold;
use super::post::{Response, post};
use super::run::{Gone, Teller};
use super::timers::Timers;
use super::{Call, Client};
use crate::attempt::{Ended, Outcome, Said, Transport};
use crate::classify::{Answer, Case, Failure, Source};
use crate::evidence::Recorder;
use crate::head::Head;
use crate::reader::Reader;
use crate::retry::Consumer;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use turnstream_model::event::ErrorClass;

/// Of a body that is no stream, no more is read than this.
const REFUSAL: u64 = 1 << 20;
/// After the end of a completion the body should end too, and whether it does in order is worth knowing. No longer than this.
const AFTER_THE_END: Duration = Duration::from_millis(500);

/// What became of an attempt.
pub(super) struct Tried {
    pub(super) failure: Option<Failure>,
    pub(super) outcome: Option<Outcome>,
    pub(super) hold: Hold,
    pub(super) status: Option<u16>,
    pub(super) request_id: Option<String>,
    pub(super) recorder: Recorder,
    /// It was given up before it ended.
    pub(super) gone: Option<Gone>,
}

impl Tried {
    /// Before anything happened.
    pub(super) fn nothing(consumer: Consumer) -> Self {
        Self {
            failure: None,
            outcome: None,
            hold: Hold::new(consumer),
            status: None,
            request_id: None,
            recorder: Recorder::default(),
            gone: None,
        }
    }
}

/// Sends the request and reads the answer.
pub(super) async fn once(client: &Client, call: &Call, number: u32, teller: &mut Teller) -> Tried {
    let mut timers = Timers::new(&client.settings.clocks, &call.route.profile);
    let mut tried = Tried::nothing(call.consumer);
    let (limit, clock) = timers.for_head();
    let began = Instant::now();
    let sent = tokio::select! {
        biased;
        gone = teller.gone() => {
            tried.gone = Some(gone);
            return tried;
        }
        sent = timeout(limit, post(&client.connector, call)) => sent,
    };
    timers.waited(began.elapsed());
    match sent {
        Err(_) => tried.failure = Some(timers.failure(clock)),
        Ok(Err(failure)) => tried.failure = Some(failure),
        Ok(Ok(response)) => read(client, call, number, response, &mut timers, teller, &mut tried).await,
    }
    tried
}

async fn read(
    client: &Client,
    call: &Call,
    number: u32,
    mut response: Response,
    timers: &mut Timers,
    teller: &mut Teller,
    tried: &mut Tried,
) {
    let (status, headers) = (response.status, std::mem::take(&mut response.headers));
    let answer = Answer { status, headers: &headers, now: client.keeping.clock.wall() };
    tried.status = Some(status);
    tried.request_id = answer.request_id();
    let head = Head { status, content_type: headers.get("content-type").map(str::to_owned) };
    let mut reader = Reader::new(call.route.format, &call.route.profile, head);
    let (mut said, mut bytes, mut over) = (Vec::new(), 0_u64, None);
    let mut broke: Option<Failure> = None;
    let ended = loop {
        let (mut limit, clock) = timers.for_bytes();
        if reader.is_over() {
            limit = limit.min(AFTER_THE_END.saturating_sub(over.get_or_insert_with(Instant::now).elapsed()));
        }
        if limit.is_zero() || (reader.is_document() && bytes > REFUSAL) {
            broke = broke.or((limit.is_zero() && !reader.is_over()).then(|| timers.failure(clock)));
            break Transport::Stopped;
        }
        if bytes > client.settings.most_bytes {
            let message = format!("more than {} bytes are no answer", client.settings.most_bytes);
            broke = Some(Failure::new(ErrorClass::StreamCorrupt, Source::Stream, message));
            break Transport::Stopped;
        }
        let began = Instant::now();
        let chunk = tokio::select! {
            biased;
            gone = teller.gone() => {
                tried.gone = Some(gone);
                break Transport::Stopped;
            }
            chunk = timeout(limit, response.chunk()) => chunk,
        };
        timers.waited(began.elapsed());
        let chunk = match chunk {
            Err(_) if reader.is_over() => break Transport::Stopped,
            Err(_) => {
                broke = Some(timers.failure(clock));
                break Transport::Stopped;
            }
            Ok(Err(failure)) => {
                broke = Some(failure);
                break Transport::Broken;
            }
            Ok(Ok(None)) => break Transport::Clean,
            Ok(Ok(Some(chunk))) => chunk,
        };
        bytes += chunk.len() as u64;
        tried.recorder.add(&chunk);
        reader.push(&chunk, &mut said);
        if said.iter().any(Said::is_progress) {
            timers.progressed();
        }
        if let Err(gone) = tell(&mut said, &mut tried.hold, number, teller).await {
            tried.gone = Some(gone);
            break Transport::Stopped;
        }
    };
    let outcome = reader.end(ended, &mut said);
    if tried.gone.is_none() {
        tried.gone = tell(&mut said, &mut tried.hold, number, teller).await.err();
    }
    tried.failure = cause(answer.outcome(&outcome), broke, &outcome);
    tried.outcome = Some(outcome);
}

/// Which of two it was: what the stream shows, or what the transport or a clock said.
fn cause(shown: Option<Failure>, broke: Option<Failure>, outcome: &Outcome) -> Option<Failure> {
    if outcome.ended == Ended::Complete {
        // What broke after the end took nothing away.
        return shown;
    }
    let damage = |failure: &Failure| {
        matches!(
            failure.class,
            ErrorClass::StreamCorrupt | ErrorClass::StreamSpliced | ErrorClass::NotAStream
        )
    };
    let mut case = Case::default();
    let is_damage = shown.as_ref().is_some_and(damage);
    let (first, second) = if is_damage { (shown, broke) } else { (broke, shown) };
    for failure in [first, second].into_iter().flatten() {
        case.add(failure);
    }
    case.into_cause()
}

async fn tell(said: &mut Vec<Said>, hold: &mut Hold, attempt: u32, teller: &mut Teller) -> Result<(), Gone> {
    for said in said.drain(..).flat_map(|said| hold.pass(said)) {
        teller.tell(super::Told::Said { attempt, said }).await?;
    }
    Ok(())
}
