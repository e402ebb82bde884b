//! Deltas of the responses format.

use super::Quick;
use crate::wire::responses::Event;
use crate::wire::{Loose, Str};

/// Reads events that name an item but do not contain it.
pub(crate) fn responses(data: &str) -> Option<Event<'_>> {
    let mut quick = Quick::new(data);
    let mut event = Event::default();
    quick.object(|quick, name| match name {
        "type" if event.kind.is_none() => {
            event.kind = Some(Str::whole(quick.plain()?));
            Some(())
        }
        "sequence_number" => quick.number_into(&mut event.sequence_number),
        "output_index" => quick.number_into(&mut event.output_index),
        "item_id" => quick.text_into(&mut event.item_id),
        "delta" if event.delta.is_none() => {
            event.delta = Some(Loose(Some(Str::whole(quick.text()?))));
            Some(())
        }
        "type" | "delta" | "response" | "item" | "error" => None,
        _ => quick.skip(),
    })?;
    quick.end()?;
    Some(event)
}
