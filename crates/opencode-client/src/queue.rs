//! The queue of one subscriber: bounded in bytes, with a mark in the place of what was dropped.

use super::subscription::{BusItem, Closed, Lag};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The cost of an item besides its bytes on the wire.
const OVERHEAD: usize = 256;
/// Bytes of control events that are kept after a mark.
const RESERVE: usize = 1024 * 1024;

/// The queue between the reader of a bus and one subscriber. Pushing never waits.
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
    /// `items` holds a [`Lag::Slow`] mark. Content is dropped until the mark was delivered: the subscriber
    /// then asks the server for its current state.
    dropping: bool,
    /// The cost of control events that were kept after the mark.
    reserve: usize,
    closed: Option<Closed>,
}

/// The kind and size of an item, which decide whether it may be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// Content of so many bytes. It may be dropped: the server still has it.
    Content(usize),
    /// A status, permission, question or end of so many bytes. Kept while the reserve lasts.
    Control(usize),
    /// The state of the stream itself. Always kept.
    Stream,
}

impl Queue {
    pub(super) fn new(cap: usize) -> Self {
        Self { cap, waiting: Mutex::default(), more: Notify::new() }
    }

    pub(super) fn push(&self, item: BusItem, weight: Weight) {
        self.waiting().push(item, weight, self.cap);
        self.more.notify_one();
    }

    /// Closes the queue: what it holds is delivered, and nothing is added.
    pub(super) fn close(&self, reason: Closed) {
        self.waiting().closed.get_or_insert(reason);
        self.more.notify_one();
    }

    /// The next item. A queue that is closed and empty returns [`BusItem::Closed`] every time.
    pub(super) async fn pop(&self) -> BusItem {
        // A flood of items must not starve the rest of the task.
        tokio::task::coop::consume_budget().await;
        loop {
            // `Notify` keeps one permit, and there is one subscriber: no wake-up is missed.
            if let Some(item) = self.waiting().pop() {
                return item;
            }
            self.more.notified().await;
        }
    }

    /// A poisoned lock is fine: no operation leaves the state inconsistent.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn push(&mut self, item: BusItem, weight: Weight, cap: usize) {
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
        if weight != Weight::Stream && !fits && !self.dropping {
            self.dropping = true;
            self.items.push_back((BusItem::Lagged { why: Lag::Slow }, 0));
        }
        if self.dropping {
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

    fn pop(&mut self) -> Option<BusItem> {
        let Some((item, cost)) = self.items.pop_front() else {
            return self.closed.clone().map(|reason| BusItem::Closed { reason });
        };
        self.bytes -= cost;
        if matches!(item, BusItem::Lagged { why: Lag::Slow }) {
            self.dropping = false;
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

    /// An event that is recognised by its session.
    fn event(session: &str) -> BusItem {
        let properties = serde_json::json!({"sessionID": session});
        let json = serde_json::json!({"type": "session.idle", "properties": properties}).to_string();
        BusItem::Event(Arc::new(Event::parse(json.as_bytes()).unwrap()))
    }

    fn drain(queue: &Queue) -> Vec<String> {
        let mut waiting = queue.waiting();
        std::iter::from_fn(|| waiting.pop())
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
            queue.push(event(name), Weight::Content(100));
        }
        queue.push(event("state"), Weight::Control(100));
        queue.push(event("five"), Weight::Content(1));
        queue.push(BusItem::Connected { gap: true }, Weight::Stream);
        let expected = ["one", "two", "Lagged { why: Slow }", "state", "Connected { gap: true }"];
        assert_eq!(drain(&queue), expected);
        // The mark was delivered: content comes again.
        queue.push(event("six"), Weight::Content(100));
        assert_eq!(drain(&queue), ["six"]);
    }

    #[test]
    fn an_event_that_is_larger_than_the_queue_is_told_of() {
        let queue = Queue::new(1_000);
        queue.push(event("huge"), Weight::Content(1_000));
        assert_eq!(drain(&queue), ["Lagged { why: Slow }"]);
    }

    #[test]
    fn states_without_end_do_not_take_memory_without_end() {
        let queue = Queue::new(0);
        for _ in 0..100_000 {
            queue.push(event("state"), Weight::Control(100));
        }
        assert!(queue.waiting().bytes <= RESERVE);
        assert_eq!(drain(&queue)[..2], ["Lagged { why: Slow }", "state"]);
    }

    #[test]
    fn marks_that_follow_each_other_are_one() {
        let queue = Queue::new(10_000);
        queue.push(BusItem::Lagged { why: Lag::Unreadable }, Weight::Stream);
        queue.push(BusItem::Lagged { why: Lag::Unreadable }, Weight::Stream);
        queue.push(event("one"), Weight::Content(1));
        assert_eq!(drain(&queue), ["Lagged { why: Unreadable }", "one"]);
    }

    #[tokio::test]
    async fn the_end_comes_after_what_waits_and_stays() {
        let queue = Queue::new(10_000);
        queue.push(event("one"), Weight::Content(1));
        queue.close(Closed::ReaderGone);
        queue.push(event("late"), Weight::Content(1));
        assert!(matches!(queue.pop().await, BusItem::Event(_)));
        for _ in 0..2 {
            assert!(matches!(queue.pop().await, BusItem::Closed { reason: Closed::ReaderGone }));
        }
    }
}
