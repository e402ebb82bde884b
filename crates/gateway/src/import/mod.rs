//! A session that was exported elsewhere: spooled to a file, judged whole, and only then brought into the log.

mod error;
mod ids;
mod judge;
mod lines;
mod spool;

pub use error::{BadFile, Fault, ImportError};
pub use spool::Spool;
pub(crate) use spool::sweep;

use crate::error::RequestError;
use crate::gateway::Gateway;
use crate::request::SessionInfo;
use crate::trouble::trouble;
use judge::{Judged, judge};
use lines::Events;
use std::fs::File;
use tokio::sync::MutexGuard;
use turnstream_log::{AppendError, ClaimError};
use turnstream_model::event::{Body, Event};
use turnstream_model::id::SessionId;

/// Under which id a session is imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportAs {
    /// The one it has in the file; refused when there is a session of that id.
    Itself,
    /// A fresh one, which then stands in `session.created` too.
    New,
}

/// The longest id that is taken from a file.
const LONGEST_ID: usize = 128;

impl Gateway {
    /// A place for the bytes of a file that is to be imported. Nothing of it is left when it is dropped, or after a crash.
    pub async fn spool(&self) -> Result<Spool, ImportError> {
        self.refuse_if_closing()?;
        self.refuse_if_degraded()?;
        Spool::new(self.data()).await
    }

    /// Brings a session in: all of it, with a new generation, or nothing. A caller that does not wait for it changes
    /// nothing.
    pub async fn import(&self, spool: Spool, under: ImportAs) -> Result<SessionInfo, ImportError> {
        self.refuse_if_closing()?;
        let gateway = self.clone();
        let done = tokio::spawn(async move { gateway.bring_in(spool, under).await });
        tokio::select! {
            biased;
            done = done => done.unwrap_or_else(|error| Err(RequestError::Log(error.to_string()).into())),
            trouble = trouble(self.log()) => Err(trouble.unkept().into()),
        }
    }

    async fn bring_in(&self, spool: Spool, under: ImportAs) -> Result<SessionInfo, ImportError> {
        // One at a time: the books of the judge are as large as the session.
        let _turn = self.importing().lock().await;
        let gateway = self.clone();
        let judging = tokio::task::spawn_blocking(move || {
            let mut file = spool.into_file()?;
            let judged = judge(&mut file, || gateway.refuse_if_closing().is_err())?;
            Ok::<_, ImportError>((judged, file))
        });
        let (judged, file) = joined(judging.await)??;
        let id = match under {
            ImportAs::Itself => usable(&judged.header.session)?,
            ImportAs::New => SessionId::from(format!("ses_{:016x}", fastrand::u64(..))),
        };
        let native_id = judged.native_id.clone();
        // One of that id that is being deleted leaves the board last, and must not take this one with it.
        self.shared().deletions.over(&id).await;
        // Until the board shows it too, whoever makes a session with a key would take it for one that a crash left empty.
        let _shown = self.fill(&id, judged, file, native_id).await?;
        turnstream_failpoint::reach("gateway.imported");
        let snapshot = self.snapshot(&id).await?;
        self.board().show(&id, snapshot.state.session);
        Ok(self.session(&id)?)
    }

    /// Returns with the lock under which sessions are made by key.
    async fn fill(
        &self,
        id: &SessionId,
        judged: Judged,
        file: File,
        native_id: Option<String>,
    ) -> Result<MutexGuard<'_, ()>, ImportError> {
        let mut base = judged.header.base.as_deref().cloned().unwrap_or_default();
        if base.session.id.is_some() {
            base.session.id = Some(id.clone());
        }
        let mut importer = self.log().import_after(id, base).await.map_err(|error| of_claim(id, error))?;
        turnstream_failpoint::reach("gateway.importing");
        let mut reader = Events::begin(file).map_err(ImportError::spool)?;
        loop {
            let reading = tokio::task::spawn_blocking(move || {
                let some = reader.some();
                (reader, some)
            });
            let (next, some) = joined(reading.await)?;
            reader = next;
            let mut events = some?;
            if events.is_empty() {
                break;
            }
            rename(&mut events, id);
            importer.append(events).await.map_err(|error| of_append(&judged, &error))?;
        }
        let shown = self.creating().lock().await;
        importer.finish(native_id).await.map_err(|error| of_claim(id, error))?;
        Ok(shown)
    }
}

/// What came of work on another thread.
fn joined<T>(done: Result<T, tokio::task::JoinError>) -> Result<T, ImportError> {
    done.map_err(|error| RequestError::Log(error.to_string()).into())
}

/// The first event says which session it is.
fn rename(events: &mut [Event], id: &SessionId) {
    for event in events {
        if let Body::SessionCreated { session, .. } = &mut event.draft.body {
            session.clone_from(id);
        }
    }
}

/// An id from a file stands in paths and file names here.
fn usable(id: &SessionId) -> Result<SessionId, BadFile> {
    let is_usable = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if id.as_str().len() <= LONGEST_ID && id.as_str().bytes().all(is_usable) {
        return Ok(id.clone());
    }
    let problem = format!(
        "the session's id {:?} cannot be used here: letters, digits, - and _ can, up to {LONGEST_ID}; import it under a \
         new id",
        id.as_str()
    );
    Err(BadFile { line: 1, fault: Fault::Damaged, problem })
}

fn of_claim(id: &SessionId, error: ClaimError) -> ImportError {
    match error {
        ClaimError::Exists(_) => ImportError::Exists(id.clone()),
        other => RequestError::of_claim(other).into(),
    }
}

fn of_append(judged: &Judged, error: &AppendError) -> ImportError {
    match error {
        AppendError::TooLarge { .. } => {
            let problem = format!("an event is larger than a log can hold: {error}");
            BadFile { line: judged.longest, fault: Fault::Damaged, problem }.into()
        }
        other => RequestError::of_append(other).into(),
    }
}
