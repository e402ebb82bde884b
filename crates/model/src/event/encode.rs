//! Event to JSON: a flat object, envelope first, absent members left out. Nothing is built in between.

use super::{Draft, Event};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

impl Event {
    /// The event as one line of JSON, without a line feed.
    pub fn to_json(&self) -> String {
        // Only maps with string keys, strings, numbers and JSON values: serde_json refuses none of them.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Adds the line to a buffer, without an allocation of its own.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let written = serde_json::to_writer(out, self);
        debug_assert!(written.is_ok(), "a Vec takes every byte, and serde_json refuses no event");
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("seq", &self.seq)?;
        map.serialize_entry("time", &self.time)?;
        write_draft(&self.draft, &mut map)?;
        map.end()
    }
}

fn write_draft<M: SerializeMap>(draft: &Draft, map: &mut M) -> Result<(), M::Error> {
    use super::json::may;
    let Draft { turn, attempt, item, parent, native, actor, body, extra } = draft;
    map.serialize_entry("type", body.type_name())?;
    may::write(map, "turn", turn)?;
    may::write(map, "attempt", attempt)?;
    may::write(map, "item", item)?;
    may::write(map, "parent", parent)?;
    body.write_members(map)?;
    may::write(map, "native", native)?;
    may::write(map, "actor", actor)?;
    for (name, value) in extra {
        map.serialize_entry(name, value)?;
    }
    Ok(())
}
