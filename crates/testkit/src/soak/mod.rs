//! A soak of a running gateway: turns of the demo agent beside idle, slow and hostile connections.
//!
//! First the turns run alone, then the same turns run beside the crowd. Every turn must be whole: exactly one
//! `turn.ended`, in a lawful log. How long prompts took to be accepted is reported for both.

mod crowd;
mod gateway;
mod turns;

use crowd::Crowd;
use gateway::GatewayClient;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What to do with which gateway.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the gateway listens.
    pub address: SocketAddr,
    /// Its token.
    pub token: String,
    /// A directory in which its sessions may work.
    pub cwd: PathBuf,
    /// How long the turns run alone.
    pub quiet: Duration,
    /// How long they run beside the crowd.
    pub loaded: Duration,
    /// Turns at a time, each in a session of its own.
    pub turns: usize,
    /// Connections that send nothing.
    pub idle: usize,
    /// Connections that send or read a byte now and then.
    pub slow: usize,
    /// Connections that send garbage, stop in the middle, never read, or are reset.
    pub hostile: usize,
}

/// What happened.
#[derive(Clone, Debug)]
pub struct Report {
    /// How long each prompt took to be accepted while the turns ran alone, sorted.
    pub quiet: Vec<Duration>,
    /// The same beside the crowd.
    pub loaded: Vec<Duration>,
    /// Connections that the hostile clients opened.
    pub hostile: usize,
    /// Samples of the gateway's metrics after the turns.
    pub metrics: Vec<String>,
}

/// Carries out the plan.
///
/// # Panics
///
/// When a request of a turn fails, when a turn is not whole, or when the gateway does not answer afterwards.
pub async fn run(plan: &Plan) -> Report {
    let gateway = GatewayClient::new(plan.address, &plan.token);
    let mut sessions = Vec::new();
    for _ in 0..plan.turns {
        sessions.push(turns::Session::create(&gateway, &plan.cwd).await);
    }
    let (sessions, mut quiet) = turns::run(sessions, plan.quiet).await;
    let crowd = Crowd::gather(plan).await;
    let (sessions, mut loaded) = turns::run(sessions, plan.loaded).await;
    let hostile = crowd.hostile_connections();
    let metrics = gateway.metrics(&["turnstream_connections", "turnstream_refused", "turnstream_body"]).await;
    drop(crowd);
    for session in &sessions {
        session.judge().await;
    }
    quiet.sort_unstable();
    loaded.sort_unstable();
    Report { quiet, loaded, hostile, metrics }
}

// === impl Report ===

impl Report {
    /// Whether a prompt beside the crowd took less than three times as long as without it, at the 99th
    /// percentile.
    pub fn is_fast(&self) -> bool {
        percentile(&self.loaded, 99) < percentile(&self.quiet, 99) * 3
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, latencies) in [("alone", &self.quiet), ("beside the crowd", &self.loaded)] {
            let [half, most] = [50, 99].map(|percent| percentile(latencies, percent));
            writeln!(
                f,
                "{} turns {name}: prompts accepted in {half:?} (p50), {most:?} (p99)",
                latencies.len()
            )?;
        }
        writeln!(f, "hostile connections: {}", self.hostile)?;
        for line in &self.metrics {
            writeln!(f, "{line}")?;
        }
        let verdict = if self.is_fast() { "met" } else { "missed" };
        write!(f, "p99 beside the crowd below 3 times the quiet p99: {verdict}")
    }
}

/// A percentile of sorted values.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let last = sorted.len().saturating_sub(1);
    sorted.get((sorted.len() * percent / 100).min(last)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Duration, percentile};

    #[test]
    fn percentiles_are_of_the_sorted_values() {
        let values: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(percentile(&values, 50), Duration::from_millis(51));
        assert_eq!(percentile(&values, 99), Duration::from_millis(100));
        assert_eq!(percentile(&[], 99), Duration::ZERO);
    }
}
