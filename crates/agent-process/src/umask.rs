//! Two umasks in one process: a strict one for the gateway's own files, and the user's for agents.
//!
//! What an agent writes belongs to the user's project, so it gets the modes that the user's shell would give.

use rustix::fs::Mode;
use rustix::process::umask;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Files of the gateway are for its user only.
const STRICT: Mode = Mode::from_bits_retain(0o077);

/// The umask that the process was started with, once [`restrict_umask`] has replaced it.
static OF_USER: Mutex<Option<Mode>> = Mutex::new(None);

/// From here on, files that this process creates are for its user only.
pub fn restrict_umask() {
    let mut of_user = of_user();
    let before = umask(STRICT);
    of_user.get_or_insert(before);
}

/// Runs `act` with the umask that the process was started with: for files of the user's project, and to start
/// an agent.
///
/// The umask is one for all threads. A file of the gateway that another thread creates meanwhile gets a mode
/// of the user's umask, in a data directory that nobody else can enter.
pub fn with_user_umask<T>(act: impl FnOnce() -> T) -> T {
    let of_user = of_user();
    let Some(mode) = *of_user else { return act() };
    let _strict = RestoreStrict;
    umask(mode);
    act()
}

/// Also after a panic.
struct RestoreStrict;

impl Drop for RestoreStrict {
    fn drop(&mut self) {
        umask(STRICT);
    }
}

fn of_user() -> MutexGuard<'static, Option<Mode>> {
    // The mode is whole also after a panic of its holder.
    OF_USER.lock().unwrap_or_else(PoisonError::into_inner)
}
