//! Wrong tokens: counted, logged with the address they came from, and answered slowly.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Wrong tokens of one address that are answered at once: a person makes mistakes.
const FREE: u32 = 3;
/// The first delay. Each further wrong token doubles it.
const FIRST_DELAY: Duration = Duration::from_millis(250);
const LONGEST_DELAY: Duration = Duration::from_secs(4);
/// Quiet time after which an address starts anew.
const FORGET: Duration = Duration::from_secs(300);
/// Addresses that are remembered. With more, all are forgotten: the delay is a brake, and no lock.
const REMEMBERED: usize = 4_096;

/// The wrong tokens since the start.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    total: AtomicU64,
    by_address: Mutex<HashMap<IpAddr, Recent>>,
}

#[derive(Debug)]
struct Recent {
    count: u32,
    last: Instant,
}

impl Failures {
    /// Counts a wrong token. Returns how long its answer must wait.
    pub(crate) fn add(&self, address: Option<IpAddr>, now: Instant) -> Duration {
        self.total.fetch_add(1, Ordering::Relaxed);
        let Some(address) = address else { return Duration::ZERO };
        let count = self.count(address, now);
        // Not one line per failure: the 1st, 2nd, 4th, 8th and so on.
        if count.is_power_of_two() {
            tracing::warn!(%address, count, "a wrong token was sent");
        }
        match count.saturating_sub(FREE) {
            0 => Duration::ZERO,
            over => {
                LONGEST_DELAY.min(FIRST_DELAY.saturating_mul(1_u32.checked_shl(over - 1).unwrap_or(u32::MAX)))
            }
        }
    }

    fn count(&self, address: IpAddr, now: Instant) -> u32 {
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        by_address.retain(|_, recent| now.duration_since(recent.last) < FORGET);
        if by_address.len() >= REMEMBERED && !by_address.contains_key(&address) {
            by_address.clear();
        }
        let recent = by_address.entry(address).or_insert(Recent { count: 0, last: now });
        recent.count = recent.count.saturating_add(1);
        recent.last = now;
        recent.count
    }

    /// All wrong tokens since the start.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{FORGET, Failures, LONGEST_DELAY};
    use std::net::IpAddr;
    use std::time::{Duration, Instant};

    #[test]
    fn the_answers_to_an_address_that_guesses_become_slow_and_others_are_not_affected() {
        let (failures, now) = (Failures::default(), Instant::now());
        let (one, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let delays: Vec<Duration> = (0..10).map(|_| failures.add(Some(one), now)).collect();
        assert_eq!(delays[..3], [Duration::ZERO; 3]);
        assert_eq!(delays[3..6], [250, 500, 1_000].map(Duration::from_millis));
        assert_eq!(delays[9], LONGEST_DELAY);
        assert_eq!(failures.add(Some(other), now), Duration::ZERO);
        assert_eq!(failures.add(Some(one), now + FORGET), Duration::ZERO, "after a quiet time");
        assert_eq!(failures.total(), 12);
        for _ in 0..100 {
            failures.add(Some(one), now + FORGET);
        }
        assert_eq!(failures.add(Some(one), now + FORGET), LONGEST_DELAY, "however many");
    }
}
