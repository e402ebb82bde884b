//! The limit of open files: every client needs one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit that applies, if there is one.
pub(crate) fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Raises the soft limit of open files to the hard limit, and returns the limit that now applies.
pub(crate) fn raise_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        // macOS refuses some hard limits that it reports. The old limit still applies.
        Err(_) => current,
    }
}
