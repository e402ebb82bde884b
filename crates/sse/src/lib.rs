//! Server-sent events: bytes in, in any split; out comes everything that was in them.
//!
//! The [`Decoder`] follows the WHATWG rules for what an event is, and departs from usual decoders in
//! what it tells. Comments, lines that are not fields, invalid UTF-8, discarded bytes and the rest left at
//! the end of input are all [`Frame`]s with their byte range in the stream, so that an HTML page
//! or a cut connection cannot look like a quiet stream. Time is linear in the input, memory is bounded
//! by the cap on event size, and the frames are the same however the input was split.
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
//! The [`encode`] module writes frames that any decoder reads back, whatever the data contains.

mod block;
mod decoder;
pub mod encode;
mod frame;
mod gather;
mod hold;
mod line;

pub use decoder::{DEFAULT_LIMIT, Decoder, Frames};
pub use frame::{Anomaly, AnomalyKind, Comment, Cut, Event, Frame, Residue, Text};
