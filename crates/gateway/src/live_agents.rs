//! Room for links to agents: so many may be up at the same time. A session that needs one more waits, and the
//! session that was quiet for longest gives up its link for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Semaphore, oneshot};

/// The places for links.
pub(crate) struct LiveAgents {
    most: usize,
    state: Mutex<State>,
    /// A permit for each quiet session that should give up its link. They are served in the order in which
    /// they became quiet.
    requests: Semaphore,
}

struct State {
    free: usize,
    /// Sessions that wait, the first one first. Those that stopped waiting are closed.
    waiting: VecDeque<oneshot::Sender<Place>>,
    /// Requests to give up a link that no session has answered.
    requested: usize,
    /// Links that were given up and have not ended.
    given_up: usize,
    /// Quiet sessions with a link.
    quiet: usize,
    /// Links that are ending, given up or not.
    ending: usize,
}

/// A place for one link, held until the link has ended.
pub(crate) struct Place {
    agents: Arc<LiveAgents>,
    is_given_up: bool,
    is_ending: bool,
}

/// How many links there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveAgentCounts {
    /// Links that are up, are being made, or are ending.
    pub live: usize,
    /// Sessions that wait for a link.
    pub waiting: usize,
}

impl LiveAgents {
    pub(crate) fn new(most: usize) -> Self {
        let waiting = VecDeque::new();
        let state = State { free: most, waiting, requested: 0, given_up: 0, quiet: 0, ending: 0 };
        Self { most, state: Mutex::new(state), requests: Semaphore::new(0) }
    }

    /// A place, if one is free.
    pub(crate) fn try_take(self: &Arc<Self>) -> Option<Place> {
        let mut state = self.lock();
        state.free = state.free.checked_sub(1)?;
        Some(Place::new(self))
    }

    /// Waits for a place. A quiet session is asked to give up its link.
    pub(crate) async fn take(self: Arc<Self>) -> Place {
        if let Some(place) = self.try_take() {
            return place;
        }
        let _leaves = Waiting(&self);
        // Dropped before the guard, which looks for it.
        let (sender, place) = oneshot::channel();
        self.change(|state| state.waiting.push_back(sender));
        match place.await {
            Ok(place) => place,
            // The sender is dropped only after it was used.
            Err(_) => std::future::pending().await,
        }
    }

    /// For a quiet session: returns when it should give up its link, which [`Place::give_up`] does. Safe to
    /// drop and call again.
    pub(crate) async fn wanted(&self) {
        self.lock().quiet += 1;
        let _quiet = Quiet(self);
        match self.requests.acquire().await {
            Ok(permit) => permit.forget(),
            // Only a semaphore that was closed fails, and nobody closes it.
            Err(_) => std::future::pending().await,
        }
    }

    /// How many agents may work, when all of them do or are waited for. Then a session without a link would
    /// have to wait for the end of a turn.
    pub(crate) fn full(&self) -> Option<usize> {
        let state = self.lock();
        (state.free + state.quiet + state.ending <= state.live_waiters()).then_some(self.most)
    }

    pub(crate) fn counts(&self) -> LiveAgentCounts {
        let state = self.lock();
        LiveAgentCounts { live: self.most - state.free, waiting: state.live_waiters() }
    }

    /// Changes the state, and asks as many quiet sessions for their links as are needed.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state);
        let needed = state.live_waiters().saturating_sub(state.given_up);
        if needed > state.requested {
            self.requests.add_permits(needed - state.requested);
            state.requested = needed;
        } else if needed < state.requested {
            state.requested -= self.requests.forget_permits(state.requested - needed);
        }
        changed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No panic can happen between two related changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn live_waiters(&self) -> usize {
        self.waiting.iter().filter(|waiting| !waiting.is_closed()).count()
    }

    /// The next session that still waits.
    fn next(&mut self) -> Option<oneshot::Sender<Place>> {
        std::iter::from_fn(|| self.waiting.pop_front()).find(|waiting| !waiting.is_closed())
    }
}

impl Place {
    fn new(agents: &Arc<LiveAgents>) -> Self {
        Self { agents: agents.clone(), is_given_up: false, is_ending: false }
    }

    /// The session answers a request for its place.
    pub(crate) fn give_up(&mut self) {
        if !std::mem::replace(&mut self.is_given_up, true) {
            self.agents.change(|state| {
                state.requested = state.requested.saturating_sub(1);
                state.given_up += 1;
            });
        }
    }

    /// The link is ending, so the place will be free soon.
    pub(crate) fn ends(&mut self) {
        if !std::mem::replace(&mut self.is_ending, true) {
            self.agents.lock().ending += 1;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let next = self.agents.change(|state| {
            state.given_up -= usize::from(self.is_given_up);
            state.ending -= usize::from(self.is_ending);
            let next = state.next();
            if next.is_none() {
                state.free += 1;
            }
            next
        });
        // One that stops waiting at this moment drops its place, which goes to the next one.
        if let Some(next) = next {
            drop(next.send(Self::new(&self.agents)));
        }
    }
}

/// A session that waits. When it stops, nobody needs to give up a link for it.
struct Waiting<'a>(&'a LiveAgents);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.waiting.retain(|waiting| !waiting.is_closed()));
    }
}

/// A quiet session that would give up its link.
struct Quiet<'a>(&'a LiveAgents);

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        self.0.lock().quiet -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{LiveAgents, Place};
    use std::pin::{Pin, pin};
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    fn now<T>(future: &mut Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn give_up(mut place: Place) {
        place.give_up();
        place.ends();
    }

    #[test]
    fn sessions_that_were_quiet_for_longest_make_room_for_all_that_wait() {
        let agents = Arc::new(LiveAgents::new(3));
        let [first, second, third] = [(); 3].map(|()| agents.try_take().unwrap());
        assert!(agents.try_take().is_none());
        assert_eq!(agents.full(), Some(3));
        let mut quiet = [(); 3].map(|()| Box::pin(agents.wanted()));
        assert!(quiet.iter_mut().all(|quiet| now(&mut quiet.as_mut()).is_none()));
        assert_eq!(agents.full(), None, "quiet sessions make room");
        let (mut one, mut other) = (pin!(agents.clone().take()), pin!(agents.clone().take()));
        assert!(now(&mut one).is_none() && now(&mut other).is_none());
        assert_eq!(agents.counts().waiting, 2);
        let asked = quiet.each_mut().map(|quiet| now(&mut quiet.as_mut()).is_some());
        assert_eq!(asked, [true, true, false], "two that wait, two that leave");
        give_up(first);
        let place = now(&mut one).expect("the place of the first");
        assert!(now(&mut other).is_none());
        give_up(second);
        let other_place = now(&mut other).expect("the place of the second");
        let [.., last] = &mut quiet;
        assert_eq!((now(&mut last.as_mut()), agents.counts().waiting), (None, 0));
        drop((third, place, other_place));
        assert_eq!(agents.counts().live, 0);
    }

    #[test]
    fn one_that_becomes_quiet_later_makes_room_for_the_next_that_waits() {
        let agents = Arc::new(LiveAgents::new(1));
        let place = agents.try_take().unwrap();
        let (mut one, mut other) = (pin!(agents.clone().take()), pin!(agents.clone().take()));
        assert!(now(&mut one).is_none() && now(&mut other).is_none());
        assert!(now(&mut pin!(agents.wanted())).is_some());
        give_up(place);
        let place = now(&mut one).expect("the place of the first");
        assert!(now(&mut other).is_none());
        assert!(now(&mut pin!(agents.wanted())).is_some(), "the other one still waits");
        give_up(place);
        assert!(now(&mut other).is_some());
    }

    #[test]
    fn whoever_stops_waiting_asks_nobody_to_leave() {
        let agents = Arc::new(LiveAgents::new(1));
        let _place = agents.try_take().unwrap();
        {
            let mut waits = pin!(agents.clone().take());
            assert!(now(&mut waits).is_none());
            assert_eq!(agents.counts().waiting, 1);
        }
        assert_eq!(now(&mut pin!(agents.wanted())), None);
        assert_eq!(agents.counts().waiting, 0);
    }
}
