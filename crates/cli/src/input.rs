//! The input file of a command. A file that is not text is refused.

use crate::escape::preview;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// How many bytes are looked at to detect a binary file.
const BEGINNING: usize = 8 * 1024;
/// The longest line. No event comes near it.
const MAX_LINE: usize = 64 << 20;
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// A file or standard input, with its name for messages.
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) reader: BufReader<Box<dyn Read>>,
}

/// Why a file is not read, with the way out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("cannot read {name}: {error}; give the path of a file, or - for standard input")]
    Unreadable {
        name: String,
        #[source]
        error: io::Error,
    },
    #[error("{name} is empty; check that the data was written to this file")]
    Empty { name: String },
    #[error(
        "{name} is compressed with gzip; unpack it first, for example: gzip -dc FILE | turnstream inspect -"
    )]
    Gzip { name: String },
    #[error("{name} looks like a binary file (from byte {at} on), not like text. {otherwise}")]
    Binary { name: String, at: usize, otherwise: &'static str },
    #[error("{name}: line {line} is longer than {} MiB, too long for an event", MAX_LINE >> 20)]
    LongLine { name: String, line: usize },
}

impl Input {
    /// Opens the file. An empty one is refused.
    pub(crate) fn open(path: &Path) -> Result<Self, InputError> {
        let (name, source): (String, Box<dyn Read>) = if path == Path::new("-") {
            ("standard input".to_owned(), Box::new(io::stdin().lock()))
        } else {
            let name = preview(&path.display().to_string(), usize::MAX).to_string();
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

    /// The beginning, without a byte order mark. A binary file is refused, with `otherwise` as the advice.
    pub(crate) fn text_beginning(&self, otherwise: &'static str) -> Result<&[u8], InputError> {
        // `open` has filled the buffer. Another read would wait for a live pipe.
        let beginning = self.reader.buffer();
        let beginning = &beginning[..beginning.len().min(BEGINNING)];
        if beginning.starts_with(b"\x1F\x8B") {
            return Err(InputError::Gzip { name: self.name.clone() });
        }
        if let Some(at) = first_binary(beginning) {
            return Err(InputError::Binary { name: self.name.clone(), at, otherwise });
        }
        Ok(beginning.strip_prefix(BOM).unwrap_or(beginning))
    }

    /// Reads line number `line` into `bytes`, without its line ending. False at the end of the file.
    pub(crate) fn read_line(&mut self, line: usize, bytes: &mut Vec<u8>) -> Result<bool, InputError> {
        bytes.clear();
        let Self { name, reader } = self;
        let limit = MAX_LINE as u64 + 1;
        reader.take(limit).read_until(b'\n', bytes).map_err(|error| InputError::unreadable(name, error))?;
        if bytes.len() > MAX_LINE {
            return Err(InputError::LongLine { name: name.clone(), line });
        }
        let is_line = !bytes.is_empty();
        if bytes.ends_with(b"\n") {
            bytes.pop();
        }
        Ok(is_line)
    }
}

/// The offset at which the data is not text: a NUL, or more than one unusual character in eight. A stream
/// with a few damaged bytes still counts as text.
fn first_binary(beginning: &[u8]) -> Option<usize> {
    if let Some(at) = beginning.iter().position(|byte| *byte == 0) {
        return Some(at);
    }
    let is_odd = |character: &char| {
        *character == char::REPLACEMENT_CHARACTER
            || (character.is_control() && !"\t\n\r\u{1b}".contains(*character))
    };
    let text = String::from_utf8_lossy(beginning);
    let odd = text.chars().filter(is_odd).count();
    let first = || text.char_indices().find(|(_, character)| is_odd(character)).map_or(0, |(at, _)| at);
    (odd * 8 > text.chars().count()).then(first)
}

impl InputError {
    /// An error while reading.
    pub(crate) fn unreadable(name: &str, error: io::Error) -> Self {
        Self::Unreadable { name: name.to_owned(), error }
    }
}
