//! Pages of a session's history, read from the log without the session's keeper.

use crate::error::RequestError;
use crate::gateway::Gateway;
use turnstream_log::{EventsPage, EventsQuery, ItemsPage, ItemsQuery, Log, PageError, ReadError};
use turnstream_model::id::SessionId;

impl Gateway {
    /// A page of folded items, the newest first.
    pub async fn items(&self, id: &SessionId, query: ItemsQuery) -> Result<ItemsPage, RequestError> {
        self.page(id, move |log, id| log.items_page(id, &query)).await
    }

    /// A page of events.
    pub async fn events(&self, id: &SessionId, query: EventsQuery) -> Result<EventsPage, RequestError> {
        self.page(id, move |log, id| log.events_page(id, &query)).await
    }

    async fn page<T: Send + 'static>(
        &self,
        id: &SessionId,
        read: impl FnOnce(&Log, &SessionId) -> Result<T, PageError> + Send + 'static,
    ) -> Result<T, RequestError> {
        let (log, id) = (self.log().clone(), id.clone());
        let read = tokio::task::spawn_blocking(move || read(&log, &id)).await;
        read.map_err(RequestError::log)?.map_err(refused)
    }
}

fn refused(error: PageError) -> RequestError {
    match error {
        PageError::Read(ReadError::Trimmed { oldest, .. }) => {
            RequestError::BadCursor(format!("{error}; begin with {oldest}"))
        }
        PageError::Read(error) => RequestError::of_read(error),
        PageError::UnknownItem { .. } | PageError::Generation { .. } | PageError::BeyondHead { .. } => {
            RequestError::BadCursor(error.to_string())
        }
    }
}
