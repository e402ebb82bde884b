//! Latencies of one cell, and their percentiles.

use std::time::Duration;

/// Latencies in microseconds, sorted.
#[derive(Debug, Default)]
pub struct Latencies {
    micros: Vec<u64>,
}

impl Latencies {
    /// Sorts the measurements.
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

    /// The median; zero without measurements.
    pub fn p50(&self) -> Duration {
        self.at(0.50)
    }

    /// The 99th percentile.
    pub fn p99(&self) -> Duration {
        self.at(0.99)
    }

    /// The 99.9th percentile.
    pub fn p999(&self) -> Duration {
        self.at(0.999)
    }

    /// The maximum.
    pub fn max(&self) -> Duration {
        self.at(1.0)
    }
}
