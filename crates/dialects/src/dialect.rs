//! The trait of every dialect.

use turnstream_model::event::{EventError, Line};
use turnstream_model::fold::State;

/// A pure encoding of a session's log for one kind of client: lines in, frames out.
///
/// An implementor promises the following for every log and every position `k` in it. `state_k` is the state
/// after event `k`.
///
/// - The frames of an event depend only on the log up to that event. A dialect that was resumed from
///   `state_k` writes the same bytes for the events after `k` as one that read the log from the start. So
///   one instance can serve many readers, and `SEQ.K` always names the same frame.
/// - A client that reconnects ends with the same conversation as one that never disconnected. It may
///   receive again what [`Dialect::REPEATS`] declares.
/// - It uses no clock, no I/O and no randomness. It may keep state, but no more than the open turns and its
///   bounded lists need.
pub trait Dialect: Clone + Send + Sized + 'static {
    /// Its name in `?dialect=`.
    const NAME: &'static str;
    /// What a client that reconnects may receive a second time.
    const REPEATS: Repeats;
    /// The JSON member for a frame's id, on carriers that have no other place for it. The dialect's own
    /// frames never have a member of this name.
    const ID_MEMBER: &'static str;

    /// Continues after this state, for a client that has everything up to it. Writes nothing.
    fn resume(state: &State) -> Self;

    /// Writes the conversation up to this state, for a client that has nothing, and continues after it.
    /// Called only for a dialect with [`Repeats::Conversation`]. Clients of other dialects load a snapshot or
    /// read all events.
    fn replay(state: &State, out: &mut impl FrameSink) -> Self;

    /// Writes the frames of the next event: often one, sometimes none or several.
    fn encode(&mut self, line: &Line<'_>, out: &mut impl FrameSink) -> Result<(), EventError>;
}

/// What a client that reconnects may receive a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// Nothing. The frames of an event depend on that event alone, so a stream can continue at any cursor.
    Nothing,
    /// The conversation so far. The dialect keeps state, and the log has no state of old positions. So a
    /// client whose cursor is older than the running turn receives the whole conversation, and continues at
    /// the head.
    Conversation,
}

/// Where a dialect writes its frames.
pub trait FrameSink {
    /// Adds one frame. `json` is an object with at least one member, on one line. `name` is for carriers
    /// that name their frames, such as SSE.
    fn frame(&mut self, name: Option<&str>, json: &[u8]);
}
