//! Reading an NDJSON file line by line.

use super::InspectError;
use super::item::{Content, Item, Line};
use crate::input::{Input, InputError};
use std::io::{BufRead, Read};

/// Of a longer line only the beginning is shown, as the SSE decoder does with an event.
const LONGEST: usize = turnstream_sse::DEFAULT_LIMIT;

/// Writes every line that is not blank; returns how many bytes there were.
pub(super) fn show(
    input: &mut Input,
    write: &mut impl FnMut(&Item<'_>) -> Result<(), InspectError>,
) -> Result<u64, InspectError> {
    let Input { name, reader } = input;
    let unreadable = |error| InputError::unreadable(name, error);
    let mut offset = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let length =
            reader.by_ref().take(LONGEST as u64 + 1).read_until(b'\n', &mut line).map_err(unreadable)?;
        if length == 0 {
            return Ok(offset);
        }
        let ended = line.ends_with(b"\n");
        let mut skipped = 0;
        if !ended && length > LONGEST {
            skipped = reader.skip_until(b'\n').map_err(unreadable)?;
            line.truncate(LONGEST);
        }
        show_line(&line, offset, ended, write)?;
        offset += (length + skipped) as u64;
    }
}

fn show_line(
    line: &[u8],
    offset: u64,
    ended: bool,
    write: &mut impl FnMut(&Item<'_>) -> Result<(), InspectError>,
) -> Result<(), InspectError> {
    let bom = if offset == 0 && line.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
    let raw = line[bom..].trim_ascii_end();
    if raw.is_empty() {
        return Ok(());
    }
    let start = offset + bom as u64;
    let content = match turnstream_json::from_slice(raw) {
        Ok(value) => Content::Json(value),
        Err(_) if !ended && line.len() == LONGEST => Content::Oversize,
        Err(_) if !ended => Content::Cut,
        Err(error) => Content::NotJson(error.to_string()),
    };
    write(&Item::Line(Line { raw, range: start..start + raw.len() as u64, content }))
}
