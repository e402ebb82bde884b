//! The log as Agent Client Protocol (version 1) messages.
//!
//! An [`Encoder`] turns one session's events, in order, into [`AcpEvent`]s. An `AcpEvent` writes itself as
//! a JSON-RPC message. The caller decides who receives it and when a keep-alive is due. [`Acp`] combines
//! both behind the trait [`Dialect`](crate::Dialect), for streams that many clients read.
//!
//! ```
//! use turnstream_dialects::acp::Encoder;
//! use turnstream_model::event::Event;
//!
//! let log = [
//!     r#"{"seq":1,"time":1,"type":"session.created","session":"ses_1","agent":"opencode","cwd":"/srv/project"}"#,
//!     r#"{"seq":2,"time":1,"type":"turn.started","turn":"t1","origin":"agent","prompts":[]}"#,
//!     r#"{"seq":3,"time":1,"type":"item.started","turn":"t1","item":"i1","kind":"message","role":"assistant","text":"Hi"}"#,
//! ];
//! let (mut encoder, mut out) = (Encoder::new(), Vec::new());
//! for line in log {
//!     encoder.encode(&Event::from_json(line)?, &mut out);
//! }
//! assert_eq!(
//!     out[0].to_json("ses_1"),
//!     r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"ses_1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hi"},"messageId":"i1"}}}"#
//! );
//! # Ok::<(), turnstream_model::event::EventError>(())
//! ```

mod asks;
mod dialect;
mod encoder;
mod ended_items;
mod ending;
mod event;
mod item;
mod items;
mod params;
mod plan;
mod replay;
mod subagents;
mod tag;
mod tool;
mod write;

pub use agent_client_protocol_schema::v1 as schema;
pub use asks::{Permission, Question};
pub use dialect::Acp;
pub use encoder::Encoder;
pub use ending::{End, Fault, SESSION_ERROR, STREAM_ERROR, TIMEOUT};
pub use event::{AcpEvent, Chunk, ChunkKind, EndedItem, ItemNews, ItemNote, Notice, Revision, ToolText};
pub(crate) use plan::contents as plan_entries;
pub use tag::{Ended, Mark, Tag, Void};
pub use write::request_id;
