//! The part of a session that one response needs: a whole turn, and whether it waits.

use super::history::{FEWEST, History, has_turn};
use turnstream_gateway::{Gateway, RequestError};
use turnstream_model::cursor::{Cursor, Generation};
use turnstream_model::fold::State;
use turnstream_model::id::{PromptId, SessionId, TurnId};

/// What a response is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The turn that takes this prompt, now or later.
    Prompt(PromptId),
    /// This turn, which has begun.
    Turn(TurnId),
}

/// A session's state at one event, with the whole turn that is wanted, if it has begun.
pub(crate) struct TurnState {
    pub(crate) state: State,
    pub(crate) generation: Generation,
    /// The turn, if it has begun.
    pub(crate) turn: Option<TurnId>,
}

impl Wanted {
    /// The turn in this state, if it has begun.
    pub(crate) fn turn(&self, state: &State) -> Option<TurnId> {
        match self {
            Self::Turn(turn) => Some(turn.clone()),
            Self::Prompt(prompt) => turn_of(state, prompt),
        }
    }

    fn is_queued(&self, state: &State) -> bool {
        match self {
            Self::Turn(_) => false,
            Self::Prompt(prompt) => state.queue.iter().any(|queued| queued.prompt == *prompt),
        }
    }
}

impl TurnState {
    /// Reads it. All of it is of one moment, so that the events after it continue it.
    pub(crate) async fn read(
        gateway: &Gateway,
        session: &SessionId,
        wanted: &Wanted,
    ) -> Result<Self, RequestError> {
        // Usually the newest page has the turn. Several pages would be of several moments.
        let newest = History::newest(gateway, session, FEWEST).await?;
        let is_whole = |turn| newest.more.is_none() || has_turn(&newest.state, &turn);
        if wanted.is_queued(&newest.state) || wanted.turn(&newest.state).is_some_and(is_whole) {
            let Cursor { generation: Some(generation), .. } = newest.cursor() else {
                return Err(RequestError::log("the page has no generation"));
            };
            let turn = wanted.turn(&newest.state);
            return Ok(Self { state: newest.state, generation, turn });
        }
        let snapshot = gateway.snapshot(session).await?;
        let mut state = snapshot.state;
        // An imported session may have another id in its events.
        state.session.id = Some(session.clone());
        let turn = wanted.turn(&state);
        Ok(Self { state, generation: snapshot.generation, turn })
    }

    /// Whether this turn is in it.
    pub(crate) fn has(&self, turn: &TurnId) -> bool {
        self.state.turns.iter().any(|known| known.turn == *turn)
    }

    /// The place of the last event in it.
    pub(crate) fn cursor(&self) -> Cursor {
        Cursor { generation: Some(self.generation.clone()), seq: self.state.seq }
    }
}

/// The turn that took a prompt.
pub(crate) fn turn_of(state: &State, prompt: &PromptId) -> Option<TurnId> {
    state.prompts.iter().rev().find(|taken| taken.prompt == *prompt)?.turn.clone()
}

/// Whether a turn waits for a person.
pub(crate) fn is_waiting(state: &State, turn: &TurnId) -> bool {
    let asks = state.approvals.iter().any(|asked| asked.is_open() && asked.turn.as_ref() == Some(turn));
    asks || state.questions.iter().any(|asked| asked.is_open() && asked.turn.as_ref() == Some(turn))
}
