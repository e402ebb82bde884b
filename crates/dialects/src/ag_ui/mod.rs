//! The log as events of AG-UI (protocol 1.0), for web apps.
//!
//! [`AgUi`] turns one session's events into runs of AG-UI, as a [`Dialect`](crate::Dialect). A turn is one
//! run, or several: a run ends with an interrupt while the agent waits for a person, and the next one begins
//! with the answer. [`history`] lists the messages of a state, for the other answers of the routes.
//! `docs/ag-ui.md` has the mapping.
//!
//! ```
//! use turnstream_dialects::ag_ui::history;
//! use turnstream_model::event::Event;
//! use turnstream_model::fold::Fold;
//!
//! let log = [
//!     r#"{"seq":1,"time":1,"type":"session.created","session":"ses_1","agent":"demo","cwd":"/srv/project"}"#,
//!     r#"{"seq":2,"time":1,"type":"turn.started","turn":"t1","origin":"agent","prompts":[]}"#,
//!     r#"{"seq":3,"time":1,"type":"item.started","turn":"t1","item":"i1","kind":"message","role":"assistant","text":"Hi"}"#,
//! ];
//! let log: Vec<Event> = log.iter().map(|line| Event::from_json(line)).collect::<Result<_, _>>()?;
//! assert_eq!(history(Fold::of(&log).state())[0]["content"], "Hi");
//! # Ok::<(), turnstream_model::event::EventError>(())
//! ```

mod encoder;
mod frames;
mod items;
mod messages;
mod prompts;
mod runs;

pub use encoder::AgUi;
pub use messages::{before, history};
pub use prompts::{Mark, mark, message_ids, prompt_messages};
pub use runs::{interrupts, run_of, thread_of};
