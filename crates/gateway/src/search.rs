//! Search over everything that is finished, in all sessions.

use crate::error::RequestError;
use crate::gateway::Gateway;
use turnstream_log::{Page, Query, SearchError};

/// Searches at a time; the others wait for their turn. Each keeps a thread and a connection busy.
pub(crate) const AT_A_TIME: usize = 4;

impl Gateway {
    /// Finished items and what users said, the newest first. What has just ended is found about a second later.
    pub async fn search(&self, query: Query) -> Result<Page, RequestError> {
        self.refuse_if_closing()?;
        let failed = |problem: String| RequestError::Log(problem);
        let turn = self.shared().searching.clone().acquire_owned().await;
        let turn = turn.map_err(|error| failed(error.to_string()))?;
        let log = self.log().clone();
        let search = tokio::task::spawn_blocking(move || {
            let page = log.search(&query);
            drop(turn);
            page
        });
        search.await.map_err(|error| failed(error.to_string()))?.map_err(|error| match error {
            SearchError::Words(_) | SearchError::Limit(_) => RequestError::BadSearch(error.to_string()),
            SearchError::Cursor(_) => RequestError::BadCursor(error.to_string()),
            SearchError::Read(error) => RequestError::of_read(error),
        })
    }
}
