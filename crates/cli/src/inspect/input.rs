//! The file to inspect: opened, looked at, and refused when it cannot be a saved stream.

use super::Format;
use super::escape::preview;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// How much of the beginning tells a binary file.
const BEGINNING: usize = 8 * 1024;
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// A file or standard input, and what to call it in messages.
pub(super) struct Input {
    pub(super) name: String,
    pub(super) reader: BufReader<Box<dyn Read>>,
}

/// Why a file is not inspected. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error(
        "cannot read {name}: {error}; give the path of a saved SSE stream or NDJSON file, or - for standard input"
    )]
    Unreadable { name: String, error: io::Error },
    #[error("{name} is empty: there is nothing to inspect; check that the recording wrote to this file")]
    Empty { name: String },
    #[error("{name} is compressed with gzip; unpack it first: gzip -dc FILE | turnstream inspect -")]
    Gzip { name: String },
    #[error(
        "{name} looks like a binary file (NUL at byte {at}); inspect reads text: SSE or NDJSON. \
         If it is one of them all the same, say which: --format sse or --format ndjson"
    )]
    Binary { name: String, at: usize },
}

impl Input {
    /// Opens it and makes sure that it is not empty.
    pub(super) fn open(path: &Path) -> Result<Self, InputError> {
        let (name, source): (String, Box<dyn Read>) = if path == Path::new("-") {
            ("standard input".to_owned(), Box::new(io::stdin().lock()))
        } else {
            let name = preview(&path.display().to_string(), usize::MAX);
            let file = File::open(path).map_err(|error| InputError::unreadable(&name, error))?;
            (name, Box::new(file))
        };
        let mut input = Self { name, reader: BufReader::with_capacity(64 * 1024, source) };
        match input.reader.fill_buf() {
            Ok([]) => Err(InputError::Empty { name: input.name }),
            Ok(_) => Ok(input),
            Err(error) => Err(InputError::unreadable(&input.name, error)),
        }
    }

    /// Tells NDJSON from SSE by the first byte that is not white space: no SSE line starts with a bracket.
    pub(super) fn detect(&mut self) -> Result<Format, InputError> {
        // One read is enough: `open` has filled the buffer, and a live pipe must not be waited for.
        let beginning = self.reader.buffer();
        let beginning = &beginning[..beginning.len().min(BEGINNING)];
        let name = || self.name.clone();
        if beginning.starts_with(b"\x1F\x8B") {
            return Err(InputError::Gzip { name: name() });
        }
        if let Some(at) = beginning.iter().position(|byte| *byte == 0) {
            return Err(InputError::Binary { name: name(), at });
        }
        let text = beginning.strip_prefix(BOM).unwrap_or(beginning);
        match text.trim_ascii_start().first() {
            Some(b'{' | b'[') => Ok(Format::Ndjson),
            Some(_) | None => Ok(Format::Sse),
        }
    }
}

impl InputError {
    /// An error while reading.
    pub(super) fn unreadable(name: &str, error: io::Error) -> Self {
        Self::Unreadable { name: name.to_owned(), error }
    }
}
