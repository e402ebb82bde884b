//! The clocks of one attempt. They count only time spent waiting for the provider: a slow reader is not its fault.

use crate::classify::{Clock, Failure};
use crate::profile::{Pings, Profile};
use std::time::Duration;

/// How long each part of an attempt may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Until there is a connection.
    pub connect: Duration,
    /// Until the head of the answer.
    pub headers: Duration,
    /// Without one byte, from a provider that is known to ping.
    pub silence_with_pings: Duration,
    /// Without one byte, from any other.
    pub silence: Duration,
    /// Without anything that means something. Comments and pings do not.
    pub progress: Duration,
    /// All of it.
    pub lifetime: Duration,
}

impl Default for Clocks {
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

/// How much of it is used up.
pub(super) struct Timers {
    clocks: Clocks,
    silence: Duration,
    /// Since the last progress.
    without_progress: Duration,
    alive: Duration,
}

impl Timers {
    pub(super) fn new(clocks: &Clocks, profile: &Profile) -> Self {
        let silence = match profile.pings {
            Pings::Known => clocks.silence_with_pings,
            Pings::Unknown => clocks.silence,
        };
        Self { clocks: clocks.clone(), silence, without_progress: Duration::ZERO, alive: Duration::ZERO }
    }

    /// How long the head may take from now on, and which clock says so.
    pub(super) fn for_head(&self) -> (Duration, Clock) {
        (self.clocks.headers, Clock::Headers).min((self.clocks.lifetime, Clock::Lifetime))
    }

    /// How long the next bytes may take, and which clock says so.
    pub(super) fn for_bytes(&self) -> (Duration, Clock) {
        let progress = self.clocks.progress.saturating_sub(self.without_progress);
        let lifetime = self.clocks.lifetime.saturating_sub(self.alive);
        [(self.silence, Clock::Silence), (progress, Clock::Progress), (lifetime, Clock::Lifetime)]
            .into_iter()
            .min()
            .unwrap_or((Duration::ZERO, Clock::Lifetime))
    }

    /// So long was waited for the provider.
    pub(super) fn waited(&mut self, how_long: Duration) {
        self.without_progress += how_long;
        self.alive += how_long;
    }

    /// Something came that means something.
    pub(super) fn progressed(&mut self) {
        self.without_progress = Duration::ZERO;
    }

    /// That this clock ran out.
    pub(super) fn failure(&self, clock: Clock) -> Failure {
        let limit = match clock {
            Clock::Connect => self.clocks.connect,
            Clock::Headers => self.clocks.headers,
            Clock::Silence => self.silence,
            Clock::Progress => self.clocks.progress,
            Clock::Lifetime => self.clocks.lifetime,
        };
        Failure::clock(clock, limit)
    }
}
