//! The MCP servers of sessions, which may hold secrets: one file per session in the data directory, for its
//! owner only. The log has only their names.

use serde_json::Value;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use turnstream_adapter::{AgentError, BadMcp, McpServer};
use turnstream_model::id::SessionId;

/// The folder in the data directory.
const FOLDER: &str = "mcp";
/// The end of a file's name.
const ENDING: &str = ".json";
/// The end of the name of a file that is being written.
const UNFINISHED: &str = ".new";

/// The files of all sessions. Cloning shares them.
#[derive(Clone)]
pub(crate) struct McpStore(Arc<Folder>);

/// The folder of the files.
struct Folder(PathBuf);

/// Why the MCP servers of a session cannot be stored or read. It never shows a value of them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum McpStoreError {
    #[error("the file of the session's MCP servers cannot be {what}: {source}")]
    File {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("the file of the session's MCP servers is damaged; delete the session, and create it again")]
    Damaged(#[source] Option<BadMcp>),
}

impl AgentError for McpStoreError {
    fn for_log(&self) -> String {
        self.to_string()
    }
}

// === impl McpStore ===

impl McpStore {
    pub(crate) fn new(data: &Path) -> Self {
        Self(Arc::new(Folder(data.join(FOLDER))))
    }

    /// Stores the servers of a session. They are durable when this returns.
    pub(crate) async fn store(&self, id: &SessionId, servers: Vec<McpServer>) -> Result<(), McpStoreError> {
        self.work("written", id, move |folder, id| folder.write(id, &servers)).await
    }

    /// The servers of a session.
    pub(crate) async fn servers(&self, id: &SessionId) -> Result<Vec<McpServer>, McpStoreError> {
        let bytes = self.work("read", id, |folder, id| fs::read(folder.file(id))).await?;
        let list: Vec<Value> = serde_json::from_slice(&bytes).map_err(|_| McpStoreError::Damaged(None))?;
        McpServer::read_list(&list).map_err(|problem| McpStoreError::Damaged(Some(problem)))
    }

    /// Removes the servers of a session, if it has some. That is durable when this returns.
    pub(crate) async fn forget(&self, id: &SessionId) -> Result<(), McpStoreError> {
        self.work("removed", id, |folder, id| folder.remove(id)).await
    }

    /// Removes files that a crash has left: those of sessions which have no servers.
    pub(crate) fn remove_leftovers(&self, has_servers: impl Fn(&SessionId) -> bool) {
        let folder = &self.0.0;
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                tracing::warn!(%error, path = %folder.display(), "the folder of MCP servers cannot be read");
                return;
            }
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let session = name.to_str().and_then(|name| name.strip_suffix(ENDING)).map(SessionId::from);
            if session.is_some_and(|session| has_servers(&session)) {
                continue;
            }
            if let Err(error) = fs::remove_file(entry.path()) {
                tracing::warn!(%error, path = %entry.path().display(), "a leftover file cannot be removed");
            }
        }
    }

    async fn work<T: Send + 'static>(
        &self,
        what: &'static str,
        id: &SessionId,
        work: impl FnOnce(&Folder, &SessionId) -> io::Result<T> + Send + 'static,
    ) -> Result<T, McpStoreError> {
        let (folder, id) = (self.0.clone(), id.clone());
        let done = tokio::task::spawn_blocking(move || work(&folder, &id)).await;
        let done = done.map_err(io::Error::other).and_then(|done| done);
        done.map_err(|source| McpStoreError::File { what, source })
    }
}

// === impl Folder ===

impl Folder {
    fn file(&self, id: &SessionId) -> PathBuf {
        self.0.join(format!("{id}{ENDING}"))
    }

    /// Writes under a temporary name, so that a crash leaves a whole file or none.
    fn write(&self, id: &SessionId, servers: &[McpServer]) -> io::Result<()> {
        let mut folder = DirBuilder::new();
        folder.recursive(true).mode(0o700).create(&self.0)?;
        if let Some(data) = self.0.parent() {
            File::open(data)?.sync_all()?;
        }
        let list: Vec<Value> = servers.iter().map(McpServer::to_json).collect();
        let unfinished = self.0.join(format!("{id}{UNFINISHED}"));
        remove_if_there(&unfinished)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        file.write_all(Value::from(list).to_string().as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, self.file(id))?;
        File::open(&self.0)?.sync_all()
    }

    fn remove(&self, id: &SessionId) -> io::Result<()> {
        if remove_if_there(&self.file(id))? {
            File::open(&self.0)?.sync_all()?;
        }
        Ok(())
    }
}

/// Whether there was one.
fn remove_if_there(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
