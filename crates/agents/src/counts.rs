//! What is counted of an agent that is no event of any log: how its server and the way to it are doing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was counted since the counting began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Event streams that were lost: the connection broke, ended, was silent, or could not be opened.
    pub stream_losses: u64,
    /// Event streams that were had again after a loss.
    pub stream_reconnects: u64,
    /// Times that events were left out, because one could not be read or a reader was too slow.
    pub events_left_out: u64,
    /// Events of a type that this version does not know.
    pub unknown_events: u64,
    /// Prompts that the server refused because another one ran.
    pub prompt_conflicts: u64,
    /// Asks that a rule allowed where nobody was asked. Counted by who applies the rule: the client library here, the
    /// gateway from its log.
    pub unexpected_permissions: u64,
    /// Processes of the server that were started.
    pub server_starts: u64,
    /// Processes of the server that ended without having been told to, or never became ready.
    pub server_exits: u64,
}

/// Counts. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Counters(Arc<Cells>);

#[derive(Debug, Default)]
struct Cells {
    stream_losses: AtomicU64,
    stream_reconnects: AtomicU64,
    events_left_out: AtomicU64,
    unknown_events: AtomicU64,
    prompt_conflicts: AtomicU64,
    unexpected_permissions: AtomicU64,
    server_starts: AtomicU64,
    server_exits: AtomicU64,
}

/// One thing to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    StreamLoss,
    StreamReconnect,
    EventsLeftOut,
    UnknownEvent,
    PromptConflict,
    UnexpectedPermission,
    ServerStart,
    ServerExit,
}

impl Counters {
    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        let Cells {
            stream_losses,
            stream_reconnects,
            events_left_out,
            unknown_events,
            prompt_conflicts,
            unexpected_permissions,
            server_starts,
            server_exits,
        } = &*self.0;
        let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        Counts {
            stream_losses: read(stream_losses),
            stream_reconnects: read(stream_reconnects),
            events_left_out: read(events_left_out),
            unknown_events: read(unknown_events),
            prompt_conflicts: read(prompt_conflicts),
            unexpected_permissions: read(unexpected_permissions),
            server_starts: read(server_starts),
            server_exits: read(server_exits),
        }
    }

    pub(crate) fn count(&self, counted: Counted) {
        let cells = &self.0;
        let cell = match counted {
            Counted::StreamLoss => &cells.stream_losses,
            Counted::StreamReconnect => &cells.stream_reconnects,
            Counted::EventsLeftOut => &cells.events_left_out,
            Counted::UnknownEvent => &cells.unknown_events,
            Counted::PromptConflict => &cells.prompt_conflicts,
            Counted::UnexpectedPermission => &cells.unexpected_permissions,
            Counted::ServerStart => &cells.server_starts,
            Counted::ServerExit => &cells.server_exits,
        };
        cell.fetch_add(1, Ordering::Relaxed);
    }
}
