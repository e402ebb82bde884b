//! Reads an import file line by line, and its events in batches.

use super::error::{BadFile, Fault, ImportError};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use turnstream_model::event::Event;

/// The longest line. No event can be longer, since one append holds less.
const LONGEST_LINE: usize = 64 << 20;
/// Bytes of events in one batch.
const AT_ONCE: usize = 512 * 1024;

/// Reads lines and counts them.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    bytes: Vec<u8>,
    /// The number of the last line.
    pub(super) line: usize,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader: BufReader::with_capacity(64 * 1024, reader), bytes: Vec::new(), line: 0 }
    }

    /// The next line without its ending; `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<&str>, ImportError> {
        self.bytes.clear();
        let limit = LONGEST_LINE as u64 + 1;
        let read = self.reader.by_ref().take(limit).read_until(b'\n', &mut self.bytes);
        if read.map_err(ImportError::spool)? == 0 {
            return Ok(None);
        }
        self.line += 1;
        if self.bytes.len() > LONGEST_LINE {
            return Err(self.damaged(format!("it is longer than {} MiB", LONGEST_LINE >> 20)).into());
        }
        while matches!(self.bytes.last(), Some(b'\n' | b'\r')) {
            self.bytes.pop();
        }
        match std::str::from_utf8(&self.bytes) {
            Ok(text) if self.line == 1 => Ok(Some(text.trim_start_matches('\u{feff}'))),
            Ok(text) => Ok(Some(text)),
            Err(error) => {
                let line = self.line;
                let problem = format!("it is not UTF-8 from its byte {} on", error.valid_up_to() + 1);
                Err(BadFile { line, fault: Fault::Damaged, problem }.into())
            }
        }
    }

    /// The length of the last line in bytes.
    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn damaged(&self, problem: String) -> BadFile {
        BadFile { line: self.line, fault: Fault::Damaged, problem }
    }
}

/// The events of a validated file.
pub(super) struct Events(Lines<File>);

impl Events {
    /// Starts at the first event.
    pub(super) fn begin(mut file: File) -> std::io::Result<Self> {
        file.rewind()?;
        Ok(Self(Lines::new(file)))
    }

    /// The next batch; empty at the end of the file.
    pub(super) fn next_batch(&mut self) -> Result<Vec<Event>, ImportError> {
        let (mut events, mut bytes) = (Vec::new(), 0);
        while bytes < AT_ONCE {
            let Some(text) = self.0.next()? else { break };
            let parsed = (!text.trim().is_empty()).then(|| Event::from_json(text));
            if self.0.line == 1 {
                continue;
            }
            if let Some(parsed) = parsed {
                // Validation has parsed it before, so this fails only if the file changed.
                events.push(parsed.map_err(|error| self.0.damaged(format!("it is not an event: {error}")))?);
                bytes += self.0.length();
            }
        }
        Ok(events)
    }
}
