//! Dialects: pure encodings of a session's log, one for each kind of client. No clock, no I/O, no transport.
//!
//! Each dialect is a folder, implements [`Dialect`] and is listed in [`for_each_dialect!`]. The server finds
//! it by its name. `docs/http.md` describes it.
//!
//! - [`native`] is Turnstream's own wire. It copies the committed bytes.
//! - [`acp`] is the Agent Client Protocol. `docs/acp.md` has the mapping of every event, which a test checks.
//! - [`ag_ui`] is AG-UI, for web apps. See `docs/ag-ui.md`.
//! - [`ai_sdk`] is the stream of the Vercel AI SDK, for web apps. See `docs/ai-sdk.md`.
//! - [`opencode`] is the API of opencode's server, for its own clients. See `docs/opencode-compat.md`.
//!
//! [`markdown`] writes a page for people and does not implement [`Dialect`]. It groups the items of a turn
//! and ends with totals, so it is written once, from a finished state.

pub mod acp;
pub mod ag_ui;
pub mod ai_sdk;
mod dialect;
pub mod markdown;
pub mod native;
pub mod opencode;
mod said;
mod text_diff;

pub use dialect::{Dialect, FrameSink, Repeats};

/// Passes the types of all dialects to a macro, separated by commas. The server offers them, and the tests
/// check what each one promises.
#[macro_export]
macro_rules! for_each_dialect {
    ($call:ident) => {
        $call! {
            $crate::native::Native, $crate::acp::Acp, $crate::opencode::Opencode, $crate::ai_sdk::AiSdk<5>,
            $crate::ai_sdk::AiSdk<6>, $crate::ai_sdk::AiSdk<7>, $crate::ag_ui::AgUi
        }
    };
}
