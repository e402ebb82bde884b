//! Writes to the client, with the faults by byte and pace.

use super::rules::{Action, Ending, Fault, Pace, Point, RequestHead, Rest, RuleId};
use super::shared_state::{Live, SharedState};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::WriteHalf;
use tokio::time::{Instant, sleep};

/// The most bytes that are delayed.
const HELD_CAP: usize = 1 << 20;

/// The client's side of a connection.
pub(super) struct Sender<'a> {
    out: WriteHalf<'a>,
    pub(super) shared: &'a SharedState,
    pub(super) connection: u64,
    request: Option<Arc<RequestHead>>,
    sent: u64,
    done: HashSet<RuleId>,
    /// The pace of this response. It stays active here even if the rule cannot fire again.
    paces: Vec<Pace>,
    discard: bool,
    held: Vec<u8>,
    /// When delayed bytes must be sent.
    pub(super) flush_at: Option<Instant>,
}

/// Why the connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stop(pub(super) Ending);

// === impl Sender ===

impl<'a> Sender<'a> {
    pub(super) fn new(out: WriteHalf<'a>, shared: &'a SharedState, connection: u64) -> Self {
        Self {
            out,
            shared,
            connection,
            request: None,
            sent: 0,
            done: HashSet::new(),
            paces: Vec::new(),
            discard: false,
            held: Vec::new(),
            flush_at: None,
        }
    }

    /// Starts a new response: bytes count from 0, and rules at points may fire again.
    pub(super) fn begin(&mut self, request: Option<Arc<RequestHead>>) {
        self.request = request;
        self.sent = 0;
        self.done.clear();
        self.paces.clear();
        self.discard = false;
    }

    /// The active rules for this response.
    pub(super) fn rules(&self) -> Vec<Arc<Live>> {
        self.shared.matching(self.connection, self.request.as_deref())
    }

    /// Sends a piece from the upstream.
    pub(super) async fn send(&mut self, mut bytes: &[u8]) -> Result<(), Stop> {
        if bytes.is_empty() {
            return Ok(());
        }
        let rules = self.rules();
        self.set_pace(&rules);
        for pace in &self.paces {
            if let Pace::EachChunk(pause) = pace {
                sleep(*pause).await;
            }
        }
        while !self.discard {
            let next = rules
                .iter()
                .filter(|live| !self.done.contains(&live.id))
                .filter_map(|live| match live.fault() {
                    Fault::At(Point::Byte(at), action) => Some((at.checked_sub(self.sent)?, live, action)),
                    _ => None,
                })
                .filter(|(distance, _, _)| *distance <= bytes.len() as u64)
                .min_by_key(|(distance, _, _)| *distance);
            let Some((distance, live, action)) = next else { break };
            let (before, after) = bytes.split_at(distance as usize);
            self.write(before).await?;
            bytes = after;
            self.done.insert(live.id);
            match action {
                Action::Stall | Action::Delay(_) => self.pause(live).await?,
                Action::Cut(ending) => {
                    if self.shared.claim(live, self.connection) {
                        self.cut(*ending).await?;
                    }
                }
                Action::Splice(put_in, rest) => {
                    if self.shared.claim(live, self.connection) {
                        self.flush().await?;
                        self.write_now(put_in).await?;
                        self.discard = *rest == Rest::Discard;
                    }
                }
            }
        }
        if !self.discard {
            self.write(bytes).await?;
        }
        Ok(())
    }

    /// Stalls or delays, after everything before the rule's point was sent.
    pub(super) async fn pause(&mut self, live: &Live) -> Result<(), Stop> {
        // Before the claim, because a test that sees the rule fire may release at once.
        let mut releases = self.shared.releases.subscribe();
        if !self.shared.claim(live, self.connection) {
            return Ok(());
        }
        self.flush().await?;
        match live.fault() {
            Fault::At(_, Action::Stall) => {
                // An error means that the proxy has ended, and this task with it.
                let _ = releases.changed().await;
            }
            Fault::At(_, Action::Delay(pause)) => sleep(*pause).await,
            Fault::At(_, Action::Cut(_) | Action::Splice(..)) => {}
            Fault::Event(..) | Fault::Pace(_) | Fault::Refuse(_) | Fault::DelayConnect(_) => {}
        }
        Ok(())
    }

    /// Ends the connection, after everything before the point was sent.
    pub(super) async fn cut(&mut self, ending: Ending) -> Result<(), Stop> {
        self.flush().await?;
        Err(Stop(ending))
    }

    /// Writes delayed bytes.
    pub(super) async fn flush(&mut self) -> Result<(), Stop> {
        self.flush_at = None;
        let held = std::mem::take(&mut self.held);
        self.write_now(&held).await
    }

    /// Ends the stream to the client.
    pub(super) async fn close(&mut self) -> Result<(), Stop> {
        self.flush().await?;
        self.out.shutdown().await.map_err(|_| Stop(Ending::Fin))
    }

    fn set_pace(&mut self, rules: &[Arc<Live>]) {
        for live in rules {
            let Fault::Pace(pace) = live.fault() else { continue };
            if self.done.insert(live.id) && self.shared.claim(live, self.connection) {
                self.paces.push(*pace);
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let mut split: Option<(usize, Duration)> = None;
        let mut window = None;
        for pace in &self.paces {
            match pace {
                Pace::EachChunk(_) => {}
                Pace::Split { size, pause } => split = Some(((*size).max(1), *pause)),
                Pace::Coalesce(time) => window = Some(*time),
            }
        }
        self.sent += bytes.len() as u64;
        if let Some(window) = window {
            self.held.extend_from_slice(bytes);
            self.flush_at.get_or_insert_with(|| Instant::now() + window);
            if self.held.len() > HELD_CAP {
                self.flush().await?;
            }
            return Ok(());
        }
        let Some((size, pause)) = split else { return self.write_now(bytes).await };
        for piece in bytes.chunks(size) {
            self.write_now(piece).await?;
            if pause.is_zero() {
                tokio::task::yield_now().await;
            } else {
                sleep(pause).await;
            }
        }
        Ok(())
    }

    async fn write_now(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        // The client is gone, so it needs no end.
        self.out.write_all(bytes).await.map_err(|_| Stop(Ending::Fin))?;
        self.shared.note(self.connection, |record| record.bytes_down += bytes.len() as u64);
        Ok(())
    }
}
