//! The log as UI message chunks and UI messages of the Vercel AI SDK, for `useChat` and its relatives.
//!
//! A turn is one assistant message. [`Encoder`] turns the events of a session into chunks, and [`messages`]
//! describes a state as the messages that a client would have built of them. [`Profile`] says which version
//! of the SDK reads them. `docs/ai-sdk.md` has the mapping.
//!
//! ```
//! use turnstream_dialects::ai_sdk::{Profile, messages};
//! use turnstream_model::event::Event;
//! use turnstream_model::fold::Fold;
//!
//! let log = [
//!     r#"{"seq":1,"time":1,"type":"session.created","session":"ses_1","agent":"demo","cwd":"/srv/project"}"#,
//!     r#"{"seq":2,"time":1,"type":"turn.started","turn":"t1","origin":"agent","prompts":[]}"#,
//!     r#"{"seq":3,"time":1,"type":"item.started","turn":"t1","item":"i1","kind":"message","role":"assistant","text":"Hi"}"#,
//!     r#"{"seq":4,"time":1,"type":"item.ended","turn":"t1","item":"i1","state":"completed"}"#,
//!     r#"{"seq":5,"time":1,"type":"turn.ended","turn":"t1","outcome":"completed","stop_reason":"end_turn"}"#,
//! ];
//! let log: Vec<Event> = log.iter().map(|line| Event::from_json(line)).collect::<Result<_, _>>()?;
//! let messages = messages(Fold::of(&log).state(), Profile::Safe);
//! assert_eq!(messages[0]["id"], "ses_1/t1");
//! assert_eq!(messages[0]["parts"][0]["text"], "Hi");
//! # Ok::<(), turnstream_model::event::EventError>(())
//! ```

mod asks;
mod calls;
mod chunks;
mod dialect;
mod encoder;
mod ends;
mod entries;
mod held;
mod message;
mod messages;
mod profile;
mod turns;

pub use asks::{APPROVAL_TOOL, QUESTION_TOOL};
pub use dialect::AiSdk;
pub use encoder::{Encoder, Progress};
pub use ends::withdrawn;
pub use held::Held;
pub use message::UiMessage;
pub use messages::{is_ours, message_id, messages};
pub use profile::Profile;
