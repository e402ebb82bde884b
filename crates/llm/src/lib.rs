//! Reads the streams of LLM providers so that a damaged stream never passes for a complete one.
//!
//! The crate has two layers:
//!
//! - [`Reader`] decodes the body of one HTTP response. It is pure: bytes in, [`StreamEvent`]s out, and one
//!   [`Outcome`] at the end. It does no I/O and reads no clock.
//! - `client::Client` (feature `client`) sends requests over HTTP or HTTPS, retries them, stores long waits,
//!   and records every attempt in a ledger.
//!
//! # Example
//!
//! ```
//! use turnstream_llm::{Format, Head, Profile, Reader, StreamEnd, StreamEvent, Transport};
//!
//! let body: &[u8] = br#"data: {"id":"c1","choices":[{"delta":{"role":"assistant","content":"Hi"}}]}
//!
//! data: {"id":"c1","choices":[{"delta":{},"finish_reason":"stop"}]}
//!
//! data: [DONE]
//!
//! "#;
//!
//! let mut reader = Reader::new(Format::Chat, &Profile::OPENAI, Head::stream());
//! let mut events = Vec::new();
//! for chunk in body.chunks(7) {
//!     reader.push(chunk, &mut events);
//!     for event in events.drain(..) {
//!         if let StreamEvent::Text { text, .. } = event {
//!             assert_eq!(text, "Hi");
//!         }
//!     }
//! }
//! let outcome = reader.end(Transport::Clean, &mut events);
//! assert_eq!(outcome.ended, StreamEnd::Complete);
//! assert!(outcome.runnable().is_empty());
//! ```
//!
//! # Promises
//!
//! - **Any split.** Events and outcome do not depend on how the body is cut into chunks.
//! - **Identity.** If a second completion begins in the same body, the outcome is [`StreamEnd::Spliced`] and
//!   nothing of the second completion is read.
//! - **Taint.** An item of which bytes may be lost is reported ([`StreamEvent::Tainted`]) and never
//!   committed.
//! - **Calls.** The tool calls of a step are committed together, at its end, and only if they may run.
//!   [`Outcome::runnable`] lists them. Arguments are never repaired.
//! - **Bounds.** One attempt keeps at most 32 MiB of content. No input makes a reader panic.
//!
//! The rules for each format are in `docs/llm.md`.
//!
//! # Errors
//!
//! A reader returns no error: the outcome says how the stream ended. [`classify`] turns an outcome or a
//! transport error into a [`classify::Failure`] with an error class, and [`retry`] decides whether to ask
//! again. `client::ClientError` is the only error of creating a client. A running call reports its end as a
//! `client::CallOutcome`.
//!
//! # Modules
//!
//! | module | purpose |
//! |---|---|
//! | [`account`] | findings about an attempt, for the ledger and for people |
//! | [`classify`] | the error class of a failure, from evidence and never from prose |
//! | `client` | requests, retries and waits; needs the feature `client` |
//! | [`delay`] | parses when a provider wants to be asked again |
//! | [`evidence`] | the bytes of a failed attempt that may be stored |
//! | [`retry`] | decides whether and when to ask again |
//! | [`wait`] | waits that survive clock changes and restarts |

mod attempt;
mod body;
mod decode;
mod document;
mod head;
mod profile;
mod reader;
mod wire;

pub mod account;
pub mod classify;
#[cfg(feature = "client")]
pub mod client;
pub mod delay;
pub mod evidence;
pub mod retry;
pub mod wait;

pub use attempt::{
    Anomaly, AnomalyKind, Body, BodyKind, Delivered, Extra, Finish, FinishMeaning, Furthest, Identity, Item,
    ItemNo, Outcome, ProfileRule, ProviderError, ReasoningData, Repair, Repairs, Residue, SpliceEvidence,
    SpliceFinding, StreamEnd, StreamEvent, ToolCall, ToolCallKind, Transport, Usage, WithheldCall,
    WithheldReason,
};
pub use head::{Format, Head};
pub use profile::{
    CallIndex, ChunkId, Constancy, DoneMarker, EmptyArguments, Opening, Pings, Profile, ProfileError,
    ProfileSettings, Sequence, Throttle, Word,
};
pub use reader::{Reader, repaired_payloads};
