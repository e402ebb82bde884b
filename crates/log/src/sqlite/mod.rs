//! The database: one SQLite file, one writing connection, a few reading ones.

mod pieces;
mod read;
mod schema;
mod write;

pub(crate) use pieces::Stored;
pub(crate) use read::{Known, Readers};
pub(crate) use schema::{fresh_generation, open};
pub(crate) use write::{Chunks, Store, StoreError, TurnRow};
