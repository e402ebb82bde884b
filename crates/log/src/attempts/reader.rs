//! A read-only view of attempts, with or without a running owner. Used by `turnstream inspect`.

use super::{DATABASE, database, schema};
use crate::error::OpenError;
use rusqlite::Connection;
use std::path::Path;
use turnstream_model::attempts::{Attempt, AttemptName, Evidence, Parked, Unkept};
use turnstream_model::id::SessionId;

/// A reader that needs no lock. A row without an end may belong to a running owner.
pub struct AttemptsReader {
    connection: Connection,
}

impl AttemptsReader {
    /// Opens the attempts of this data directory.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        Ok(Self { connection: schema::open_reader(&directory.join(DATABASE))? })
    }

    /// The attempts of a session, in the order in which they began.
    pub fn attempts(&self, session: &SessionId) -> Result<Vec<Attempt>, Unkept> {
        database::attempts(&self.connection, session)
    }

    /// One attempt.
    pub fn attempt(&self, name: &AttemptName) -> Result<Option<Attempt>, Unkept> {
        database::attempt(&self.connection, name)
    }

    /// The bytes that were kept of a failed attempt.
    pub fn evidence(&self, name: &AttemptName) -> Result<Option<Evidence>, Unkept> {
        database::evidence(&self.connection, name)
    }

    /// All parked waits, soonest first.
    pub fn parked(&self) -> Result<Vec<Parked>, Unkept> {
        database::parked(&self.connection)
    }
}
