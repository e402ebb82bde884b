//! Latencies of one cell, and their percentiles.

use std::time::Duration;

/// Latencies in microseconds, sorted.
#[derive(Debug, Default)]
pub struct Latencies {
    micros: Vec<u64>,
}

impl Latencies {
    /// Sorts what was measured.
    pub fn of(mut micros: Vec<u64>) -> Self {
        micros.sort_unstable();
        Self { micros }
    }

    fn at(&self, share: f64) -> Duration {
        let index = (self.micros.len() as f64 * share) as usize;
        Duration::from_micros(
            self.micros.get(index.min(self.micros.len().saturating_sub(1))).copied().unwrap_or(0),
        )
    }

    /// The median; zero of nothing.
    pub fn p50(&self) -> Duration {
        self.at(0.50)
    }

    /// What 99 of 100 are below.
    pub fn p99(&self) -> Duration {
        self.at(0.99)
    }

    /// What 999 of 1,000 are below.
    pub fn p999(&self) -> Duration {
        self.at(0.999)
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        self.at(1.0)
    }
}
