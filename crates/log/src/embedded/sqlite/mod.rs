//! The database: one SQLite file, one writing connection, a few reading ones.

mod backfill;
mod find;
mod imports;
mod index;
mod passage;
mod pieces;
mod read;
mod remove;
mod revision;
mod schema;
pub(crate) mod scrub;
mod separators;
mod unscrubbed;
mod wal;
mod window;
mod write;

pub(crate) use imports::Seen;
pub(crate) use read::Readers;
pub(crate) use remove::More;
pub(crate) use revision::Revision;
pub(crate) use schema::{Found, Meta, fresh_generation, open};
pub(crate) use separators::Separator;
pub(crate) use write::{Chunks, Database, FIRST_EPOCH, Generations, Settlement, TurnRow};
