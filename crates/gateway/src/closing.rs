//! Shutdown of a gateway: keepers, then agents, then the log. It takes less than five seconds, whatever
//! agents do and also on a failing disk.

use crate::gateway::Gateway;
use crate::keeper::Handle;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use turnstream_model::Chain;

/// How long keepers may take to end before they are aborted.
const KEEPERS: Duration = Duration::from_millis(1_200);
/// How long keepers may take in all. An aborted keeper ends at its next await.
const FORCED: Duration = Duration::from_millis(1_400);
/// How long keepers and agents may take together. Agents have the rest of it after the keepers: at least two
/// seconds. The log needs the remaining time: about 1.25 seconds on a failing disk.
const AGENTS: Duration = Duration::from_millis(3_500);

/// How long a log takes to close at most, on a failing disk.
const LOG: Duration = Duration::from_millis(1_300);
/// Checked at compile time: a test with a clock would depend on the machine's load.
const _: () = {
    assert!(KEEPERS.as_millis() < FORCED.as_millis());
    assert!(FORCED.as_millis() + 2_000 <= AGENTS.as_millis());
    assert!(AGENTS.as_millis() + LOG.as_millis() < 5_000);
};

impl Gateway {
    /// Stops every agent, appends what is known of open turns, and unlocks the directory, within five
    /// seconds. Returns what could not be stopped.
    pub async fn close(self) -> Vec<String> {
        let began = Instant::now();
        let ends: Vec<_> = self.shared().begin_closing().into_iter().map(Handle::stop).collect();
        let keepers = ends.len();
        let mut ended = pin!(async {
            for end in ends {
                end.await;
            }
        });
        if timeout_at(began + KEEPERS, &mut ended).await.is_err() {
            tracing::warn!(keepers, "sessions did not end in time, and are aborted");
            self.shared().abort_keepers();
            // Waited for, because none may start an agent again after it was stopped.
            if timeout_at(began + FORCED, &mut ended).await.is_err() {
                tracing::warn!("an aborted session has not ended");
            }
        }
        let unstopped = self.stop_agents(began + AGENTS).await;
        for problem in &unstopped {
            // The caller gets it, and logs it.
            tracing::debug!(error = problem, "an agent could not be stopped");
        }
        self.shared().provider_requests.close().await;
        // The log has a deadline of its own for a failing disk.
        self.log().clone().close().await;
        let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(sessions = keepers, duration_ms, "gateway stopped");
        unstopped
    }

    /// Stops the processes that agents share between sessions, all agents at the same time.
    async fn stop_agents(&self, by: Instant) -> Vec<String> {
        let shared = self.shared();
        let stops: Vec<_> = shared
            .agents()
            .iter()
            .map(|(name, agent)| {
                let (name, agent) = (name.clone(), agent.clone());
                let within = by.saturating_duration_since(Instant::now());
                tokio::spawn(async move {
                    let problem = match timeout_at(by, agent.stop()).await {
                        Ok(Ok(())) => return None,
                        Ok(Err(error)) => Chain(&error).to_string(),
                        Err(_) => format!("it did not end within {within:.1?}"),
                    };
                    Some(format!("agent {name} could not be stopped: {problem}"))
                })
            })
            .collect();
        let mut unstopped = Vec::new();
        for stop in stops {
            unstopped.extend(stop.await.unwrap_or_else(|error| Some(error.to_string())));
        }
        unstopped
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step fails the test")]
mod tests {
    use crate::error::RequestError;
    use crate::gateway::Gateway;
    use crate::settings::Settings;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use turnstream_agents::Agent;
    use turnstream_agents::demo::{DemoAgent, DemoConfig};

    #[tokio::test(flavor = "multi_thread")]
    async fn no_keeper_is_woken_once_the_gateway_closes() {
        let home = tempfile::tempdir().unwrap();
        let settings = Settings { roots: vec![home.path().to_owned()], ..Settings::default() };
        let agent = Arc::new(DemoAgent::new(DemoConfig::default())) as Arc<dyn Agent>;
        let agents = BTreeMap::from([("scripted".to_owned(), agent)]);
        let gateway = Gateway::open(&home.path().join("data"), settings, agents).await.unwrap();
        let new = crate::NewSession {
            agent: "scripted".to_owned(),
            cwd: home.path().to_owned(),
            ..crate::NewSession::default()
        };
        let id = gateway.create(new).await.unwrap().session.id.unwrap();
        let awake = gateway.shared().begin_closing();
        assert_eq!(awake.len(), 1);
        assert_eq!(gateway.keeper(&id).err(), Some(RequestError::Closing));
        for keeper in awake {
            keeper.stop().await;
        }
        assert_eq!(gateway.close().await, Vec::<String>::new());
    }
}
