//! The Agent Client Protocol as a stream that many clients read: a frame is one JSON-RPC message.

use super::encoder::Encoder;
use super::event::AcpEvent;
use crate::dialect::{Dialect, Frames, Repeats};
use turnstream_model::event::{Body, EventError, Line};
use turnstream_model::fold::State;

/// The log of one session as ACP messages, for clients that only read. Nobody here sent a prompt, so turns end with
/// `_turnstream/turn_ended`.
#[derive(Clone, Debug, Default)]
pub struct Acp {
    session: Option<String>,
    encoder: Encoder,
    /// Both are empty between two lines, and kept for their room.
    messages: Vec<AcpEvent>,
    json: Vec<u8>,
}

impl Dialect for Acp {
    const NAME: &'static str = "acp";
    const REPEATS: Repeats = Repeats::Conversation;
    // `id` is JSON-RPC's own.
    const ID_MEMBER: &'static str = "cursor";

    fn resume(state: &State) -> Self {
        Self { session: session(state), encoder: Encoder::resume(state), ..Self::default() }
    }

    fn replay(state: &State, out: &mut impl Frames) -> Self {
        let mut messages = Vec::new();
        let encoder = Encoder::replay(state, &mut messages);
        let mut acp = Self { session: session(state), encoder, messages, ..Self::default() };
        acp.write(out);
        acp
    }

    fn encode(&mut self, line: &Line<'_>, out: &mut impl Frames) -> Result<(), EventError> {
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
    fn write(&mut self, out: &mut impl Frames) {
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
