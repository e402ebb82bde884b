//! The newest part of a session's history, read in pages from its end. The cost depends on how far back a
//! request needs it, and not on the length of the session.

use turnstream_gateway::{Gateway, ItemsPage, ItemsQuery, RequestError};
use turnstream_model::cursor::{Cursor, Generation};
use turnstream_model::fold::{Session, State};
use turnstream_model::id::{ItemId, SessionId, TurnId};

/// The fewest and the most items that are read at once, where more than one is needed.
pub(crate) const FEWEST: usize = 64;
pub(crate) const MOST: usize = 4_096;

/// The newest turns of a session, as far as they were read.
pub(crate) struct History {
    pub(crate) state: State,
    generation: Generation,
    /// Where to read on. `None`: all was read.
    pub(crate) more: Option<ItemId>,
}

impl History {
    /// The session, its queue, its newest turn and its newest items.
    pub(crate) async fn newest(
        gateway: &Gateway,
        id: &SessionId,
        items: usize,
    ) -> Result<Self, RequestError> {
        Self::before(gateway, id, None, items).await
    }

    /// The items before this one.
    pub(crate) async fn before(
        gateway: &Gateway,
        id: &SessionId,
        before: Option<ItemId>,
        items: usize,
    ) -> Result<Self, RequestError> {
        let page = gateway.items(id, ItemsQuery { before, limit: items }).await?;
        // An imported session may have another id in its events.
        let session = Session { id: Some(id.clone()), ..page.session.clone() };
        let state = State { seq: page.head, session, ..State::default() };
        let mut history = Self { state, generation: page.generation.clone(), more: None };
        history.add(page);
        Ok(history)
    }

    /// The newest items up to those that make this enough, or all.
    pub(crate) async fn back_to(
        gateway: &Gateway,
        id: &SessionId,
        is_enough: impl Fn(&State) -> bool,
    ) -> Result<Self, RequestError> {
        let mut history = Self::newest(gateway, id, FEWEST).await?;
        let mut items = FEWEST;
        while !is_enough(&history.state) {
            items = (items * 2).min(MOST);
            if !history.read_on(gateway, id, items).await? {
                break;
            }
        }
        Ok(history)
    }

    /// Reads a page before what was read. False if there is none.
    pub(crate) async fn read_on(
        &mut self,
        gateway: &Gateway,
        id: &SessionId,
        items: usize,
    ) -> Result<bool, RequestError> {
        let Some(before) = self.more.take() else { return Ok(false) };
        let query = ItemsQuery { before: Some(before), limit: items };
        self.add(gateway.items(id, query).await?);
        Ok(true)
    }

    /// Adds a page before what was read. A turn may be on both.
    fn add(&mut self, page: ItemsPage) {
        let ItemsPage { items, mut turns, mut prompts, approvals, questions, queue, next, .. } = page;
        let state = &mut self.state;
        turns.retain(|turn| state.turns.iter().all(|known| known.turn != turn.turn));
        prompts.retain(|prompt| state.prompts.iter().all(|known| known.prompt != prompt.prompt));
        state.items.splice(..0, items.into_iter().rev());
        state.turns.splice(..0, turns.into_iter().rev());
        state.prompts.splice(..0, prompts.into_iter().rev());
        state.approvals.extend(approvals);
        state.questions.extend(questions);
        state.queue.extend(queue);
        self.more = next;
    }

    /// The generation of the log.
    pub(crate) fn generation(&self) -> &Generation {
        &self.generation
    }

    /// The place of the last event that was read.
    pub(crate) fn cursor(&self) -> Cursor {
        Cursor { generation: Some(self.generation.clone()), seq: self.state.seq }
    }
}

/// Whether all items of a turn are there. Those of the first turn may be cut.
pub(crate) fn has_turn(state: &State, turn: &TurnId) -> bool {
    state.turns.iter().skip(1).any(|known| known.turn == *turn)
}
