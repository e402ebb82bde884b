//! Limits of the server: how much its clients may take of it at once. Every limit has a problem of its own,
//! a number in the metrics and a log line.

mod bodies;
mod client_address;
mod connections;
mod followers;
mod guarded;
mod imports;
mod options;
mod refusals;
mod refused_connection;
mod requests;
mod socket;

use std::sync::Arc;

pub(crate) use bodies::{Buffer, BufferError};
pub(crate) use connections::Slot;
pub(crate) use guarded::Guarded;
pub(crate) use refusals::{Limit, Refusals};
pub(crate) use refused_connection::RefusedConnections;
pub(crate) use requests::limit_requests;
pub(crate) use socket::Socket;

pub use options::Limits;

use bodies::BodyMemory;
use client_address::ClientAddress;
use connections::Connections;
use followers::Followers;
use imports::Imports;
use requests::RequestRates;

/// What is in use of every limit.
pub(crate) struct InUse {
    pub(crate) connections: Arc<Connections>,
    pub(crate) followers: Arc<Followers>,
    pub(crate) bodies: Arc<BodyMemory>,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) imports: Imports,
    requests: RequestRates,
}

impl InUse {
    /// Nothing is in use yet.
    pub(crate) fn new(limits: &Limits) -> Self {
        let refusals = Arc::new(Refusals::default());
        Self {
            connections: Connections::new(limits.connections_allowed(), limits.connections_per_address),
            followers: Followers::new(limits.followers, refusals.clone()),
            bodies: BodyMemory::new(limits, refusals.clone()),
            imports: Imports::new(limits, refusals.clone()),
            requests: RequestRates::new(limits.requests_per_second, limits.requests_burst),
            refusals,
        }
    }
}
