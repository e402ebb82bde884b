//! Where sessions may work. Checked when a session is created and with every link to its agent, on the opened
//! directory.

use crate::settings::Settings;
use std::io;
use std::path::{Path, PathBuf};
use turnstream_adapter::WorkingDirectory;

/// Why no session can work in a directory.
#[derive(Debug)]
pub(crate) enum DirectoryProblem {
    /// It cannot be opened.
    Unusable(io::Error),
    /// It is a file.
    File,
    /// It is not below a root. This is its path without links.
    Outside(PathBuf),
}

impl Settings {
    /// Opens a directory in which sessions may work.
    pub(crate) fn open_directory(&self, path: &Path) -> Result<WorkingDirectory, DirectoryProblem> {
        let real = path.canonicalize().map_err(DirectoryProblem::Unusable)?;
        if !real.is_dir() {
            return Err(DirectoryProblem::File);
        }
        let opened = WorkingDirectory::open(&real).map_err(DirectoryProblem::Unusable)?;
        // A root that does not exist at the moment allows nothing.
        let roots: Vec<_> = self.roots.iter().filter_map(|root| WorkingDirectory::open(root).ok()).collect();
        match opened.is_below(&roots) {
            Ok(true) => Ok(opened),
            Ok(false) => Err(DirectoryProblem::Outside(real)),
            Err(error) => Err(DirectoryProblem::Unusable(error)),
        }
    }
}
