//! What waits for one subscriber: bounded in bytes, and open about what it had to leave out.

use super::subscription::{BusItem, Closed, Lag};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// What an item costs besides its bytes on the wire.
const OVERHEAD: usize = 256;
/// Bytes of control events that are kept behind a mark.
const RESERVE: usize = 1024 * 1024;

/// The queue between the reader of a bus and one subscriber. Putting never waits.
#[derive(Debug)]
pub(super) struct Queue {
    cap: usize,
    waiting: Mutex<Waiting>,
    more: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    items: VecDeque<(BusItem, usize)>,
    /// The costs of `items`.
    bytes: usize,
    /// A mark for a slow subscriber is among `items`: content is left out until it was delivered, because whoever gets it
    /// asks the server for the state of things afterwards.
    leaving_out: bool,
    /// What was kept behind that mark.
    reserve: usize,
    closed: Option<Closed>,
}

/// What may be left out behind a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// Content of so many bytes: the server can be asked for it.
    Content(usize),
    /// A state, an ask or an end of so many bytes: kept, as long as the reserve lasts.
    Control(usize),
    /// The state of the stream itself: always kept.
    Stream,
}

impl Queue {
    pub(super) fn new(cap: usize) -> Self {
        Self { cap, waiting: Mutex::default(), more: Notify::new() }
    }

    pub(super) fn put(&self, item: BusItem, weight: Weight) {
        self.waiting().put(item, weight, self.cap);
        self.more.notify_one();
    }

    /// Nothing comes after what is already here.
    pub(super) fn close(&self, reason: Closed) {
        self.waiting().closed.get_or_insert(reason);
        self.more.notify_one();
    }

    /// The next item. When the queue is closed and empty, that it is closed, each time.
    pub(super) async fn take(&self) -> BusItem {
        // A flood of items must not keep everything else of its task from running.
        tokio::task::coop::consume_budget().await;
        loop {
            // There is one subscriber, and a permit is kept for it: nothing is missed in between.
            if let Some(item) = self.waiting().take() {
                return item;
            }
            self.more.notified().await;
        }
    }

    /// Poisoned or not, it is whole: no operation below leaves it half done.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn put(&mut self, item: BusItem, weight: Weight, cap: usize) {
        if self.closed.is_some() {
            return;
        }
        let cost = OVERHEAD
            + match weight {
                Weight::Content(bytes) | Weight::Control(bytes) => bytes,
                Weight::Stream => 0,
            };
        let is_second_mark = |last: &(BusItem, usize)| {
            matches!((&last.0, &item), (BusItem::Lagged { .. }, BusItem::Lagged { .. }))
        };
        if self.items.back().is_some_and(is_second_mark) {
            return;
        }
        let fits = self.bytes + cost <= cap;
        if weight != Weight::Stream && !fits && !self.leaving_out {
            self.leaving_out = true;
            self.items.push_back((BusItem::Lagged { why: Lag::Slow }, 0));
        }
        if self.leaving_out {
            match weight {
                Weight::Content(_) => return,
                Weight::Control(_) if self.reserve + cost > RESERVE => return,
                Weight::Control(_) => self.reserve += cost,
                Weight::Stream => {}
            }
        }
        self.bytes += cost;
        self.items.push_back((item, cost));
    }

    fn take(&mut self) -> Option<BusItem> {
        let Some((item, cost)) = self.items.pop_front() else {
            return self.closed.clone().map(|reason| BusItem::Closed { reason });
        };
        self.bytes -= cost;
        if matches!(item, BusItem::Lagged { why: Lag::Slow }) {
            self.leaving_out = false;
            self.reserve = 0;
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::Event;
    use super::*;
    use std::sync::Arc;

    /// An event that is known by its session.
    fn event(session: &str) -> BusItem {
        let properties = serde_json::json!({"sessionID": session});
        let json = serde_json::json!({"type": "session.idle", "properties": properties}).to_string();
        BusItem::Event(Arc::new(Event::parse(json.as_bytes()).unwrap()))
    }

    fn drain(queue: &Queue) -> Vec<String> {
        let mut waiting = queue.waiting();
        std::iter::from_fn(|| waiting.take())
            .map(|item| match item {
                BusItem::Event(event) => event.session().unwrap().to_owned(),
                other => format!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn what_does_not_fit_is_replaced_by_a_mark_and_states_are_kept_behind_it() {
        let queue = Queue::new(2 * (OVERHEAD + 100));
        for name in ["one", "two", "three", "four"] {
            queue.put(event(name), Weight::Content(100));
        }
        queue.put(event("state"), Weight::Control(100));
        queue.put(event("five"), Weight::Content(1));
        queue.put(BusItem::Connected { gap: true }, Weight::Stream);
        let expected = ["one", "two", "Lagged { why: Slow }", "state", "Connected { gap: true }"];
        assert_eq!(drain(&queue), expected);
        // The mark was delivered: content comes again.
        queue.put(event("six"), Weight::Content(100));
        assert_eq!(drain(&queue), ["six"]);
    }

    #[test]
    fn an_event_that_is_larger_than_the_queue_is_told_of() {
        let queue = Queue::new(1_000);
        queue.put(event("huge"), Weight::Content(1_000));
        assert_eq!(drain(&queue), ["Lagged { why: Slow }"]);
    }

    #[test]
    fn states_without_end_do_not_take_memory_without_end() {
        let queue = Queue::new(0);
        for _ in 0..100_000 {
            queue.put(event("state"), Weight::Control(100));
        }
        assert!(queue.waiting().bytes <= RESERVE);
        assert_eq!(drain(&queue)[..2], ["Lagged { why: Slow }", "state"]);
    }

    #[test]
    fn marks_that_follow_each_other_are_one() {
        let queue = Queue::new(10_000);
        queue.put(BusItem::Lagged { why: Lag::Unreadable }, Weight::Stream);
        queue.put(BusItem::Lagged { why: Lag::Unreadable }, Weight::Stream);
        queue.put(event("one"), Weight::Content(1));
        assert_eq!(drain(&queue), ["Lagged { why: Unreadable }", "one"]);
    }

    #[tokio::test]
    async fn the_end_comes_after_what_waits_and_stays() {
        let queue = Queue::new(10_000);
        queue.put(event("one"), Weight::Content(1));
        queue.close(Closed::ReaderGone);
        queue.put(event("late"), Weight::Content(1));
        assert!(matches!(queue.take().await, BusItem::Event(_)));
        for _ in 0..2 {
            assert!(matches!(queue.take().await, BusItem::Closed { reason: Closed::ReaderGone }));
        }
    }
}
