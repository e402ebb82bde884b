//! The limits of an account, as `account/rateLimits/updated` tells them (capture
//! `f_429_usage_limit_resets`). The error of a turn has the time only in prose, which is not read.

use serde::Deserialize;
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::time::Time;

/// A used-up window, in percent.
const USED_UP: f64 = 100.0;

/// The windows of an account. An update may leave out what has not changed.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RateLimits {
    primary: Option<Window>,
    secondary: Option<Window>,
}

/// The message with the limits.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RateLimitsLine {
    pub(super) rate_limits: RateLimits,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Window {
    used_percent: f64,
    /// In seconds.
    resets_at: Option<u64>,
}

impl RateLimits {
    /// Takes over the windows that an update has.
    pub(super) fn update(&mut self, newer: Self) {
        self.primary = newer.primary.or(self.primary.take());
        self.secondary = newer.secondary.or(self.secondary.take());
    }

    /// Gives the error of a limit the time at which all used-up windows begin anew.
    pub(super) fn complete(&self, error: &mut TurnError, now: Time) {
        let is_limit = matches!(error.class, ErrorClass::QuotaExhausted | ErrorClass::RateLimited);
        if !is_limit || error.retry_at.is_some() {
            return;
        }
        let used_up = [&self.primary, &self.secondary].into_iter().flatten();
        let used_up = used_up.filter(|window| window.used_percent >= USED_UP);
        let resets = used_up.filter_map(|window| window.resets_at.map(|at| Time(at.saturating_mul(1_000))));
        error.retry_at = resets.max().filter(|at| *at > now);
    }
}
