//! Appends that wait for the next commit, and the byte budget. Everything that arrives during one commit goes
//! into the next.

use crate::appender::Appender;
use crate::error::AppendError;
use crate::session::Session;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Draft, Event};
use turnstream_model::time::Time;

/// The content of an append.
pub(crate) enum Content {
    /// New events, which the writer numbers.
    Drafts(Vec<Draft>, Time),
    /// Events of an imported session, which keep their seq and time.
    Events(Vec<Event>),
}

/// One append.
pub(crate) struct Append {
    pub(crate) session: Arc<Session>,
    pub(crate) epoch: u64,
    /// When it was requested.
    pub(crate) since: Instant,
    pub(crate) content: Content,
    /// Approximate size in bytes.
    pub(crate) weight: usize,
    /// Its share of the byte budget, released after the flush.
    pub(crate) permit: OwnedSemaphorePermit,
    pub(crate) done: oneshot::Sender<Result<Seq, AppendError>>,
}

#[derive(Default)]
struct State {
    appends: Vec<Append>,
    weight: usize,
    closed: bool,
    /// The writer should run although there is nothing to commit.
    woken: bool,
}

/// Many callers append; the writer takes everything at once.
pub(crate) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
    budget: Arc<Semaphore>,
    budget_bytes: u32,
    /// Imports arrive as fast as a file is read. They have a small budget of their own, so that live sessions
    /// are not delayed.
    imports: Arc<Semaphore>,
    imports_bytes: u32,
}

/// Imports get this fraction of the budget in addition to it.
const IMPORTS_PART: u32 = 8;

impl State {
    fn drain_for_commit(&mut self) -> Vec<Append> {
        if self.weight <= Appender::MOST_BYTES {
            self.weight = 0;
            return std::mem::take(&mut self.appends);
        }
        let mut weight = 0;
        let too_much = |append: &Append| {
            weight += append.weight;
            weight >= Appender::MOST_BYTES
        };
        let fit = self.appends.iter().position(too_much).map_or(self.appends.len(), |last| last + 1);
        let rest = self.appends.split_off(fit);
        let taken = std::mem::replace(&mut self.appends, rest);
        self.weight -= taken.iter().map(|append| append.weight).sum::<usize>();
        taken
    }
}

impl Queue {
    /// A queue with this byte budget.
    pub(crate) fn new(budget: usize) -> Self {
        let budget_bytes = u32::try_from(budget).unwrap_or(u32::MAX).max(1);
        let imports_bytes = (budget_bytes / IMPORTS_PART).max(1);
        Self {
            state: Mutex::default(),
            arrived: Condvar::new(),
            budget: Arc::new(Semaphore::new(budget_bytes as usize)),
            budget_bytes,
            imports: Arc::new(Semaphore::new(imports_bytes as usize)),
            imports_bytes,
        }
    }

    /// Reserves bytes of the budget, waiting if needed. An append larger than the whole budget waits until
    /// the budget is free.
    pub(crate) async fn reserve(
        &self,
        content: &Content,
        weight: usize,
    ) -> Result<OwnedSemaphorePermit, AppendError> {
        let (budget, most) = match content {
            Content::Drafts(..) => (&self.budget, self.budget_bytes),
            Content::Events(_) => (&self.imports, self.imports_bytes),
        };
        let permits = u32::try_from(weight).unwrap_or(u32::MAX).clamp(1, most);
        budget.clone().acquire_many_owned(permits).await.map_err(|_| AppendError::Closed)
    }

    /// Adds an append. Returns it if the queue is closed.
    pub(crate) fn append(&self, append: Append) -> Result<(), Append> {
        let mut state = self.lock();
        if state.closed {
            return Err(append);
        }
        state.weight += append.weight;
        state.appends.push(append);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// Refuses further appends, and ends the wait for budget.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
        self.budget.close();
        self.imports.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Wakes the writer without an append.
    pub(crate) fn wake_writer(&self) {
        self.lock().woken = true;
        self.arrived.notify_one();
    }

    /// Waits for appends and takes as many as fit into one commit. The list is empty if the writer was only
    /// woken. `None` when the queue is closed and empty.
    pub(crate) fn next_commit(&self) -> Option<Vec<Append>> {
        let mut state = self.lock();
        while state.appends.is_empty() && !state.closed && !state.woken {
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let woken = std::mem::take(&mut state.woken);
        (!state.appends.is_empty() || (woken && !state.closed)).then(|| state.drain_for_commit())
    }

    /// Reserved bytes, and the budget.
    pub(crate) fn under_way(&self) -> (u64, u64) {
        let most = u64::from(self.budget_bytes);
        (most.saturating_sub(self.budget.available_permits() as u64), most)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No panic can happen between two changes under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::SessionRecord;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};
    use turnstream_model::cursor::Generation;
    use turnstream_model::id::SessionId;

    /// The result of a future that is ready at once.
    fn at_once<T>(future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    async fn append(queue: &Queue, number: u64, weight: usize) {
        let known = SessionRecord {
            key: 1,
            generation: Generation::new("g").unwrap(),
            epoch: 1,
            oldest: Seq(1),
            head: Seq(0),
        };
        let content = Content::Drafts(Vec::new(), Time(number));
        let append = Append {
            session: Arc::new(Session::new(&SessionId::from("s"), &known)),
            epoch: 1,
            since: Instant::now(),
            permit: queue.reserve(&content, 1).await.unwrap(),
            content,
            weight,
            done: oneshot::channel().0,
        };
        assert!(queue.append(append).is_ok());
    }

    #[tokio::test]
    async fn an_import_waits_for_its_own_and_takes_no_room_from_those_who_talk() {
        let queue = Queue::new(800);
        let (import, talk) = (Content::Events(Vec::new()), Content::Drafts(Vec::new(), Time(0)));
        let held = queue.reserve(&import, 90).await.unwrap();
        let mut next = std::pin::pin!(queue.reserve(&import, 20));
        assert!(at_once(next.as_mut()).is_none(), "110 of 100");
        assert!(
            at_once(std::pin::pin!(queue.reserve(&talk, 800))).is_some(),
            "all of it is free for the others"
        );
        drop(held);
        assert!(at_once(next).is_some());
        assert!(
            at_once(std::pin::pin!(queue.reserve(&import, 5_000))).is_some(),
            "what is larger goes alone"
        );
    }

    #[tokio::test]
    async fn more_than_a_commit_may_hold_is_taken_in_several_in_order() {
        const MIB: usize = 1 << 20;
        let queue = Queue::new(1_000);
        let weights = [1, 40, 23, 1, 64, 5, 64, 64, 2, 3, 60].map(|mib| mib * MIB);
        for (number, weight) in weights.into_iter().enumerate() {
            append(&queue, number as u64, weight).await;
        }
        queue.close();
        let mut taken = Vec::new();
        let mut commits = Vec::new();
        while let Some(appends) = queue.next_commit() {
            commits.push(appends.iter().map(|append| append.weight / MIB).sum::<usize>());
            taken.extend(appends.iter().map(|append| match &append.content {
                Content::Drafts(_, time) => time.0,
                Content::Events(_) => unreachable!("nobody imports here"),
            }));
        }
        assert_eq!(taken, (0..weights.len() as u64).collect::<Vec<_>>(), "all of them, once, in order");
        assert_eq!(commits, [64, 65, 69, 64, 65], "none holds as much as two of the largest appends");
    }
}
