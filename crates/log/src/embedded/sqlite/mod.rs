//! The database: one SQLite file, one writing connection, and a pool of reading ones.

mod backfill;
mod find;
mod imports;
mod index;
mod pieces;
mod read;
mod remove;
mod revision;
mod schema;
pub(crate) mod scrub;
mod search_gate;
mod separators;
mod unscrubbed;
mod wal;
mod window;
mod write;

pub(crate) use imports::Visibility;
pub(crate) use read::Readers;
pub(crate) use remove::More;
pub(crate) use revision::Revision;
pub(crate) use schema::{Meta, OpenedDatabase, fresh_generation, open};
pub(crate) use separators::Separator;
pub(crate) use window::FoldError;
pub(crate) use write::{Chunks, Database, FIRST_EPOCH, FlushBatch, Generations, TurnRow};
