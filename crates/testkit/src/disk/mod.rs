//! The fault disk: it fills up, fails, slows down, and forgets what was not synced, for a real child process.
//!
//! A [`FaultDisk`] watches one directory. The child runs with a preloaded shim (`shim/faultdisk.c`) between
//! itself and the kernel, so it may use SQLite or plain files. [`Faults`] can be changed while it runs.
//! After a SIGKILL, [`FaultDisk::power_cut`] leaves in the directory what a real power cut could have left.
//!
//! Reasons and limits: `docs/decisions/0004-fault-disk-by-preload.md`.

mod control;
mod durable_base;
mod history;
mod image;
mod journal;
mod power_cut;
mod reconcile;
mod shim;

pub use control::{Counters, Faults, Window};
pub use power_cut::{CutReport, PowerCut};

use control::ControlPage;
use durable_base::Base;
use history::History;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A watched directory, with its faults and its durable state.
pub struct FaultDisk {
    directory: PathBuf,
    /// A folder outside of the watched directory: shim, control page, journal, and the durable copy.
    state: TempDir,
    control: ControlPage,
    base: Base,
}

/// An error of the fault disk itself. Injected faults are seen by the child.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// A file of the disk could not be used.
    #[error("fault disk: cannot {action} {}: {source}", path.display())]
    File {
        /// The operation.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The shim could not be compiled.
    #[error(
        "fault disk: {compiler} cannot compile the shim: {reason}; install a C compiler or set CC to one"
    )]
    Compiler {
        /// The compiler.
        compiler: String,
        /// Its output.
        reason: String,
    },
    /// The shim has no place from which it can be preloaded.
    #[error(
        "fault disk: LD_PRELOAD takes no path with a space or a colon, and there is no other among {tried:?}; \
         set TMPDIR to one"
    )]
    NoPlace {
        /// The directories that were tried.
        tried: Vec<PathBuf>,
    },
    /// The armed child did not load the shim, so its writes are unknown.
    #[error(
        "fault disk: no process has loaded the shim since the disk was settled; the child must be armed with \
         FaultDisk::arm and linked dynamically"
    )]
    NotAttached,
    /// The child changed the directory in a way that the journal does not support.
    #[error("fault disk: {path} {what}, which the fault disk does not model")]
    Unmodelled {
        /// The path, relative to the watched directory.
        path: String,
        /// What happened.
        what: String,
    },
    /// The journal is invalid, which is a bug of the shim.
    #[error("fault disk: the journal is broken at byte {at}: {reason}")]
    Journal {
        /// The offset.
        at: u64,
        /// The problem.
        reason: String,
    },
}

// === impl FaultDisk ===

impl FaultDisk {
    /// Watches an existing directory. Its content counts as durable.
    pub fn new(directory: impl AsRef<Path>) -> Result<Self, DiskError> {
        let given = directory.as_ref();
        let directory = given.canonicalize().map_err(file("find", given))?;
        let state = shim::directory(&[&std::env::temp_dir(), Path::new("/tmp"), Path::new("/var/tmp")])?;
        shim::compile(state.path())?;
        let control = ControlPage::create(&state.path().join("control"))?;
        let base = Base::default();
        let mut disk = Self { directory, state, control, base };
        disk.settle()?;
        Ok(disk)
    }

    /// The watched directory, with links resolved.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes `command` run on this disk. Call it before each start, after the previous process has ended.
    ///
    /// One process at a time: the journal cannot order the writes of two.
    pub fn arm(&self, command: &mut Command) -> Result<(), DiskError> {
        if self.control.counters()?.attached > 0 {
            // A kill may leave a partial record. The next child must not write after it.
            journal::drop_torn_tail(&self.journal())?;
            reconcile::reconcile(&self.directory, &self.base, &self.journal(), self.state.path())?;
        }
        command
            .env("LD_PRELOAD", shim::library(self.state.path()))
            .env("TURNSTREAM_DISK_ROOT", &self.directory)
            .env("TURNSTREAM_DISK_JOURNAL", self.journal())
            .env("TURNSTREAM_DISK_CONTROL", self.control.path());
        Ok(())
    }

    /// Sets all faults, also for a running child. [`Faults::none`] heals the disk.
    pub fn set(&self, faults: Faults) -> Result<(), DiskError> {
        self.control.set(faults)
    }

    /// The counters since the disk was made. They show whether a fault really happened.
    pub fn counters(&self) -> Result<Counters, DiskError> {
        self.control.counters()
    }

    /// Declares everything in the directory durable.
    pub fn settle(&mut self) -> Result<(), DiskError> {
        self.base = Base::take(&self.directory, &self.state.path().join("base"))?;
        std::fs::write(self.journal(), b"").map_err(file("empty", &self.journal()))?;
        self.control.forget_attached()
    }

    /// Builds in `into`, an empty directory, what a power cut would leave now. The disk does not change.
    ///
    /// The child must have ended. Several cuts can be tried on one state.
    pub fn image(&self, cut: PowerCut, into: &Path) -> Result<CutReport, DiskError> {
        if self.control.counters()?.attached == 0 {
            return Err(DiskError::NotAttached);
        }
        let journal = journal::read(&self.journal())?;
        let history = History::read(&self.base, &journal)?;
        let choice = power_cut::choose(&history, cut);
        image::build(&history, &choice, into)?;
        Ok(choice.report)
    }

    /// Cuts the power: the directory then has what survived, and all of it is durable.
    pub fn power_cut(&mut self, cut: PowerCut) -> Result<CutReport, DiskError> {
        let image = tempfile::tempdir_in(self.state.path())
            .map_err(file("make a directory in", self.state.path()))?;
        let report = self.image(cut, image.path())?;
        image::replace(&self.directory, image.path())?;
        self.settle()?;
        Ok(report)
    }

    fn journal(&self) -> PathBuf {
        self.state.path().join("journal")
    }
}

/// An I/O error with its file.
fn file<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> DiskError + 'a {
    move |source| DiskError::File { action, path: path.to_owned(), source }
}
