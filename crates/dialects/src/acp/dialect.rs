//! The Agent Client Protocol as a dialect: a frame is one JSON-RPC message.

use super::encoder::Encoder;
use super::event::AcpEvent;
use crate::dialect::{Dialect, FrameSink, Repeats};
use turnstream_model::event::{Body, EventError, Line};
use turnstream_model::fold::State;

/// The log of one session as ACP messages, for clients that only read. They sent no prompt that could be
/// answered, so turns end with `_turnstream/turn_ended`.
#[derive(Clone, Debug, Default)]
pub struct Acp {
    session: Option<String>,
    encoder: Encoder,
    /// Buffers: empty between two events, kept for their capacity.
    messages: Vec<AcpEvent>,
    json: Vec<u8>,
}

impl Dialect for Acp {
    const NAME: &'static str = "acp";
    const REPEATS: Repeats = Repeats::Conversation;
    // `id` is taken by JSON-RPC.
    const ID_MEMBER: &'static str = "cursor";

    fn resume(state: &State) -> Self {
        Self { session: session(state), encoder: Encoder::resume(state), ..Self::default() }
    }

    fn replay(state: &State, out: &mut impl FrameSink) -> Self {
        let mut messages = Vec::new();
        let encoder = Encoder::replay(state, &mut messages);
        let mut acp = Self { session: session(state), encoder, messages, ..Self::default() };
        acp.write(out);
        acp
    }

    fn encode(&mut self, line: &Line<'_>, out: &mut impl FrameSink) -> Result<(), EventError> {
        let event = line.event()?;
        if let (None, Body::SessionCreated { session, .. }) = (&self.session, &event.draft.body) {
            self.session = Some(session.as_str().to_owned());
        }
        self.encoder.encode(event, &mut self.messages);
        self.write(out);
        Ok(())
    }
}

impl Acp {
    fn write(&mut self, out: &mut impl FrameSink) {
        let session = self.session.as_deref().unwrap_or_default();
        for message in self.messages.drain(..) {
            message.write_json(session, &mut self.json);
            out.frame(None, &self.json);
            self.json.clear();
        }
    }
}

fn session(state: &State) -> Option<String> {
    state.session.id.as_ref().map(|id| id.as_str().to_owned())
}
