//! What clients ask of a whole session: its subagents, its to-do list, its changes of files. The session is
//! read page by page, so memory does not grow with it, and again only after it has changed.

use super::answer::Failure;
use crate::chat::{History, MOST};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use turnstream_dialects::opencode::{self, FileChange, Named, Todo, by_file};
use turnstream_gateway::Gateway;
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::fold::State;
use turnstream_model::id::{ItemId, SessionId};

/// Most sessions that are remembered.
const KEPT: usize = 512;
/// Most bytes of changes that are remembered for one session.
const KEPT_CHANGES: usize = 256 << 10;

/// How much of a session is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Extent {
    /// One page of the newest items, for lists of many sessions.
    Newest,
    /// All of it.
    Whole,
}

/// What is known of a session.
#[derive(Clone)]
pub(super) struct Digest {
    generation: Generation,
    head: Seq,
    extent: Extent,
    /// The subagents as sessions of opencode, by their creation.
    pub(super) subagents: Arc<[Value]>,
    /// The last plan.
    pub(super) todos: Arc<[Todo]>,
    /// The changes of files. `None`: they are too large to be remembered.
    changes: Option<Arc<[FileChange]>>,
}

/// The digests of the sessions that were asked for last.
#[derive(Default)]
pub(crate) struct Digests(Mutex<VecDeque<(SessionId, Digest)>>);

impl Digests {
    /// The digest of a session, and its changes of files.
    pub(super) async fn of(
        &self,
        gateway: &Gateway,
        id: &SessionId,
        extent: Extent,
    ) -> Result<Digest, Failure> {
        Ok(self.read(gateway, id, extent).await?.0)
    }

    /// The changes that the edits of a session made.
    pub(super) async fn changes(
        &self,
        gateway: &Gateway,
        id: &SessionId,
    ) -> Result<Arc<[FileChange]>, Failure> {
        let (digest, changes) = self.read(gateway, id, Extent::Whole).await?;
        Ok(match changes {
            Some(changes) => changes,
            None => match digest.changes {
                Some(changes) => changes,
                None => walk(gateway, id, Extent::Whole).await?.1,
            },
        })
    }

    /// The digest, and the changes if they were read just now.
    async fn read(
        &self,
        gateway: &Gateway,
        id: &SessionId,
        extent: Extent,
    ) -> Result<(Digest, Option<Arc<[FileChange]>>), Failure> {
        let info = gateway.session(id)?;
        if let Some(known) = self.known(id) {
            let is_current = known.generation == info.generation && known.head >= info.head;
            if is_current && known.extent >= extent {
                return Ok((known, None));
            }
        }
        let (digest, changes) = walk(gateway, id, extent).await?;
        let mut kept = self.lock();
        kept.retain(|(known, _)| known != id);
        kept.push_back((id.clone(), digest.clone()));
        if kept.len() > KEPT {
            kept.pop_front();
        }
        Ok((digest, Some(changes)))
    }

    fn known(&self, id: &SessionId) -> Option<Digest> {
        self.lock().iter().rev().find(|(known, _)| known == id).map(|(_, digest)| digest.clone())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(SessionId, Digest)>> {
        // The list is valid also after a panic of its holder.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a session from its end.
async fn walk(
    gateway: &Gateway,
    id: &SessionId,
    extent: Extent,
) -> Result<(Digest, Arc<[FileChange]>), Failure> {
    let mut page = History::newest(gateway, id, MOST).await?;
    let (generation, head) = (page.generation().clone(), page.state.seq);
    let mut found = Found::default();
    loop {
        let more = page.more.clone();
        let is_last = more.is_none() || extent == Extent::Newest;
        found = tokio::task::spawn_blocking(move || found.add(&page.state, is_last))
            .await
            .map_err(super::answer::off_thread)?;
        match more.filter(|_| !is_last) {
            Some(before) => page = History::before(gateway, id, Some(before), MOST).await?,
            None => break,
        }
    }
    let Found { mut subagents, todos, changes, .. } = found;
    subagents.sort_by_key(|info| info["time"]["created"].as_u64());
    let changes: Arc<[FileChange]> = by_file(changes).into();
    let size: usize = changes.iter().map(|change| change.patch.len()).sum();
    let digest = Digest {
        generation,
        head,
        extent,
        subagents: subagents.into(),
        todos: todos.unwrap_or_default().into(),
        changes: (size <= KEPT_CHANGES).then(|| changes.clone()),
    };
    Ok((digest, changes))
}

/// What was found so far, from the end of a session.
#[derive(Default)]
struct Found {
    /// Subagents whose calls were not read yet. A call is older than the work of its subagent.
    without_call: Vec<ItemId>,
    subagents: Vec<Value>,
    todos: Option<Vec<Todo>>,
    changes: Vec<FileChange>,
}

impl Found {
    /// Adds a page that is older than the ones before.
    fn add(mut self, page: &State, is_last: bool) -> Self {
        for call in opencode::subagent_calls(page) {
            if !self.without_call.contains(call) {
                self.without_call.push(call.clone());
            }
        }
        let (ready, waiting): (Vec<ItemId>, Vec<ItemId>) = std::mem::take(&mut self.without_call)
            .into_iter()
            .partition(|call| is_last || page.items.iter().any(|item| item.id == *call));
        self.subagents.extend(ready.iter().map(|call| opencode::subagent_info(call, page)));
        self.without_call = waiting;
        if self.todos.is_none() {
            self.todos = opencode::todos(page);
        }
        self.changes.splice(..0, opencode::diffs(page, &Named::Session));
        self
    }
}
