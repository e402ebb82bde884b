//! A disk that fills up, fails, slows down and forgets what was not synced, for a real child process.
//!
//! A [`FaultDisk`] watches one directory. A child armed with it runs with a preloaded shim (`shim/faultdisk.c`)
//! between itself and the kernel, whatever it stores with: SQLite, or files of its own. [`Faults`] can be changed
//! while it runs. After a SIGKILL, [`FaultDisk::power_cut`] leaves in the directory what a real power cut
//! could have left. Why it is made this way, and what it cannot see: `docs/decisions/0004-fault-disk-by-preload.md`.

mod base;
mod control;
mod cut;
mod history;
mod image;
mod journal;
mod reconcile;
mod shim;

pub use control::{Counters, Faults, Window};
pub use cut::{CutReport, PowerCut};

use base::Base;
use control::ControlPage;
use history::History;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// One watched directory with its faults and its memory of what is durable.
pub struct FaultDisk {
    directory: PathBuf,
    /// Outside the watched directory: shim, control page, journal, and the durable copy from before.
    state: TempDir,
    control: ControlPage,
    base: Base,
}

/// What can go wrong with the fault disk itself. Faults it injects are seen by the child, not here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// A file of the disk could not be used.
    #[error("fault disk: cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The shim could not be compiled.
    #[error(
        "fault disk: {compiler} cannot compile the shim: {reason}; install a C compiler or set CC to one"
    )]
    Compiler {
        /// The compiler tried.
        compiler: String,
        /// What it said.
        reason: String,
    },
    /// The shim has no place from which it can be preloaded.
    #[error(
        "fault disk: LD_PRELOAD takes no path with a space or a colon, and there is no other among {tried:?}; \
         set TMPDIR to one"
    )]
    NoPlace {
        /// The directories looked at.
        tried: Vec<PathBuf>,
    },
    /// The armed child never loaded the shim, so nothing is known about its writes.
    #[error(
        "fault disk: no process has loaded the shim since the disk was settled; the child must be armed with \
         FaultDisk::arm and linked dynamically"
    )]
    NotAttached,
    /// The child did something to the watched directory that the journal cannot tell.
    #[error("fault disk: {path} {what}, which the fault disk does not model")]
    Unmodelled {
        /// Relative to the watched directory.
        path: String,
        /// What happened.
        what: String,
    },
    /// The journal does not make sense, which is a bug of the shim.
    #[error("fault disk: the journal is broken at byte {at}: {reason}")]
    Journal {
        /// Where.
        at: u64,
        /// Why.
        reason: String,
    },
}

// === impl FaultDisk ===

impl FaultDisk {
    /// Watches `directory`, which exists; what it holds now counts as durable.
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

    /// Makes `command` run on this disk. To be called before each start of it, when the one before is dead.
    ///
    /// One process at a time: two that write the same files would not be ordered in the journal.
    pub fn arm(&self, command: &mut Command) -> Result<(), DiskError> {
        if self.control.counters()?.attached > 0 {
            // A child killed while it wrote its last record leaves half of it; the next must not write after that.
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

    /// Sets all faults at once, also for a child that already runs. [`Faults::none`] heals the disk.
    pub fn set(&self, faults: Faults) -> Result<(), DiskError> {
        self.control.set(faults)
    }

    /// What the disk has counted since it was made; shows that a fault really fired.
    pub fn counters(&self) -> Result<Counters, DiskError> {
        self.control.counters()
    }

    /// Declares that everything in the directory is durable from now on, however it came there.
    pub fn settle(&mut self) -> Result<(), DiskError> {
        self.base = Base::take(&self.directory, &self.state.path().join("base"))?;
        std::fs::write(self.journal(), b"").map_err(file("empty", &self.journal()))?;
        self.control.forget_attached()
    }

    /// Builds in `into`, an empty directory, what a power cut now would leave; the disk stays as it is.
    ///
    /// The child must be dead. Several cuts can be tried on one end of a child.
    pub fn image(&self, cut: PowerCut, into: &Path) -> Result<CutReport, DiskError> {
        if self.control.counters()?.attached == 0 {
            return Err(DiskError::NotAttached);
        }
        let journal = journal::read(&self.journal())?;
        let history = History::read(&self.base, &journal)?;
        let choice = cut::choose(&history, cut);
        image::build(&history, &choice, into)?;
        Ok(choice.report)
    }

    /// Cuts the power: the directory then holds what is left, and all of that is durable.
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

/// Turns an I/O error into one that names the file.
fn file<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> DiskError + 'a {
    move |source| DiskError::File { action, path: path.to_owned(), source }
}
