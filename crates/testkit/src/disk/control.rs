//! The control page: a file that the shim maps. Faults change at once, and counters survive a kill.

use super::{DiskError, file};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The number of fields of `struct control` in `shim/watch.h`.
const FIELDS: usize = 16;
/// The fields that the test sets come first, then the counters of the shim.
const COUNTERS_AT: usize = 8;

/// The calls that a fault affects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// None.
    #[default]
    Never,
    /// Every call until the disk is healed.
    Always,
    /// Only the `n`th call from now, counted from 1.
    Nth(u64),
}

/// The faults of a disk. They apply until others are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Writes and truncations that fail with EIO.
    pub write_error: Window,
    /// Syncs that fail with EIO. As on Linux, a later sync does not make their changes durable either.
    pub sync_error: Window,
    /// Writes of which only the first half is written.
    pub short_write: Window,
    /// How many more bytes may be written or allocated before ENOSPC. The write that reaches the limit is
    /// short.
    pub space: Option<u64>,
    /// The extra time of each sync.
    pub sync_delay: Duration,
}

/// The counters of the shim since the disk was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Processes that loaded the shim since the last [`settle`](super::FaultDisk::settle).
    pub attached: u64,
    /// Requested writes, truncations and allocations.
    pub writes: u64,
    /// Requested syncs.
    pub syncs: u64,
    /// Written bytes, and bytes by which allocations extended a file.
    pub bytes: u64,
    /// Calls that failed with EIO on purpose.
    pub errors: u64,
    /// Calls that failed with ENOSPC on purpose.
    pub full: u64,
    /// Writes shortened on purpose.
    pub short: u64,
    /// Syncs delayed on purpose.
    pub slow: u64,
}

pub(super) struct ControlPage {
    path: PathBuf,
    file: File,
}

// === impl Faults ===

impl Faults {
    /// A healthy disk.
    pub fn none() -> Self {
        Self::default()
    }

    /// A disk that is full now.
    pub fn full() -> Self {
        Self { space: Some(0), ..Self::default() }
    }

    /// A disk that fails every write and every sync.
    pub fn broken() -> Self {
        Self { write_error: Window::Always, sync_error: Window::Always, ..Self::default() }
    }
}

impl Window {
    /// The half-open range of call numbers, when `so_far` have been made.
    fn range(self, so_far: u64) -> [u64; 2] {
        match self {
            Self::Never => [u64::MAX, 0],
            Self::Always => [0, u64::MAX],
            Self::Nth(n) => [so_far + n, so_far + n + 1],
        }
    }
}

// === impl ControlPage ===

impl ControlPage {
    pub(super) fn create(path: &Path) -> Result<Self, DiskError> {
        std::fs::write(path, [0; FIELDS * 8]).map_err(file("write", path))?;
        let opened = File::options().read(true).write(true).open(path).map_err(file("open", path))?;
        let page = Self { path: path.to_owned(), file: opened };
        page.set(Faults::none())?;
        Ok(page)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn set(&self, faults: Faults) -> Result<(), DiskError> {
        let counted = self.counters()?;
        self.set_window(0, faults.write_error.range(counted.writes))?;
        self.set_window(2, faults.sync_error.range(counted.syncs))?;
        self.set_window(4, faults.short_write.range(counted.writes))?;
        let space = faults.space.map_or(u64::MAX, |space| counted.bytes.saturating_add(space));
        let delay = u64::try_from(faults.sync_delay.as_millis()).unwrap_or(u64::MAX);
        self.write(6, &[space, delay])
    }

    /// Changes a window so that a running shim sees the old one or the new one, and no mixture of both. The
    /// window is empty while its beginning moves, and the shim reads the beginning twice.
    fn set_window(&self, at: usize, [from, until]: [u64; 2]) -> Result<(), DiskError> {
        self.write(at + 1, &[0])?;
        self.write(at, &[from])?;
        self.write(at + 1, &[until])
    }

    pub(super) fn counters(&self) -> Result<Counters, DiskError> {
        let mut bytes = [0; FIELDS * 8];
        self.file.read_exact_at(&mut bytes, 0).map_err(file("read", &self.path))?;
        let field = |index: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[(COUNTERS_AT + index) * 8..][..8]);
            u64::from_ne_bytes(number)
        };
        Ok(Counters {
            attached: field(0),
            writes: field(1),
            syncs: field(2),
            bytes: field(3),
            errors: field(4),
            full: field(5),
            short: field(6),
            slow: field(7),
        })
    }

    pub(super) fn forget_attached(&self) -> Result<(), DiskError> {
        self.write(COUNTERS_AT, &[0])
    }

    fn write(&self, at: usize, fields: &[u64]) -> Result<(), DiskError> {
        let bytes: Vec<u8> = fields.iter().flat_map(|field| field.to_ne_bytes()).collect();
        self.file.write_all_at(&bytes, at as u64 * 8).map_err(file("write", &self.path))
    }
}
