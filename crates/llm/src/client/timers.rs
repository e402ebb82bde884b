//! The timeouts of one attempt.
//!
//! They count only the time spent waiting for the provider, so a slow consumer causes no timeout.

use crate::classify::{Failure, TimeoutKind};
use crate::profile::{Pings, Profile};
use std::time::Duration;

/// The timeouts of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection is open, TLS handshake included.
    pub connect: Duration,
    /// Until the response headers.
    pub headers: Duration,
    /// Without any byte, from a provider that sends pings.
    pub silence_with_pings: Duration,
    /// Without any byte, from any other provider.
    pub silence: Duration,
    /// Without progress of the model. Comments and pings are no progress.
    pub progress: Duration,
    /// For the whole attempt.
    pub lifetime: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            headers: Duration::from_secs(120),
            silence_with_pings: Duration::from_secs(120),
            silence: Duration::from_secs(300),
            progress: Duration::from_secs(15 * 60),
            lifetime: Duration::from_secs(30 * 60),
        }
    }
}

/// The timeouts of a running attempt, and the time that was used.
pub(super) struct Timers {
    timeouts: Timeouts,
    silence: Duration,
    /// Since the last progress.
    without_progress: Duration,
    alive: Duration,
}

impl Timers {
    pub(super) fn new(timeouts: &Timeouts, profile: &Profile) -> Self {
        let silence = match profile.pings {
            Pings::Known => timeouts.silence_with_pings,
            Pings::Unknown => timeouts.silence,
        };
        Self { timeouts: timeouts.clone(), silence, without_progress: Duration::ZERO, alive: Duration::ZERO }
    }

    /// How long the headers may take, and which timeout limits it.
    pub(super) fn for_head(&self) -> (Duration, TimeoutKind) {
        (self.timeouts.headers, TimeoutKind::Headers).min((self.timeouts.lifetime, TimeoutKind::Lifetime))
    }

    /// How long the next bytes may take, and which timeout limits it.
    pub(super) fn for_bytes(&self) -> (Duration, TimeoutKind) {
        let progress = self.timeouts.progress.saturating_sub(self.without_progress);
        let lifetime = self.timeouts.lifetime.saturating_sub(self.alive);
        [
            (self.silence, TimeoutKind::Silence),
            (progress, TimeoutKind::Progress),
            (lifetime, TimeoutKind::Lifetime),
        ]
        .into_iter()
        .min()
        .unwrap_or((Duration::ZERO, TimeoutKind::Lifetime))
    }

    /// Counts time that was spent waiting for the provider.
    pub(super) fn waited(&mut self, time: Duration) {
        self.without_progress += time;
        self.alive += time;
    }

    /// The model made progress.
    pub(super) fn progressed(&mut self) {
        self.without_progress = Duration::ZERO;
    }

    /// The failure of a timeout.
    pub(super) fn failure(&self, kind: TimeoutKind) -> Failure {
        let limit = match kind {
            TimeoutKind::Connect => self.timeouts.connect,
            TimeoutKind::Headers => self.timeouts.headers,
            TimeoutKind::Silence => self.silence,
            TimeoutKind::Progress => self.timeouts.progress,
            TimeoutKind::Lifetime => self.timeouts.lifetime,
        };
        Failure::timeout(kind, limit)
    }
}
