//! Why a session was not imported, with the line of the file.

use crate::error::RequestError;
use turnstream_model::id::SessionId;

/// What is wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A line is not what it has to be, or not in its place.
    Damaged,
    /// The file ends too early.
    CutOff,
    /// It has a format that this version does not know.
    Newer,
    /// It has the shape of a log and breaks a law.
    Unlawful,
    /// It ends in the middle of something.
    Open,
    /// Its beginning was trimmed before it was exported.
    Trimmed,
}

impl Fault {
    /// For programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::CutOff => "cut_off",
            Self::Newer => "newer",
            Self::Unlawful => "unlawful",
            Self::Open => "open",
            Self::Trimmed => "trimmed",
        }
    }
}

/// A file that cannot be imported. Nothing of it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}; nothing was imported")]
pub struct BadFile {
    /// The line, from 1; the last one for what is missing after it.
    pub line: usize,
    /// What is wrong.
    pub fault: Fault,
    /// The same in words.
    pub problem: String,
}

/// Why a session was not imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The file.
    #[error(transparent)]
    File(#[from] BadFile),
    /// There is a session of that id.
    #[error("there is a session {0} here, or one of that id is being imported; import it under a new id")]
    Exists(SessionId),
    /// The file could not be put aside to be looked at.
    #[error(
        "the file cannot be kept in the data directory while it is judged: {0}; make room there and try again"
    )]
    Spool(String),
    /// The gateway cannot do it now.
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl ImportError {
    pub(super) fn spool(error: std::io::Error) -> Self {
        Self::Spool(error.to_string())
    }
}
