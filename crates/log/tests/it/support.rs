//! Helpers: a log in a temporary directory, and drafts to append.

use std::path::Path;
use turnstream_log::{Appender, Committed, Follow, Follower, Log, Merge, Opened, Options};
use turnstream_model::event::{Body, Draft, Field, ItemKind, ItemState, Origin, Outcome, Role, StopReason};
use turnstream_model::id::{ItemId, SessionId, TurnId};
use turnstream_model::time::Time;

pub(crate) const NOW: Time = Time(1_794_700_000_000);

/// Small segments, so that every test rotates through several.
pub(crate) fn options() -> Options {
    Options { merge: Merge::Nothing, segment: 64 * 1024, reserve: 64 * 1024, ..Options::default() }
}

pub(crate) fn open(path: &Path) -> Opened {
    Log::open(path, &options()).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn id(name: &str) -> SessionId {
    SessionId::from(name)
}

pub(crate) fn created(name: &str) -> Draft {
    Draft::new(Body::SessionCreated {
        session: id(name),
        agent: "scripted".into(),
        cwd: "/w".into(),
        title: None,
        key: None,
    })
}

pub(crate) fn turn_started(turn: &str) -> Draft {
    let body = Body::TurnStarted { origin: Origin::Agent, prompts: Vec::new(), native_id: None };
    Draft { turn: Some(TurnId::from(turn)), ..Draft::new(body) }
}

pub(crate) fn turn_ended(turn: &str) -> Draft {
    let body = Body::TurnEnded {
        outcome: Outcome::Completed,
        stop_reason: Some(StopReason::EndTurn),
        usage: None,
        cost: None,
        summed: true,
        error: None,
    };
    Draft { turn: Some(TurnId::from(turn)), ..Draft::new(body) }
}

pub(crate) fn item_started(turn: &str, item: &str) -> Draft {
    let body = Body::ItemStarted {
        kind: ItemKind::Message,
        role: Some(Role::Assistant),
        synthetic: false,
        text: Some(String::new()),
        tool: None,
        native_id: None,
    };
    Draft { turn: Some(TurnId::from(turn)), item: Some(ItemId::from(item)), ..Draft::new(body) }
}

pub(crate) fn item_ended(turn: &str, item: &str, state: ItemState) -> Draft {
    let incomplete = state == ItemState::Abandoned;
    let body = Body::ItemEnded { state, reason: None, incomplete, caused_by: None };
    Draft { turn: Some(TurnId::from(turn)), item: Some(ItemId::from(item)), ..Draft::new(body) }
}

pub(crate) fn delta(turn: &str, item: &str, text: &str) -> Draft {
    let body = Body::ItemDelta { field: Field::Text, text: text.to_owned() };
    Draft { turn: Some(TurnId::from(turn)), item: Some(ItemId::from(item)), ..Draft::new(body) }
}

/// Appends events and waits until they are durable.
pub(crate) async fn append(appender: &mut Appender, drafts: Vec<Draft>) -> u64 {
    appender.append(drafts, NOW).await.unwrap().await.unwrap().0
}

/// A session with an open message.
pub(crate) async fn talking(log: &Log, name: &str) -> Appender {
    let mut appender = log.create(&id(name)).await.unwrap();
    append(&mut appender, vec![created(name), turn_started("t1"), item_started("t1", "i1")]).await;
    appender
}

/// The next events of a follower, without its outcome.
pub(crate) async fn events(follower: &mut Follower, up_to: u64) -> Vec<Committed> {
    let mut all = Vec::new();
    while all.last().is_none_or(|event: &Committed| event.seq().0 < up_to) {
        match follower.next().await.unwrap() {
            Follow::Outcome(_) => {}
            Follow::Events(events) => all.extend(events),
            Follow::Deleted => panic!("the session was deleted after {} events", all.len()),
            Follow::Closed => panic!("the log was closed after {} events", all.len()),
        }
    }
    all
}

/// Appends a complete turn with this text.
pub(crate) async fn say(appender: &mut Appender, number: u64, text: &str) {
    let (turn, item) = (format!("t{number}"), format!("i{number}"));
    let drafts = vec![
        turn_started(&turn),
        item_started(&turn, &item),
        delta(&turn, &item, text),
        item_ended(&turn, &item, ItemState::Completed),
        turn_ended(&turn),
    ];
    append(appender, drafts).await;
}

pub(crate) fn seqs(events: &[Committed]) -> Vec<u64> {
    events.iter().map(|event| event.seq().0).collect()
}

pub(crate) fn lines(events: &[Committed]) -> Vec<String> {
    events.iter().map(|event| String::from_utf8(event.json().to_vec()).unwrap()).collect()
}
