//! A large log: many sessions of many turns, one of them much larger than the others.

use crate::search::text::Writer;
use std::path::Path;
use turnstream_log::{Log, Options};
use turnstream_model::event::{Body, Draft, Field, ItemKind, ItemState, Origin, Outcome, Role, StopReason};
use turnstream_model::id::{ItemId, SessionId, TurnId};
use turnstream_model::time::Time;

/// Items of one turn.
const ITEMS: u64 = 9;
/// Deltas of one item.
const DELTAS: u64 = 8;
/// The time of all events.
pub(super) const THEN: Time = Time(1_794_000_000_000);

/// The size of the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Sessions of ordinary size.
    pub(super) sessions: u64,
    /// Turns of an ordinary session.
    pub(super) turns: u64,
    /// Turns of the large session.
    pub(super) large: u64,
}

/// What was built.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Built {
    pub(super) events: u64,
    /// Bytes of text.
    pub(super) bytes: u64,
}

pub(super) fn usual(number: u64) -> SessionId {
    SessionId::from(format!("s{number}"))
}

pub(super) fn large() -> SessionId {
    SessionId::from("large")
}

/// Appends everything.
pub(super) async fn build(path: &Path, extent: Extent) -> Result<Built, String> {
    let log = Log::open(path, &Options::default()).map_err(|error| error.to_string())?.log;
    let mut writer = Writer::new(11);
    let mut built = Built::default();
    for number in 0..extent.sessions {
        if number == extent.sessions / 2 {
            talk(&log, &large(), extent.large, &mut writer, &mut built).await?;
        }
        talk(&log, &usual(number), extent.turns, &mut writer, &mut built).await?;
    }
    log.flush().await;
    log.close().await;
    Ok(built)
}

async fn talk(
    log: &Log,
    id: &SessionId,
    turns: u64,
    writer: &mut Writer,
    built: &mut Built,
) -> Result<(), String> {
    let mut appender = log.create(id).await.map_err(|error| error.to_string())?;
    let (agent, cwd) = ("scripted".to_owned(), "/w".to_owned());
    let created = Body::SessionCreated { session: id.clone(), agent, cwd, title: None, key: None };
    let mut drafts = vec![Draft::new(created)];
    for turn in 1..=turns {
        drafts.extend(said(turn, writer, built));
        built.events += drafts.len() as u64;
        let receipt = appender.append(std::mem::take(&mut drafts), THEN).await;
        let receipt = receipt.map_err(|error| error.to_string())?;
        if turn == turns {
            receipt.await.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// One turn.
fn said(turn: u64, writer: &mut Writer, built: &mut Built) -> Vec<Draft> {
    let of_turn = |body| Draft { turn: Some(TurnId::from(format!("t{turn}"))), ..Draft::new(body) };
    let started = Body::TurnStarted { origin: Origin::Agent, prompts: Vec::new(), native_id: None };
    let mut drafts = vec![of_turn(started)];
    for item in 0..ITEMS {
        let id = ItemId::from(format!("i{}", (turn - 1) * ITEMS + item + 1));
        let of_item = |body| Draft { item: Some(id.clone()), ..of_turn(body) };
        drafts.push(of_item(Body::ItemStarted {
            kind: ItemKind::Message,
            role: Some(Role::Assistant),
            synthetic: false,
            text: Some(String::new()),
            tool: None,
            native_id: None,
        }));
        for _ in 0..DELTAS {
            let text = writer.text() + " ";
            built.bytes += text.len() as u64;
            drafts.push(of_item(Body::ItemDelta { field: Field::Text, text }));
        }
        let (state, reason, caused_by) = (ItemState::Completed, None, None);
        drafts.push(of_item(Body::ItemEnded { state, reason, incomplete: false, caused_by }));
    }
    let (outcome, stop_reason) = (Outcome::Completed, Some(StopReason::EndTurn));
    drafts.push(of_turn(Body::TurnEnded {
        outcome,
        stop_reason,
        usage: None,
        cost: None,
        summed: true,
        error: None,
    }));
    drafts
}
