//! What a dialect is.

use turnstream_model::event::{EventError, Line};
use turnstream_model::fold::State;

/// A pure encoding of a session's log for one kind of client: lines in, frames out.
///
/// What an implementor owes, for every log and every place `k` in it, where `state_k` is the fold up to there:
///
/// - **The frames of an event depend on the log before it and on nothing else.** A dialect made by [`Dialect::resume`] from
///   `state_k` writes for the lines after `k` the same bytes as one that was fed from the first line on. So many readers
///   share what one instance wrote, and `SEQ.K` names the same frame for ever.
/// - **A client that comes back has the same conversation as one that never left**, with what [`Dialect::REPEATS`] says.
/// - No clock, no I/O, no randomness. It may keep state, but no more than the open turns need.
pub trait Dialect: Clone + Send + Sized + 'static {
    /// Its name in `?dialect=`.
    const NAME: &'static str;
    /// What a client that comes back may be told a second time.
    const REPEATS: Repeats;
    /// The member for a frame's id, on carriers that have no other place for it. No frame has it already.
    const ID_MEMBER: &'static str;

    /// For a client that has everything up to this state: nothing of it is written again.
    fn resume(state: &State) -> Self;

    /// For a client that has nothing: writes the conversation so far, and goes on behind it. Asked only of dialects that
    /// repeat the [`Repeats::Conversation`]; clients of the others load a snapshot or read all events.
    fn replay(state: &State, out: &mut impl Frames) -> Self;

    /// Writes the frames of the next line; often one, sometimes none.
    fn encode(&mut self, line: &Line<'_>, out: &mut impl Frames) -> Result<(), EventError>;
}

/// What a client that comes back may be told a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// Nothing. The frames of an event depend on that event alone, so every place of the log can be continued.
    Nothing,
    /// The conversation so far. The dialect keeps state, which no log stores for old places: a client that is older than
    /// the running turn is shown the conversation at the head, and goes on there.
    Conversation,
}

/// Where a dialect writes.
pub trait Frames {
    /// Adds one frame: a JSON object with at least one member, on one line. `name` is for carriers that name their frames.
    fn frame(&mut self, name: Option<&str>, json: &[u8]);
}
