//! Deltas of the messages format.

use super::Quick;
use crate::wire::Str;
use crate::wire::messages::{Delta, Event};

/// Reads `content_block_delta`, and other events that have no further members.
pub(crate) fn messages(data: &str) -> Option<Event<'_>> {
    let mut quick = Quick::new(data);
    let mut event = Event::default();
    quick.object(|quick, name| match name {
        "type" if event.kind.is_none() => {
            event.kind = Some(Str::whole(quick.plain()?));
            Some(())
        }
        "index" => quick.number_into(&mut event.index),
        "delta" if event.delta.is_none() => delta(quick, event.delta.insert(Delta::default())),
        _ => None,
    })?;
    quick.end()?;
    Some(event)
}

fn delta<'a>(quick: &mut Quick<'a>, delta: &mut Delta<'a>) -> Option<()> {
    quick.object(|quick, name| match name {
        "type" => quick.text_into(&mut delta.r#type),
        "text" => quick.text_into(&mut delta.text),
        "thinking" => quick.text_into(&mut delta.thinking),
        "partial_json" => quick.text_into(&mut delta.partial_json),
        _ => None,
    })
}
