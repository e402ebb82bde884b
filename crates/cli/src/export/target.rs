//! The destination of an export. A file appears when it is complete, readable by its owner only. An
//! existing file is replaced only with `--force`.

use crate::{escape, out};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Why the export cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TargetError {
    #[error("{} is there already; --force replaces it", .0.display())]
    Exists(PathBuf),
    #[error("cannot write {}: {error}", path.display())]
    File {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    #[error("whoever read the output is gone")]
    ReaderGone,
}

/// The destination.
pub(crate) enum Target {
    /// A pipe or a redirection gets the exact bytes.
    Output,
    /// A terminal gets escaped lines.
    Terminal(Vec<u8>),
    File(Part),
}

/// An incomplete file. It is removed unless it is finished.
pub(crate) struct Part {
    file: File,
    beside: PathBuf,
    path: PathBuf,
    replace: bool,
}

impl Target {
    pub(crate) fn new(path: Option<&Path>, replace: bool) -> Result<Self, TargetError> {
        let Some(path) = path else {
            let is_terminal = out::is_terminal();
            return Ok(if is_terminal { Self::Terminal(Vec::new()) } else { Self::Output });
        };
        if !replace && path.symlink_metadata().is_ok() {
            return Err(TargetError::Exists(path.to_owned()));
        }
        let failed = |error| TargetError::File { path: path.to_owned(), error };
        let name = path.file_name().ok_or_else(|| failed(io::Error::other("it names no file")))?;
        let beside = format!(".{}.{:08x}.part", name.to_string_lossy(), fastrand::u32(..));
        let beside = path.with_file_name(beside);
        let file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).map_err(failed)?;
        Ok(Self::File(Part { file, beside, path: path.to_owned(), replace }))
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), TargetError> {
        match self {
            Self::Output => out::exact(bytes).map_err(output),
            Self::Terminal(waiting) => {
                waiting.extend_from_slice(bytes);
                let end = waiting.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
                let whole: Vec<u8> = waiting.drain(..end).collect();
                let shown = escape::text(&String::from_utf8_lossy(&whole));
                out::print(&shown).map_err(output)
            }
            Self::File(part) => part.file.write_all(bytes).map_err(|error| part.failed(error)),
        }
    }

    /// Completes the file.
    pub(crate) fn finish(self) -> Result<(), TargetError> {
        match self {
            Self::Output | Self::Terminal(_) => out::flush().map_err(output),
            Self::File(part) => part.finish(),
        }
    }
}

impl Part {
    fn finish(self) -> Result<(), TargetError> {
        self.file.sync_all().map_err(|error| self.failed(error))?;
        if !self.replace {
            // Unlike a rename, a link fails if the file was created in the meantime.
            match fs::hard_link(&self.beside, &self.path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(TargetError::Exists(self.path.clone()));
                }
                Ok(()) => return Ok(()),
                // Not every file system has hard links.
                Err(error) => {
                    tracing::debug!(%error, path = %self.path.display(), "no hard link, so it is renamed")
                }
            }
        }
        fs::rename(&self.beside, &self.path).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> TargetError {
        TargetError::File { path: self.path.clone(), error }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // A file that was renamed is gone already.
        if let Err(error) = fs::remove_file(&self.beside)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, path = %self.beside.display(), "a temporary file is left");
        }
    }
}

fn output(error: io::Error) -> TargetError {
    if error.kind() == io::ErrorKind::BrokenPipe {
        TargetError::ReaderGone
    } else {
        TargetError::Output(error)
    }
}
