//! A fake model provider on loopback, for tests. It speaks OpenAI chat completions, OpenAI responses and
//! Anthropic messages over real sockets, and plays the faults that a script asks for.
//!
//! A [`Script`] is a list of [`Step`]s. [`render()`] turns a step into the exact bytes of its response. A
//! [`Provider`] plays those bytes, and cuts them by FIN or RST where the script says so.
//!
//! ```
//! use turnstream_fake_provider::{Completion, CutBy, Fault, Part, Provider, Script, Step};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let script = Script::new([
//!     // A lane of its own for title requests, so that they do not consume the conversation.
//!     Step::text("A title").for_model("scripted-title").always(),
//!     Step::text("This never arrives whole.").fault(Fault::Cut { after: 300, by: CutBy::Rst }),
//!     Step::new(Completion::of([Part::reasoning("Once more."), Part::text("Now it does.")])),
//! ]);
//! let provider = Provider::start(script).await?;
//! assert!(provider.openai_base_url().starts_with("http://127.0.0.1:"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
pub use render::{Answer, Chunk, End, EventPlace, Identity, Origin, RenderError, find_event, render};
pub use reply::{
    AUTOMATIC_DELTA, Arguments, Bytes, Completion, ErrorBody, Finish, Part, Pieces, Raw, Refusal, Reply,
    RetryAfter, Usage,
};
pub use script::{Delivery, Framing, Matcher, Script, Step, Times};
pub use wire::{Asked, WireFormat};
