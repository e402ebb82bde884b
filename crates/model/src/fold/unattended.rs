//! Unattended runs in the state of a session: its rules, and the wait for a continuation.

use crate::event::{Aside, Continuation, Status, Unattended};
use crate::time::Time;
use serde::{Deserialize, Serialize};

/// How a session goes on after a limit or a failure, and whether it waits for that.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UnattendedState {
    /// The rules.
    #[serde(flatten)]
    pub rules: Unattended,
    /// Set while it waits to continue a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<Parked>,
}

/// A wait for the continuation of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parked {
    /// Which turn is continued, and why.
    #[serde(flatten)]
    pub continuation: Continuation,
    /// When it is continued.
    pub until: Time,
    /// When the wait began. No clock makes it longer than from here to `until`.
    pub time: Time,
}

impl UnattendedState {
    /// Changes it by an event about it.
    pub(super) fn follow(state: &mut Option<Box<Self>>, aside: &Aside, time: Time) {
        if let Aside::UnattendedSet { unattended, by: _ } = aside {
            state.get_or_insert_default().rules = (**unattended).clone();
        } else if let Aside::UnattendedParked { until, continuation } = aside {
            let continuation = (**continuation).clone();
            state.get_or_insert_default().parked = Some(Parked { continuation, until: *until, time });
        } else if let Aside::UnattendedReleased { .. } = aside
            && let Some(state) = state
        {
            state.parked = None;
        }
    }
}

impl Parked {
    /// The status of a session that waits. It depends on nothing else, so it is the same after a restart.
    pub fn status(&self) -> Status {
        let Self { continuation, until, time: _ } = self;
        let Continuation { of, reason, .. } = continuation;
        Status::Retrying {
            attempt: Some(continuation.number()),
            reason: Some(*reason),
            until: Some(*until),
            message: Some(format!("the session waits to continue turn {of}")),
        }
    }
}
