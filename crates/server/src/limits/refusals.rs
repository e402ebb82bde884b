//! The limits of the server that refuse clients.

use turnstream_gateway::RefusingLimit;

/// A limit that can refuse a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limit {
    Connections,
    ConnectionsPerAddress,
    RequestsPerSecond,
    Followers,
    BodyMemory,
    Imports,
    ImportTime,
}

impl Limit {
    pub(crate) const ALL: [Self; 7] = [
        Self::Connections,
        Self::ConnectionsPerAddress,
        Self::RequestsPerSecond,
        Self::Followers,
        Self::BodyMemory,
        Self::Imports,
        Self::ImportTime,
    ];
}

impl RefusingLimit for Limit {
    fn word(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::ConnectionsPerAddress => "connections_per_address",
            Self::RequestsPerSecond => "requests_per_second",
            Self::Followers => "followers",
            Self::BodyMemory => "body_memory",
            Self::Imports => "imports",
            Self::ImportTime => "import_time",
        }
    }
}

/// What the server's limits refused.
pub(crate) type Refusals = turnstream_gateway::Refusals<Limit>;
