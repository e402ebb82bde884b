//! An exported session: the header line of its file, and up to where a log may leave the house. See
//! `docs/export.md`.

mod header;
mod settled;

pub use header::{FORMAT, Header, HeaderError};
pub use settled::Settled;
