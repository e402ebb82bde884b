//! Search over finished items and prompts of all sessions.

use crate::error::RequestError;
use crate::gateway::Gateway;
use tokio::time::timeout;
use turnstream_log::{Interest, Page, Query, SearchError, Waiting};

/// Searches that run at a time; others wait. Each occupies a thread and a connection.
pub(crate) const AT_A_TIME: usize = 4;

impl Gateway {
    /// Finished items and prompts, the newest first. An item is found about a second after its end.
    /// Dropping the future stops the search.
    pub async fn search(&self, query: Query) -> Result<Page, RequestError> {
        let log = self.log().clone();
        let found = self.in_turn(move |interest| log.search_while(&query, interest)).await?;
        found.map_err(|error| match error {
            SearchError::Words(_) | SearchError::Limit(_) => RequestError::BadSearch(error.to_string()),
            SearchError::Cursor(_) => RequestError::BadCursor(error.to_string()),
            SearchError::Read(error) => RequestError::of_read(error),
        })
    }

    /// Runs blocking work on another thread, at most [`AT_A_TIME`] at once, while its caller waits for it.
    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce(Interest) -> T + Send + 'static,
    ) -> Result<T, RequestError> {
        self.refuse_if_closing()?;
        let waited = self.settings().search;
        let turn = timeout(waited, self.shared().searching.clone().acquire_owned()).await;
        let turn = turn.map_err(|_| RequestError::SearchBusy { at_a_time: AT_A_TIME, waited })?;
        let turn = turn.map_err(RequestError::log)?;
        // The shutdown may have begun during the wait.
        self.refuse_if_closing()?;
        let waiting = Waiting::new();
        let interest = waiting.interest();
        let work = tokio::task::spawn_blocking(move || {
            let done = work(interest);
            drop(turn);
            done
        });
        let done = work.await;
        drop(waiting);
        done.map_err(RequestError::log)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step fails the test")]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};
    use tokio::sync::mpsc;

    /// How long anything may take here before the test fails; nothing should come near it.
    const PATIENCE: Duration = Duration::from_secs(300);

    async fn gateway(home: &tempfile::TempDir, search: Duration) -> Gateway {
        let settings = Settings { search, ..Settings::default() };
        Gateway::open(&home.path().join("data"), settings, BTreeMap::new()).await.unwrap()
    }

    /// Goes on until nobody waits for it; false when it had to give up itself.
    fn look_for_ever(interest: &Interest) -> bool {
        let begun = Instant::now();
        while !interest.is_over() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        interest.is_over()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_search_that_gets_no_turn_in_time_is_refused_and_can_be_asked_again() {
        let home = tempfile::tempdir().unwrap();
        let waited = Duration::from_millis(20);
        let gateway = gateway(&home, waited).await;
        let query = Query { words: "word".to_owned(), ..Query::default() };
        let turns = gateway.shared().searching.clone().acquire_many_owned(AT_A_TIME as u32).await.unwrap();
        let refused = gateway.search(query.clone()).await.unwrap_err();
        assert_eq!(refused, RequestError::SearchBusy { at_a_time: AT_A_TIME, waited });
        assert_eq!(
            refused.to_string(),
            "4 searches are running and none ended within 20.0ms; try again in a moment"
        );
        drop(turns);
        assert_eq!(gateway.search(query).await.unwrap().hits, []);
        gateway.close().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn whoever_goes_away_stops_the_search_and_leaves_the_turn_to_the_next() {
        let home = tempfile::tempdir().unwrap();
        let gateway = gateway(&home, PATIENCE).await;
        let (told, mut stopped) = mpsc::unbounded_channel();
        let (begun, mut beginning) = mpsc::unbounded_channel();
        let askers: Vec<_> = (0..AT_A_TIME)
            .map(|_| {
                let (gateway, begun, told) = (gateway.clone(), begun.clone(), told.clone());
                tokio::spawn(async move {
                    let work = move |interest: Interest| {
                        begun.send(()).unwrap();
                        told.send(look_for_ever(&interest)).unwrap();
                    };
                    gateway.in_turn(work).await
                })
            })
            .collect();
        for _ in 0..AT_A_TIME {
            beginning.recv().await.unwrap();
        }
        askers.iter().for_each(tokio::task::JoinHandle::abort);
        for _ in 0..AT_A_TIME {
            assert!(stopped.recv().await.unwrap(), "it was told that nobody waits");
        }
        assert_eq!(gateway.in_turn(|interest| interest.is_over()).await, Ok(false));
        gateway.close().await;
    }
}
