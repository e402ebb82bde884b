//! Import of an exported session: written to a file, validated as a whole, and only then added to the log.

mod error;
mod ids;
mod lines;
mod spool;
mod validate;

pub use error::{BadFile, Fault, ImportError};
pub use spool::Spool;
pub(crate) use spool::remove_leftovers;

use crate::disk_failure;
use crate::error::RequestError;
use crate::gateway::Gateway;
use crate::request::SessionInfo;
use lines::Events;
use serde::Serialize;
use std::fs::File;
use tokio::sync::MutexGuard;
use tokio::time::Instant;
use tracing::Instrument;
use turnstream_log::{AppendError, ClaimError};
use turnstream_model::event::{
    Aside, Body, By, Draft, Event, Permissions, Released, SessionPatch, Status, Unattended,
};
use turnstream_model::fold::Session;
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;
use validate::{ValidFile, validate};

/// The id of an imported session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportAs {
    /// The id in the file; refused when a session has it.
    Itself,
    /// A new id, also in the imported `session.created`.
    New,
}

/// A session that was imported.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ImportedSession {
    /// The session.
    #[serde(flatten)]
    pub info: SessionInfo,
    /// Events whose time in the file was before that of an earlier event. They have the time of that one.
    #[serde(skip_serializing_if = "is_zero")]
    pub mended_times: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The longest id that is accepted from a file.
const LONGEST_ID: usize = 128;

impl Gateway {
    /// A temporary file for the bytes of an import. It is gone when it is dropped, and after a crash.
    pub async fn spool(&self) -> Result<Spool, ImportError> {
        self.refuse_if_closing()?;
        self.refuse_if_degraded()?;
        // Before the file is received. The room itself is taken when the file is known to be valid.
        self.shared().refusals.note(self.room_for(&SessionId::from("")))?;
        Spool::new(self.data()).await
    }

    /// Imports a session with a new generation: all of it or nothing. Dropping the future does not stop the
    /// import, but `deadline` does, if the session is not stored by then.
    pub async fn import(
        &self,
        spool: Spool,
        under: ImportAs,
        deadline: Option<Instant>,
    ) -> Result<ImportedSession, ImportError> {
        self.refuse_if_closing()?;
        let gateway = self.clone();
        let bring_in = async move {
            gateway.shared().refusals.note_import(gateway.bring_in(spool, under, deadline).await)
        };
        let done = tokio::spawn(bring_in.in_current_span());
        tokio::select! {
            biased;
            done = done => done.unwrap_or_else(|error| Err(RequestError::log(error).into())),
            failure = disk_failure::wait(self.log()) => Err(failure.not_durable_yet().into()),
        }
    }

    async fn bring_in(
        &self,
        spool: Spool,
        under: ImportAs,
        deadline: Option<Instant>,
    ) -> Result<ImportedSession, ImportError> {
        // One at a time: validation needs memory in proportion to the session.
        let _turn = self.importing().lock().await;
        let gateway = self.clone();
        let validating = tokio::task::spawn_blocking(move || {
            let mut file = spool.into_file()?;
            let may_go_on = || gateway.may_import(deadline);
            let valid = validate(&mut file, *gateway.text_lengths(), may_go_on)?;
            Ok::<_, ImportError>((valid, file))
        });
        let (valid, file) = joined(validating.await)??;
        let id = match under {
            ImportAs::Itself => usable(&valid.header.session)?,
            ImportAs::New => SessionId::from(format!("ses_{:016x}", fastrand::u64(..))),
        };
        let _room = self.room_for(&id)?;
        // A session of this id that is being deleted has to be gone first: its deletion ends with the id.
        self.shared().deletions.over(&id).await;
        // The lock is held until the session is shown. Otherwise a create with a key could take the session
        // for one that a crash left without events.
        let (_shown, mended_times) = self.fill(&id, valid, file, deadline).await?;
        turnstream_failpoint::reach("gateway.imported");
        let snapshot = self.snapshot(&id).await?;
        self.states().show(&id, snapshot.state.session);
        tracing::info!(session = %id, mended_times, "session imported");
        Ok(ImportedSession { info: self.session(&id)?, mended_times })
    }

    /// Refuses to go on with an import while the gateway shuts down, and after the deadline.
    fn may_import(&self, deadline: Option<Instant>) -> Result<(), ImportError> {
        self.refuse_if_closing()?;
        match deadline {
            Some(deadline) if deadline <= Instant::now() => Err(ImportError::TooSlow),
            Some(_) | None => Ok(()),
        }
    }

    /// Adds the events to the log. Returns the lock under which sessions are created by key, and how many
    /// events have another time than in the file.
    async fn fill(
        &self,
        id: &SessionId,
        valid: ValidFile,
        file: File,
        deadline: Option<Instant>,
    ) -> Result<(MutexGuard<'_, ()>, u64), ImportError> {
        let mut base = valid.header.base.as_deref().cloned().unwrap_or_default();
        if base.session.id.is_some() {
            base.session.id = Some(id.clone());
        }
        let mut importer = self.log().import_after(id, base).await.map_err(|error| of_claim(id, error))?;
        turnstream_failpoint::reach("gateway.importing");
        let mut reader = Events::begin(file).map_err(ImportError::spool)?;
        let (mut last, mut mended_times) = (Time(0), 0);
        loop {
            self.may_import(deadline)?;
            let reading = tokio::task::spawn_blocking(move || {
                let batch = reader.next_batch();
                (reader, batch)
            });
            let (next, batch) = joined(reading.await)?;
            reader = next;
            let mut events = batch?;
            if events.is_empty() {
                break;
            }
            rename(&mut events, id);
            mended_times += mend_times(&mut events, &mut last);
            importer.append(events).await.map_err(|error| of_append(&valid, error))?;
        }
        let (mut seq, time) = (valid.header.head, valid.last.max(Time::now()));
        let mut events = Vec::new();
        for body in resets(&valid.session) {
            seq = seq.next();
            events.push(Draft { actor: self.actor(), ..Draft::new(body) }.at(seq, time));
        }
        if !events.is_empty() {
            importer.append(events).await.map_err(|error| of_append(&valid, error))?;
        }
        let shown = self.creating().lock().await;
        importer.finish(valid.session.native_id).await.map_err(|error| of_claim(id, error))?;
        Ok((shown, mended_times))
    }
}

/// What takes from an imported session all that lets an agent work here without a person.
fn resets(session: &Session) -> Vec<Body> {
    let mut bodies: Vec<Body> =
        reset(session).map(|patch| Body::SessionUpdated(Box::new(patch))).into_iter().collect();
    let rules = session.unattended.as_ref().filter(|_| session.ended.is_none());
    if let Some(parked) = rules.and_then(|unattended| unattended.parked.as_ref()) {
        let (of, outcome) = (parked.continuation.of.clone(), Released::Cancelled);
        bodies.push(Aside::UnattendedReleased { of, outcome, by: By::Gateway }.into());
        bodies.push(Body::SessionStatus(Status::Idle));
    }
    if rules.is_some_and(|unattended| unattended.rules != Unattended::default()) {
        let unattended = Box::default();
        bodies.push(Aside::UnattendedSet { unattended, by: By::Gateway }.into());
    }
    bodies
}

/// The change that gives an imported session the default permissions and redaction, and no MCP servers: a
/// file must not decide what an agent may do here. `None` if it has them, or has ended and so takes no
/// prompts.
fn reset(session: &Session) -> Option<SessionPatch> {
    let patch = SessionPatch {
        permissions: session
            .permissions
            .and_then(|had| (had != Permissions::Ask).then_some(Permissions::Ask)),
        redact_prompts: session.redact_prompts.and_then(|had| (!had).then_some(true)),
        // Their commands and addresses are not in the file.
        mcp: (!session.mcp.is_empty()).then(Vec::new),
        ..SessionPatch::default()
    };
    (session.ended.is_none() && patch != SessionPatch::default()).then_some(patch)
}

/// The result of work on another thread.
fn joined<T>(done: Result<T, tokio::task::JoinError>) -> Result<T, ImportError> {
    done.map_err(|error| RequestError::log(error).into())
}

/// Puts the new id into `session.created`.
fn rename(events: &mut [Event], id: &SessionId) {
    for event in events {
        if let Body::SessionCreated { session, .. } = &mut event.draft.body {
            session.clone_from(id);
        }
    }
}

/// Gives events whose time is before that of an earlier event the time of that one: times never run backwards
/// in a log. Returns how many.
fn mend_times(events: &mut [Event], last: &mut Time) -> u64 {
    let mut mended = 0;
    for event in events {
        if event.time < *last {
            event.time = *last;
            mended += 1;
        }
        *last = event.time;
    }
    mended
}

/// Checks an id from a file: ids are parts of paths and of file names.
fn usable(id: &SessionId) -> Result<SessionId, BadFile> {
    let is_usable = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if id.as_str().len() <= LONGEST_ID && id.as_str().bytes().all(is_usable) {
        return Ok(id.clone());
    }
    let problem = format!(
        "the session's id {:?} cannot be used here: an id has up to {LONGEST_ID} letters, digits, - and _; import it under \
         a new id",
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

fn of_append(valid: &ValidFile, error: AppendError) -> ImportError {
    match error {
        AppendError::TooLarge { .. } => {
            let problem = format!("an event is larger than a log can hold: {error}");
            BadFile { line: valid.longest, fault: Fault::Damaged, problem }.into()
        }
        other => RequestError::of_append(other).into(),
    }
}
