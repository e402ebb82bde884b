//! What the agent works on, as a cancel of an editor without a prompt of its own means it.

use turnstream_client::CancelTarget;
use turnstream_model::event::{Aside, Body, Draft, Released};
use turnstream_model::fold::State;
use turnstream_model::id::{PromptId, TurnId};

/// What a cancel ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Nothing,
    /// An open turn, or a failed one that the session waits to continue.
    Turn(TurnId),
    /// The prompt that continues a failed turn. Nothing else can begin before it.
    Continuation(PromptId),
}

impl Work {
    /// In this state.
    pub(super) fn of(state: &State) -> Self {
        let parked = state.session.unattended.as_ref().and_then(|it| it.parked.as_ref());
        let parked = parked.map(|parked| &parked.continuation.of);
        let continuation = state.queue.iter().find(|prompt| prompt.continues.is_some());
        match (state.open_turn().map(|turn| &turn.turn).or(parked), continuation) {
            (Some(turn), _) => Self::Turn(turn.clone()),
            (None, Some(prompt)) => Self::Continuation(prompt.prompt.clone()),
            (None, None) => Self::Nothing,
        }
    }

    /// Notes what an event changes.
    pub(super) fn note(&mut self, draft: &Draft) {
        match &draft.body {
            Body::TurnStarted { .. } => {
                if let Some(turn) = &draft.turn {
                    *self = Self::Turn(turn.clone());
                }
            }
            Body::TurnEnded { .. } => *self = Self::Nothing,
            Body::Aside(Aside::UnattendedParked { continuation, .. }) => {
                *self = Self::Turn(continuation.of.clone());
            }
            Body::Aside(Aside::UnattendedReleased { outcome, .. }) => match outcome {
                // The prompt that continues the turn follows at once.
                Released::Due | Released::Woken => {}
                Released::Prompt | Released::Cancelled | Released::Budget | Released::Rules => {
                    *self = Self::Nothing;
                }
            },
            Body::Aside(Aside::PromptContinues { prompt, .. }) => *self = Self::Continuation(prompt.clone()),
            Body::PromptWithdrawn { prompt, .. } if *self == Self::Continuation(prompt.clone()) => {
                *self = Self::Nothing;
            }
            _ => {}
        }
    }

    /// What the gateway is asked to cancel. Only what the editor can mean: the next turn may begin before the
    /// request arrives.
    pub(super) fn target(&self) -> Option<CancelTarget<'_>> {
        match self {
            Self::Nothing => None,
            Self::Turn(turn) => Some(CancelTarget::Turn(turn.as_str())),
            Self::Continuation(_) => Some(CancelTarget::Everything),
        }
    }
}
