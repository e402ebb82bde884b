//! The memory for bodies that have not arrived completely: one budget for all of them.
//!
//! A body takes memory as it arrives. If there is none left, it waits a moment. Meanwhile bodies that make no
//! progress are given up, the largest first, so that clients which stop in the middle keep nobody out. A
//! quarter of the memory is for the beginnings of bodies only: small bodies do not wait for large ones.

use super::options::Limits;
use super::refusals::{Limit, Refusals};
use crate::problem::{Kind, Problem};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// How often a body that waits looks for others to give up.
const LOOK: Duration = Duration::from_millis(100);
/// A body makes no progress if fewer than [`PROGRESS`] bytes came in this time.
const STALLED: Duration = Duration::from_secs(1);
const PROGRESS: usize = 64 * 1024;
/// The length of a beginning. Most bodies are shorter.
const BEGINNING: usize = 64 * 1024;
/// Memory that a body takes at first.
const FIRST: usize = 4 * 1024;
/// Seconds after which a client that was refused may try again.
const RETRY_AFTER: u64 = 2;

/// The memory for the bodies of one server.
pub(crate) struct BodyMemory {
    most: usize,
    /// How long a body waits for memory.
    wait: Duration,
    beginnings: Share,
    rests: Share,
    bodies: Mutex<Bodies>,
    refusals: Arc<Refusals>,
}

#[derive(Default)]
struct Bodies {
    last: u64,
    arriving: HashMap<u64, Arriving>,
}

/// A part of the memory.
struct Share {
    part: Part,
    /// Bytes that are free.
    free: Semaphore,
}

/// The part of a body for which memory is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The first 64 KiB.
    Beginning,
    Rest,
}

/// A body that is arriving.
struct Arriving {
    beginning: usize,
    rest: usize,
    /// Bytes that came since `since`, fewer than [`PROGRESS`].
    bytes: usize,
    since: Instant,
    is_waiting: bool,
    give_up: Arc<Notify>,
}

/// The bytes of a body that have arrived. Their memory is free again when this is dropped.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// Most bytes that the body can have.
    most: usize,
    memory: Arc<BodyMemory>,
    id: u64,
    give_up: Arc<Notify>,
}

/// Why a body is not received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferError {
    /// It is longer than it may be.
    TooLong,
    /// No memory became free in time.
    Exhausted,
}

// === impl BodyMemory ===

impl BodyMemory {
    pub(crate) fn new(limits: &Limits, refusals: Arc<Refusals>) -> Arc<Self> {
        let most = limits.body_memory_allowed().min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            most,
            wait: limits.wait,
            beginnings: Share { part: Part::Beginning, free: Semaphore::new(most / 4) },
            rests: Share { part: Part::Rest, free: Semaphore::new(most - most / 4) },
            bodies: Mutex::default(),
            refusals,
        })
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.most - self.beginnings.free.available_permits() - self.rests.free.available_permits()
    }

    /// Begins to receive a body of at most this many bytes.
    pub(crate) fn buffer(self: &Arc<Self>, most: usize) -> Buffer {
        let give_up = Arc::new(Notify::new());
        let arriving = Arriving {
            beginning: 0,
            rest: 0,
            bytes: 0,
            since: Instant::now(),
            is_waiting: false,
            give_up: give_up.clone(),
        };
        let mut bodies = self.bodies();
        bodies.last += 1;
        let id = bodies.last;
        bodies.arriving.insert(id, arriving);
        drop(bodies);
        Buffer { bytes: Vec::new(), most, memory: self.clone(), id, give_up }
    }

    /// The answer to a body for which there is no memory.
    pub(crate) fn refusal(&self) -> Problem {
        self.refusals.count(Limit::BodyMemory);
        let detail = format!(
            "bodies of requests that have not arrived completely use all {} bytes of their memory; send it again, or \
             raise `body_memory` in [limits]",
            self.most
        );
        let problem = Problem::new(Kind::BodyMemory, detail).with("limit", self.most);
        problem.retry_after(RETRY_AFTER)
    }

    /// Gives up bodies that make no progress, until they had this much memory of that part together.
    fn give_up_stalled(&self, part: Part, wanted: usize) {
        let bodies = self.bodies();
        let mut stalled: Vec<&Arriving> = bodies
            .arriving
            .values()
            .filter(|body| !body.is_waiting && body.since.elapsed() >= STALLED)
            .collect();
        stalled.sort_unstable_by_key(|body| std::cmp::Reverse(body.memory(part)));
        let mut freed = 0;
        for body in stalled {
            let memory = body.memory(part);
            if freed >= wanted || memory == 0 {
                break;
            }
            freed += memory;
            body.give_up.notify_one();
        }
    }

    fn bodies(&self) -> MutexGuard<'_, Bodies> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, id: u64, change: impl FnOnce(&mut Arriving)) {
        if let Some(body) = self.bodies().arriving.get_mut(&id) {
            change(body);
        }
    }
}

// === impl Arriving ===

impl Arriving {
    /// The memory that a part of it has.
    fn memory(&self, part: Part) -> usize {
        match part {
            Part::Beginning => self.beginning,
            Part::Rest => self.rest,
        }
    }

    fn add_memory(&mut self, part: Part, bytes: usize) {
        match part {
            Part::Beginning => self.beginning += bytes,
            Part::Rest => self.rest += bytes,
        }
    }
}

// === impl Buffer ===

impl Buffer {
    /// Adds bytes. Waits for memory if there is none.
    pub(crate) async fn add(&mut self, bytes: &[u8]) -> Result<(), BufferError> {
        let length = self.bytes.len() + bytes.len();
        if length > self.most {
            return Err(BufferError::TooLong);
        }
        let capacity = self.bytes.capacity();
        if length > capacity {
            let grown = length.max(capacity * 2).max(FIRST).min(self.most);
            let beginning = |length: usize| length.min(BEGINNING);
            self.take(&self.memory.beginnings, beginning(grown) - beginning(capacity)).await?;
            let rest = |length: usize| length.saturating_sub(BEGINNING);
            self.take(&self.memory.rests, rest(grown) - rest(capacity)).await?;
            self.bytes.reserve_exact(grown - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        self.memory.change(self.id, |body| {
            body.bytes += bytes.len();
            if body.bytes >= PROGRESS {
                (body.bytes, body.since) = (0, Instant::now());
            }
        });
        Ok(())
    }

    /// Returns when this body is given up for others.
    pub(crate) fn given_up(&self) -> impl Future<Output = ()> + use<> {
        let give_up = self.give_up.clone();
        async move { give_up.notified().await }
    }

    async fn take(&self, share: &Share, bytes: usize) -> Result<(), BufferError> {
        // A body has at most 10 MiB.
        let amount = u32::try_from(bytes).map_err(|_| BufferError::TooLong)?;
        let permit = match share.free.try_acquire_many(amount) {
            Ok(permit) => permit,
            Err(_) => {
                self.memory.change(self.id, |body| body.is_waiting = true);
                let waited = tokio::time::timeout(self.memory.wait, self.wait_for(share, amount)).await;
                self.memory.change(self.id, |body| {
                    (body.is_waiting, body.bytes, body.since) = (false, 0, Instant::now());
                });
                waited.map_err(|_| BufferError::Exhausted)??
            }
        };
        permit.forget();
        self.memory.change(self.id, |body| body.add_memory(share.part, bytes));
        Ok(())
    }

    async fn wait_for<'a>(&self, share: &'a Share, amount: u32) -> Result<SemaphorePermit<'a>, BufferError> {
        let mut acquired = std::pin::pin!(share.free.acquire_many(amount));
        loop {
            self.memory.give_up_stalled(share.part, amount as usize);
            tokio::select! {
                // The semaphore is never closed.
                permit = &mut acquired => return permit.map_err(|_| BufferError::Exhausted),
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // The memory is free before others may take it.
        self.bytes = Vec::new();
        if let Some(body) = self.memory.bodies().arriving.remove(&self.id) {
            self.memory.beginnings.free.add_permits(body.beginning);
            self.memory.rests.free.add_permits(body.rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BodyMemory, BufferError, Limits, Refusals};
    use futures_util::FutureExt;
    use std::sync::Arc;
    use std::time::Duration;

    const MIB: usize = 1 << 20;

    fn memory(body_memory: usize) -> Arc<BodyMemory> {
        let limits = Limits { body_memory, ..Limits::default() };
        BodyMemory::new(&limits, Arc::new(Refusals::default()))
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_counted_as_it_is_taken_and_is_free_afterwards() {
        let memory = memory(20 * MIB);
        let mut buffer = memory.buffer(10 * MIB);
        assert_eq!(memory.used(), 0, "nothing has arrived");
        for _ in 0..10_000 {
            buffer.add(b"x").await.unwrap();
        }
        assert!((10_000..=20_000).contains(&memory.used()), "{}", memory.used());
        assert_eq!(buffer.len(), 10_000);
        assert_eq!(buffer.add(&vec![b'x'; 10 * MIB]).await, Err(BufferError::TooLong));
        drop(buffer);
        assert_eq!(memory.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_stop_in_the_middle_are_given_up_for_one_that_arrives() {
        let memory = memory(24 * MIB);
        let mut stopped = [memory.buffer(9 * MIB), memory.buffer(8 * MIB)];
        for buffer in &mut stopped {
            let most = buffer.most;
            buffer.add(&vec![b'x'; most]).await.unwrap();
        }
        let given_up = stopped.each_ref().map(|buffer| buffer.given_up());
        let [one, _other] = stopped;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut small = memory.buffer(MIB);
        let added = small.add(&[b'x'; 50_000]).now_or_never();
        assert_eq!(added, Some(Ok(())), "a small one does not wait");
        let mut arriving = memory.buffer(10 * MIB);
        let bytes = vec![b'x'; 5 * MIB];
        let (added, ()) = tokio::join!(arriving.add(&bytes), async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            drop(one);
        });
        added.unwrap();
        assert_eq!(given_up.map(|given_up| given_up.now_or_never().is_some()), [true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_waits_a_bounded_time_for_those_that_make_progress() {
        let memory = memory(14 * MIB);
        let mut buffer = memory.buffer(10 * MIB);
        for length in [6 * MIB, 64 * 1024] {
            buffer.add(&vec![b'x'; length]).await.unwrap();
        }
        assert_eq!(memory.used(), 10 * MIB);
        let given_up = buffer.given_up();
        let begun = tokio::time::Instant::now();
        let mut other = memory.buffer(MIB);
        let bytes = vec![b'x'; MIB];
        let progress = async {
            for _ in 0..7 {
                tokio::time::sleep(Duration::from_millis(900)).await;
                buffer.add(&vec![b'x'; 64 * 1024]).await.unwrap();
            }
        };
        let (added, ()) = tokio::join!(other.add(&bytes), progress);
        assert_eq!(added, Err(BufferError::Exhausted));
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert!(given_up.now_or_never().is_none());
    }
}
