//! An LLM provider on loopback that really speaks OpenAI chat completions, OpenAI responses and Anthropic messages,
//! from a script that also says what goes wrong.
//!
//! A [`Script`] is a list of [`Step`]s; [`render()`] turns a step into the exact bytes of its response, and a
//! [`Provider`] plays those bytes over real sockets, cut by FIN or RST where the script says so.

mod connection;
mod fault;
mod http;
mod play;
mod provider;
mod record;
mod render;
mod reply;
mod script;
mod serve;
mod wire;

pub use fault::{CutBy, Fault, Stall};
pub use provider::{Provider, StartError, Timeout};
pub use record::{Ended, Request};
pub use render::{Answer, Chunk, End, Identity, RenderError, render};
pub use reply::{
    AUTOMATIC_DELTA, Arguments, Bytes, Completion, ErrorBody, Finish, Part, Pieces, Raw, Refusal, Reply,
    RetryAfter, Usage,
};
pub use script::{Delivery, Framing, Matcher, Script, Step, Times};
pub use wire::{Asked, WireFormat};
