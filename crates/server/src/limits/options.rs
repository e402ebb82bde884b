//! The limits as an operator sets them.

use crate::body;
use std::time::Duration;

/// File descriptors that are kept for the log, for agents and for answers to refused connections, at least.
const RESERVE: u64 = 128;

/// Limits of a server. The defaults are far above what a product on one machine needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections in all. Fewer are allowed if the process may have few file descriptors.
    pub connections: usize,
    /// Open connections of one client address. For IPv6 it is a network of 64 bits.
    pub connections_per_address: usize,
    /// File descriptors that the process may have, if there is a limit.
    pub descriptors: Option<u64>,
    /// Requests per second of one token. Without tokens, of one client address.
    pub requests_per_second: u64,
    /// Requests that may come at once after a pause, beyond the rate.
    pub requests_burst: u64,
    /// Open event streams and WebSockets in all.
    pub followers: usize,
    /// Bytes of memory for bodies that have not arrived completely, in all. At least 14 MiB, so that a whole
    /// body fits.
    pub body_memory: usize,
    /// The time in which the file of an import must arrive.
    pub import_time: Duration,
    /// How long a body waits for memory, and an import for the one before it, until they are refused.
    pub wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 12_000,
            connections_per_address: 6_000,
            descriptors: None,
            requests_per_second: 2_000,
            requests_burst: 10_000,
            followers: 11_000,
            body_memory: 64 << 20,
            import_time: Duration::from_secs(3_600),
            wait: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// The connections that are allowed: a reserve of file descriptors is left for the log and for agents.
    ///
    /// The reserve is a quarter of all descriptors and at least 128, but at most a half.
    pub fn connections_allowed(&self) -> usize {
        let Some(descriptors) = self.descriptors else { return self.connections };
        let reserve = RESERVE.max(descriptors / 4).min(descriptors / 2);
        let left = usize::try_from(descriptors - reserve).unwrap_or(usize::MAX);
        self.connections.min(left).max(1)
    }

    /// The memory for bodies. A whole body fits into three quarters of it.
    pub(super) fn body_memory_allowed(&self) -> usize {
        self.body_memory.max(body::LIMIT / 3 * 4 + 4)
    }
}

#[cfg(test)]
mod tests {
    use super::Limits;

    #[test]
    fn descriptors_are_kept_in_reserve() {
        let allowed = |descriptors| {
            Limits { connections: 5_000, descriptors, ..Limits::default() }.connections_allowed()
        };
        assert_eq!(allowed(None), 5_000);
        assert_eq!(allowed(Some(1_000_000)), 5_000);
        assert_eq!(allowed(Some(4_096)), 3_072);
        assert_eq!(allowed(Some(1_024)), 768);
        assert_eq!(allowed(Some(256)), 128);
        assert_eq!(allowed(Some(100)), 50);
        assert_eq!(allowed(Some(1)), 1);
    }
}
