//! The log as the events and messages of opencode's server, for its own clients.
//!
//! [`Opencode`] turns one session's events into those of opencode, as a [`Dialect`](crate::Dialect). The
//! functions of [`messages`], [`todos`] and so on describe a state as the server's other answers do. Both use
//! the same ids, which are computed from ours ([`Names`]). `docs/opencode-compat.md` has the mapping.
//!
//! ```
//! use turnstream_dialects::opencode::{Named, messages};
//! use turnstream_model::event::Event;
//! use turnstream_model::fold::Fold;
//!
//! let log = [
//!     r#"{"seq":1,"time":1,"type":"session.created","session":"ses_1","agent":"demo","cwd":"/srv/project"}"#,
//!     r#"{"seq":2,"time":1,"type":"turn.started","turn":"t1","origin":"agent","prompts":[]}"#,
//!     r#"{"seq":3,"time":1,"type":"item.started","turn":"t1","item":"i1","kind":"message","role":"assistant","text":"Hi"}"#,
//! ];
//! let log: Vec<Event> = log.iter().map(|line| Event::from_json(line)).collect::<Result<_, _>>()?;
//! let messages = messages(Fold::of(&log).state(), &Named::Session);
//! assert_eq!(messages[0].parts[0]["text"], "Hi");
//! # Ok::<(), turnstream_model::event::EventError>(())
//! ```

mod asks;
mod changes;
mod encoder;
mod ended;
mod history;
mod ids;
mod infos;
mod items;
mod parts;
mod place;
mod repeat;
mod todo;
mod tools;
mod write;

pub use changes::{FileChange, FileStatus, by_file};
pub use encoder::{Opencode, is_busy, status_of};
pub use history::{Message, diffs, has_subagent, messages, permissions, questions, subagent_calls, todos};
pub use ids::{Named, Names, is_message, letters_of};
pub use infos::{
    DEFAULT_MODEL, MODE, PROJECT, VERSION, agent_name, session as session_info, subagent as subagent_info,
};
pub use place::step_message;
pub use repeat::{Idle, since as repeat_since};
pub use todo::Todo;
