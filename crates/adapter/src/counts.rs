//! Counters of an agent: the health of its server and of its event stream. None of this is in a log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The values of [`Counters`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lost event streams: the connection broke, ended, was silent, or could not be opened.
    pub stream_losses: u64,
    /// Reconnected event streams.
    pub stream_reconnects: u64,
    /// How often events were dropped, because one could not be read or a subscriber was too slow.
    pub events_left_out: u64,
    /// Events of unknown types.
    pub unknown_events: u64,
    /// Prompts that the server refused because another one was running.
    pub prompt_conflicts: u64,
    /// Permissions that a rule of the client library allowed. The gateway has rules of its own, and counts
    /// the permissions that they allow from its log.
    pub unexpected_permissions: u64,
    /// Server processes that were started.
    pub server_starts: u64,
    /// Server processes that ended without being told to, or never became ready.
    pub server_exits: u64,
}

/// Atomic counters. Clones share them.
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

/// One thing to count, by the field of [`Counts`] that it increments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// [`Counts::stream_losses`].
    StreamLoss,
    /// [`Counts::stream_reconnects`].
    StreamReconnect,
    /// [`Counts::events_left_out`].
    EventsLeftOut,
    /// [`Counts::unknown_events`].
    UnknownEvent,
    /// [`Counts::prompt_conflicts`].
    PromptConflict,
    /// [`Counts::unexpected_permissions`].
    UnexpectedPermission,
    /// [`Counts::server_starts`].
    ServerStart,
    /// [`Counts::server_exits`].
    ServerExit,
}

impl Counters {
    /// The current values.
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

    /// Increments one counter.
    pub fn count(&self, counted: Counted) {
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
