//! The AI SDK as a dialect: a frame is one chunk. It has every turn, one message after the other; a response
//! of the server has one turn.

use super::encoder::Encoder;
use super::profile::Profile;
use crate::dialect::{Dialect, FrameSink, Repeats};
use turnstream_model::event::{EventError, Line};
use turnstream_model::fold::State;

/// The log of one session as chunks for version `V` of the SDK: 5, 6 or 7.
#[derive(Clone, Debug, Default)]
pub struct AiSdk<const V: u8> {
    encoder: Encoder,
}

impl<const V: u8> AiSdk<V> {
    fn profile() -> Profile {
        Profile::of_version(V).unwrap_or_default()
    }
}

impl<const V: u8> Dialect for AiSdk<V> {
    const NAME: &'static str = match V {
        5 => "ai-sdk-5",
        6 => "ai-sdk-6",
        7 => "ai-sdk-7",
        _ => "ai-sdk",
    };
    const REPEATS: Repeats = Repeats::Conversation;
    // `id` is taken by text and data chunks.
    const ID_MEMBER: &'static str = "cursor";

    fn resume(state: &State) -> Self {
        Self { encoder: Encoder::resume(state, Self::profile()) }
    }

    fn replay(state: &State, out: &mut impl FrameSink) -> Self {
        Self { encoder: Encoder::replay(state, Self::profile(), out) }
    }

    fn encode(&mut self, line: &Line<'_>, out: &mut impl FrameSink) -> Result<(), EventError> {
        self.encoder.encode(line.event()?, out);
        Ok(())
    }
}
