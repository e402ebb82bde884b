//! The native wire: one frame for each event, with the bytes that were committed. Nothing is parsed or
//! encoded again.

use crate::dialect::{Dialect, FrameSink, Repeats};
use turnstream_model::event::{EventError, Line};
use turnstream_model::fold::State;

/// The native wire; see `docs/wire.md`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl Dialect for Native {
    const NAME: &'static str = "native";
    const REPEATS: Repeats = Repeats::Nothing;
    const ID_MEMBER: &'static str = "id";

    fn resume(_: &State) -> Self {
        Self
    }

    fn replay(_: &State, _: &mut impl FrameSink) -> Self {
        Self
    }

    fn encode(&mut self, line: &Line<'_>, out: &mut impl FrameSink) -> Result<(), EventError> {
        out.frame(Some(line.kind().as_str()), line.json());
        Ok(())
    }
}
