//! One turn in the words of the SDK, for one response.

use crate::chat::{Progress, TurnWriter};
use crate::stream::{EventFrames, ReplayFrames};
use turnstream_dialects::FrameSink;
use turnstream_dialects::ai_sdk::{self, Encoder, Held, Profile};
use turnstream_model::event::Event;
use turnstream_model::fold::State;
use turnstream_model::id::TurnId;

pub(super) struct Writer {
    profile: Profile,
    /// What the client has of the turn.
    held: Held,
    encoder: Encoder,
}

impl Writer {
    /// For a client that has this part of the turn, in a session that is in this state.
    pub(super) fn new(state: &State, held: Held, profile: Profile) -> Self {
        Self { profile, held, encoder: Encoder::resume(state, profile) }
    }
}

impl TurnWriter for Writer {
    fn catch_up(&mut self, state: &State, turn: &TurnId, out: &mut ReplayFrames<'_>) -> Progress {
        let (encoder, progress) = Encoder::catch_up(state, turn, &self.held, self.profile, out);
        self.encoder = encoder;
        ours(progress)
    }

    fn event(&mut self, event: &Event, out: &mut EventFrames<'_>) -> Progress {
        ours(self.encoder.encode(event, out))
    }

    fn pause(&mut self, out: &mut impl FrameSink) {
        self.encoder.pause(out);
    }

    fn withdrawn(&mut self, out: &mut EventFrames<'_>) {
        ai_sdk::withdrawn(out);
    }
}

fn ours(progress: ai_sdk::Progress) -> Progress {
    match progress {
        ai_sdk::Progress::Running => Progress::Running,
        ai_sdk::Progress::Waiting => Progress::Waiting,
        ai_sdk::Progress::Ended => Progress::Ended,
    }
}
