//! The lines of a spooled file, one at a time, and its events, some at a time.

use super::error::{BadFile, Fault, ImportError};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use turnstream_model::event::Event;

/// No event can be longer: an append holds less.
const LONGEST_LINE: usize = 64 << 20;
/// Bytes of lines that are appended together.
const AT_ONCE: usize = 512 * 1024;

/// Reads line by line and counts them.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    bytes: Vec<u8>,
    /// The number of the last line that was read.
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

    /// How many bytes the last line has.
    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn damaged(&self, problem: String) -> BadFile {
        BadFile { line: self.line, fault: Fault::Damaged, problem }
    }
}

/// The events of a file that was judged.
pub(super) struct Events(Lines<File>);

impl Events {
    /// From the first event on.
    pub(super) fn begin(mut file: File) -> std::io::Result<Self> {
        file.rewind()?;
        Ok(Self(Lines::new(file)))
    }

    /// The next ones; none at the end of the file.
    pub(super) fn some(&mut self) -> Result<Vec<Event>, ImportError> {
        let (mut events, mut bytes) = (Vec::new(), 0);
        while bytes < AT_ONCE {
            let Some(text) = self.0.next()? else { break };
            let parsed = (!text.trim().is_empty()).then(|| Event::from_json(text));
            if self.0.line == 1 {
                continue;
            }
            if let Some(parsed) = parsed {
                // It was one when it was judged.
                events.push(parsed.map_err(|error| self.0.damaged(format!("it is no event: {error}")))?);
                bytes += self.0.length();
            }
        }
        Ok(events)
    }
}
