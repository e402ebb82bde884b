//! A decoder and an encoder for server-sent events (SSE).
//!
//! The [`Decoder`] follows the WHATWG rules for events, and reports more than most decoders. Comments,
//! lines that are not fields, invalid UTF-8, discarded bytes and a partial event at the end are all
//! [`Frame`]s with their byte range. So an HTML page or a cut connection cannot look like a quiet stream.
//!
//! Time is linear in the input, and the cap on event size bounds the memory. The frames do not depend on
//! how the input is split.
//!
//! ```
//! use turnstream_sse::{Decoder, Frame};
//!
//! let mut decoder = Decoder::new();
//! let mut seen = Vec::new();
//! for read in [&b"event: greet\nda"[..], b"ta: hello\n\n<html>\n", b"data: cut he"] {
//!     let mut frames = decoder.feed(read);
//!     while let Some(frame) = frames.next_frame() {
//!         match frame {
//!             Frame::Event(event) => seen.push(format!("{}: {}", event.event, event.data)),
//!             Frame::Anomaly(anomaly) => seen.push(format!("{:?} at {:?}", anomaly.kind, anomaly.range)),
//!             Frame::Undispatched(_) | Frame::Comment(_) | Frame::Residue(_) => {}
//!         }
//!     }
//! }
//! if let Some(Frame::Residue(residue)) = decoder.finish() {
//!     seen.push(format!("left over: {}", residue.parsed.data));
//! }
//! assert_eq!(seen, ["greet: hello", "NotAField at 26..32", "left over: cut he"]);
//! ```
//!
//! The [`encode`] module writes frames that any decoder reads back unchanged, whatever the data contains.

mod block;
mod carry_over;
mod decoder;
pub mod encode;
mod frame;
mod line;
mod utf8_buffer;

pub use decoder::{DEFAULT_LIMIT, Decoder, Frames};
pub use frame::{Anomaly, AnomalyKind, Comment, Cut, Event, Frame, Residue, Text};
