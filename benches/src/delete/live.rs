//! Live sessions during a removal: how long each event takes until it is durable.

use super::build::THEN;
use crate::Latencies;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use turnstream_log::{Appender, Log};
use turnstream_model::event::{Body, Draft, Field, ItemKind, Origin, Role};
use turnstream_model::id::{ItemId, SessionId, TurnId};

/// The number of live sessions.
const SESSIONS: usize = 8;
/// The interval between two events of a session.
const EVERY: Duration = Duration::from_millis(10);

/// Prepared live sessions.
pub(super) struct Crowd {
    appenders: Vec<Appender>,
}

/// Running live sessions.
pub(super) struct Talking {
    over: Arc<AtomicBool>,
    talkers: Vec<JoinHandle<Result<Talked, String>>>,
}

/// A session, and the latency of each of its events in microseconds.
type Talked = (Appender, Vec<u64>);

impl Crowd {
    pub(super) async fn new(log: &Log) -> Result<Self, String> {
        let mut appenders = Vec::new();
        for number in 0..SESSIONS {
            let id = SessionId::from(format!("live{number}"));
            let mut appender = log.create(&id).await.map_err(|error| error.to_string())?;
            let (agent, cwd) = ("scripted".to_owned(), "/w".to_owned());
            let created = Body::SessionCreated { session: id, agent, cwd, title: None, key: None };
            let started = Body::TurnStarted { origin: Origin::Agent, prompts: Vec::new(), native_id: None };
            let message = Body::ItemStarted {
                kind: ItemKind::Message,
                role: Some(Role::Assistant),
                synthetic: false,
                text: Some(String::new()),
                tool: None,
                native_id: None,
            };
            let drafts = vec![Draft::new(created), in_turn(started), in_item(message)];
            let receipt = appender.append(drafts, THEN).await.map_err(|error| error.to_string())?;
            receipt.await.map_err(|error| error.to_string())?;
            appenders.push(appender);
        }
        Ok(Self { appenders })
    }

    /// Runs all sessions until they are stopped.
    pub(super) fn talk(self) -> Talking {
        let over = Arc::new(AtomicBool::new(false));
        let talkers = self.appenders.into_iter().map(|appender| tokio::spawn(talk(appender, over.clone())));
        Talking { talkers: talkers.collect(), over }
    }
}

impl Talking {
    pub(super) async fn end(self) -> Result<(Crowd, Latencies), String> {
        self.over.store(true, Ordering::Relaxed);
        let (mut appenders, mut all) = (Vec::new(), Vec::new());
        for talker in self.talkers {
            let (appender, micros) = talker.await.map_err(|error| error.to_string())??;
            appenders.push(appender);
            all.extend(micros);
        }
        Ok((Crowd { appenders }, Latencies::of(all)))
    }
}

async fn talk(mut appender: Appender, over: Arc<AtomicBool>) -> Result<Talked, String> {
    let mut micros = Vec::new();
    let mut next = Instant::now();
    while !over.load(Ordering::Relaxed) {
        next += EVERY;
        tokio::time::sleep_until(next.into()).await;
        // Measured from the due time, so that a delay also counts for the events after it.
        let delta = Body::ItemDelta { field: Field::Text, text: "a few words more ".to_owned() };
        let receipt = appender.append(vec![in_item(delta)], THEN).await.map_err(|error| error.to_string())?;
        receipt.await.map_err(|error| error.to_string())?;
        micros.push(u64::try_from(next.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
    Ok((appender, micros))
}

fn in_turn(body: Body) -> Draft {
    Draft { turn: Some(TurnId::from("t1")), ..Draft::new(body) }
}

fn in_item(body: Body) -> Draft {
    Draft { item: Some(ItemId::from("i1")), ..in_turn(body) }
}
