//! What waits for the next commit, and how much may be under way. Everything that arrives while one commit is under way
//! goes into the next.

use crate::appender::Appender;
use crate::error::AppendError;
use crate::session::Session;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Draft, Event};
use turnstream_model::time::Time;

/// What is to be in the log.
pub(crate) enum Content {
    /// New events: the writer gives them their places.
    Drafts(Vec<Draft>, Time),
    /// Events of an imported session, with the places and times that they have.
    Events(Vec<Event>),
}

/// Events one appender wants in the log.
pub(crate) struct Append {
    pub(crate) session: Arc<Session>,
    pub(crate) epoch: u64,
    /// When it was asked for.
    pub(crate) since: Instant,
    pub(crate) content: Content,
    /// About how many bytes they are.
    pub(crate) weight: usize,
    /// The part of the log's budget to give back when it is settled.
    pub(crate) permit: OwnedSemaphorePermit,
    pub(crate) done: oneshot::Sender<Result<Seq, AppendError>>,
}

#[derive(Default)]
struct State {
    appends: Vec<Append>,
    weight: usize,
    closed: bool,
    /// The writer is wanted, though there is nothing to commit.
    nudged: bool,
}

/// Many callers put, the writer takes all at once.
pub(crate) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
    budget: Arc<Semaphore>,
    budget_bytes: u32,
    /// An import comes as fast as a file is read. It has a small budget of its own, beside which sessions go on talking.
    imports: Arc<Semaphore>,
    imports_bytes: u32,
}

/// The part of the budget that imports have once more, for themselves.
const IMPORTS_PART: u32 = 8;

impl State {
    fn take(&mut self) -> Vec<Append> {
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
    /// A queue of a log in which so many bytes may be under way.
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

    /// Waits until this much more may be under way. What is larger than all that may be goes alone.
    pub(crate) async fn room(
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

    /// Gives it back when the queue is closed.
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

    /// Nothing more is accepted, and nobody waits for room any more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
        self.budget.close();
        self.imports.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Wakes the writer, which then takes nothing.
    pub(crate) fn nudge(&self) {
        self.lock().nudged = true;
        self.arrived.notify_one();
    }

    /// Waits for work and takes everything that waits, as far as it fits into one commit; nothing when the writer is only
    /// wanted. `None` when the queue is closed and everything that was put is taken.
    pub(crate) fn take(&self) -> Option<Vec<Append>> {
        let mut state = self.lock();
        while state.appends.is_empty() && !state.closed && !state.nudged {
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let nudged = std::mem::take(&mut state.nudged);
        (!state.appends.is_empty() || (nudged && !state.closed)).then(|| state.take())
    }

    /// Bytes that are under way, and how many may be.
    pub(crate) fn under_way(&self) -> (u64, u64) {
        let most = u64::from(self.budget_bytes);
        (most.saturating_sub(self.budget.available_permits() as u64), most)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A push or a take cannot panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Known;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};
    use turnstream_model::cursor::Generation;
    use turnstream_model::id::SessionId;

    /// What comes of it without waiting.
    fn at_once<T>(future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    async fn append(queue: &Queue, number: u64, weight: usize) {
        let known = Known {
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
            permit: queue.room(&content, 1).await.unwrap(),
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
        let held = queue.room(&import, 90).await.unwrap();
        let mut next = std::pin::pin!(queue.room(&import, 20));
        assert!(at_once(next.as_mut()).is_none(), "110 of 100");
        assert!(
            at_once(std::pin::pin!(queue.room(&talk, 800))).is_some(),
            "all of it is free for the others"
        );
        drop(held);
        assert!(at_once(next).is_some());
        assert!(at_once(std::pin::pin!(queue.room(&import, 5_000))).is_some(), "what is larger goes alone");
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
        while let Some(appends) = queue.take() {
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
