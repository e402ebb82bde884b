//! The end of a gateway: keepers, then agents, then the log. Whatever agents do, and also on a disk that fails, it takes less
//! than five seconds.

use crate::gateway::Gateway;
use crate::keeper::Handle;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long keepers may take to end in order; then they are ended by force.
const KEEPERS: Duration = Duration::from_millis(1_200);
/// How long keepers may take in all. One that was ended by force is gone at its next await.
const FORCED: Duration = Duration::from_millis(1_400);
/// How long keepers and agents may take together. An agent has what is left after the keepers: at least two seconds to end
/// in order. The log needs the rest of the five seconds: about one and a quarter on a disk that fails.
const AGENTS: Duration = Duration::from_millis(3_500);

/// What a log with a disk that fails takes to close, at most.
const LOG: Duration = Duration::from_millis(1_300);
/// Checked here and not by a clock in a test: on a machine that has other work to do, everything takes longer.
const _: () = {
    assert!(KEEPERS.as_millis() < FORCED.as_millis());
    assert!(FORCED.as_millis() + 2_000 <= AGENTS.as_millis());
    assert!(AGENTS.as_millis() + LOG.as_millis() < 5_000);
};

impl Gateway {
    /// Stops every agent, keeps what is known, and gives the directory free, within five seconds.
    /// Returns what could not be stopped.
    pub async fn close(self) -> Vec<String> {
        let began = Instant::now();
        let ends: Vec<_> = self.shared().begin_closing().into_iter().map(Handle::stop).collect();
        let mut ended = pin!(async {
            for end in ends {
                end.await;
            }
        });
        if timeout_at(began + KEEPERS, &mut ended).await.is_err() {
            self.shared().abort_keepers();
            // Waited for: none may start an agent again after it was stopped.
            let _ = timeout_at(began + FORCED, &mut ended).await;
        }
        let left = self.stop_agents(began + AGENTS).await;
        // It has its own deadline for a disk that fails. On a sound one it is waited for, so that the directory is free.
        self.log().clone().close().await;
        left
    }

    /// Ends what agents run for all their sessions, each at the same time as the others.
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
                        Ok(Err(problem)) => problem,
                        Err(_) => format!("it did not end within {within:.1?}"),
                    };
                    Some(format!("agent {name} could not be stopped: {problem}"))
                })
            })
            .collect();
        let mut left = Vec::new();
        for stop in stops {
            left.extend(stop.await.unwrap_or_else(|error| Some(error.to_string())));
        }
        left
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
            title: None,
            model: None,
            permissions: None,
            redact_prompts: None,
            key: None,
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
