//! Errors of an import, with the line of the file.

use crate::error::{RequestError, SharedError};
use turnstream_model::id::SessionId;

/// What is wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A line is malformed or out of order.
    Damaged,
    /// The file ends too early.
    CutOff,
    /// The file has a format that this version does not know.
    Newer,
    /// The events break a law of the log.
    Unlawful,
    /// The file ends while a turn, a prompt or an item is open.
    Open,
    /// The beginning was trimmed before the export, and the file does not have the state at that point.
    Trimmed,
    /// A title, a name or a key is longer than this gateway allows.
    TooLong,
}

impl Fault {
    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::CutOff => "cut_off",
            Self::Newer => "newer",
            Self::Unlawful => "unlawful",
            Self::Open => "open",
            Self::Trimmed => "trimmed",
            Self::TooLong => "too_long",
        }
    }
}

/// A file that cannot be imported. Nothing of it was added to the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}; nothing was imported")]
pub struct BadFile {
    /// The line, from 1. For missing lines it is the last one.
    pub line: usize,
    /// The kind of fault.
    pub fault: Fault,
    /// A sentence for people.
    pub problem: String,
}

/// Why a session was not imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The file is invalid.
    #[error(transparent)]
    File(#[from] BadFile),
    /// A session has this id.
    #[error("session {0} exists, or is being imported; import it under a new id")]
    Exists(SessionId),
    /// The temporary file cannot be written.
    #[error("the file cannot be stored in the data directory: {0}; make room there and try again")]
    Spool(#[source] SharedError),
    /// The deadline has passed.
    #[error("the session was not stored in time; nothing was imported")]
    TooSlow,
    /// The gateway refused the request.
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl ImportError {
    pub(super) fn spool(error: std::io::Error) -> Self {
        Self::Spool(SharedError::new(error))
    }
}
