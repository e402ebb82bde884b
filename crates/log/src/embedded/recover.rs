//! Putting into the database what a crash left in segments.

use super::segment::record::Recovered;
use super::segment::{Damage, Place};
use super::sqlite::{Chunks, Database, Readers, Settlement, TurnRow};
use crate::batch::TurnChange;
use crate::projection::Projection;
use std::collections::HashMap;
use std::time::Instant;
use turnstream_model::cursor::Seq;
use turnstream_model::event::Event;

/// Why what a crash left is not in the database.
pub(crate) enum NotRecovered {
    Damage(Damage),
    Store(String),
}

/// What is put together from the segments.
#[derive(Default)]
struct Recovery {
    /// The last event of each session so far.
    heads: HashMap<i64, u64>,
    chunks: Chunks,
    turns: Vec<TurnRow>,
    /// For the rows of items that began.
    projections: HashMap<i64, Projection>,
    events: u64,
}

/// Settles these records, which follow what the database has. Returns how many events that were.
pub(crate) fn recover(
    database: &mut Database,
    readers: &Readers,
    records: Vec<(Place, Vec<Recovered>)>,
) -> Result<u64, NotRecovered> {
    let mut recovery = Recovery::default();
    // What was imported half is removed, and not made a little more.
    let void = database.unfinished_imports().map_err(|error| NotRecovered::Store(error.to_string()))?;
    for (place, groups) in records {
        for group in groups.into_iter().filter(|group| !void.contains(&group.session)) {
            let head = match recovery.heads.get(&group.session) {
                Some(head) => Some(*head),
                None => {
                    readers.head(group.session).map_err(|error| NotRecovered::Store(error.to_string()))?
                }
            };
            // A session has its row before its first event: this one was deleted.
            let Some(head) = head else { continue };
            let damaged = |problem| NotRecovered::Damage(Damage { place: place.clone(), problem });
            recovery.add(group, head).map_err(damaged)?;
        }
    }
    let Recovery { chunks, turns, projections, events, .. } = recovery;
    if events > 0 {
        let ahead = |(session, projection): (&i64, &Projection)| Some((*session, projection.ahead()?));
        let folds: Vec<_> = projections.iter().filter_map(ahead).collect();
        let settlement = Settlement { chunks: &chunks, turns: &turns, folds: &folds, settled: 0 };
        database.settle(&settlement).map_err(|error| NotRecovered::Store(error.to_string()))?;
    }
    Ok(events)
}

impl Recovery {
    /// Adds the next events of a session that ends at `head`.
    fn add(&mut self, group: Recovered, head: u64) -> Result<(), String> {
        let Recovered { session, epoch, first, count, data } = group;
        let last = first.0 + count - 1;
        self.heads.insert(session, head.max(last));
        if last <= head {
            return Ok(());
        }
        if first.0 != head + 1 {
            return Err(format!("event {} of session {session} is missing before event {first}", head + 1));
        }
        let now = Instant::now();
        let projection = self.projections.entry(session).or_insert_with(|| Projection::after(Seq(head), now));
        for (seq, line) in (first.0..).zip(data.lines()) {
            let event = Event::from_json(line).map_err(|error| format!("it holds no event: {error}"))?;
            self.turns
                .extend(TurnChange::of(&event.draft).map(|change| TurnRow::new(session, epoch, &change)));
            // Its place follows the last one's, as was just seen.
            projection.apply(&event, line.len(), epoch, now);
            self.chunks.push(session, Seq(seq), line);
        }
        self.events += count;
        Ok(())
    }
}
