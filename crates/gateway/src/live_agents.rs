//! Room for links to agents: so many may be up at the same time. A session that needs one more waits, and the
//! session that was quiet for longest gives up its link for it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
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
    /// Places that nobody has. Zero while a session waits.
    free: usize,
    /// Sessions that wait, the first one first. Those that stopped waiting are closed.
    waiting: VecDeque<Waiter>,
    /// The number of the next session that waits.
    next_number: u64,
    /// Requests to give up a link that no session has answered.
    requested: usize,
    /// Quiet sessions with a link.
    quiet: usize,
    /// Links that are ending, given up or not.
    ending: usize,
}

/// A session that waits.
struct Waiter {
    number: u64,
    place: oneshot::Sender<Place>,
}

/// The wait for a place, which is its output. Dropping it ends the wait, and nobody needs to give up a link
/// for it.
pub(crate) struct PlaceWait {
    agents: Arc<LiveAgents>,
    number: u64,
    place: oneshot::Receiver<Place>,
}

/// A place for one link, held until the link has ended.
pub(crate) struct Place {
    agents: Arc<LiveAgents>,
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
        let state = State { free: most, waiting, next_number: 0, requested: 0, quiet: 0, ending: 0 };
        Self { most, state: Mutex::new(state), requests: Semaphore::new(0) }
    }

    /// A place, or the wait for one if none is free. Then a quiet session is asked to give up its link. Both
    /// under one lock: a place that becomes free in between would wake nobody.
    pub(crate) fn take(self: &Arc<Self>) -> Result<Place, PlaceWait> {
        self.change(|state| {
            if let Some(free) = state.free.checked_sub(1) {
                state.free = free;
                return Ok(Place::new(self));
            }
            let (sender, place) = oneshot::channel();
            let number = state.next_number;
            state.next_number += 1;
            state.waiting.push_back(Waiter { number, place: sender });
            Err(PlaceWait { agents: self.clone(), number, place })
        })
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

    /// How many agents may work, when all of them do or are waited for. Then a session without a link, which
    /// does not wait for one, would have to wait for the end of a turn.
    pub(crate) fn full(&self) -> Option<usize> {
        let state = self.lock();
        (state.coming() <= state.live_waiters()).then_some(self.most)
    }

    pub(crate) fn counts(&self) -> LiveAgentCounts {
        let state = self.lock();
        LiveAgentCounts { live: self.most - state.free, waiting: state.live_waiters() }
    }

    /// Changes the state, and asks as many quiet sessions for their links as are needed.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state);
        let needed = state.live_waiters().saturating_sub(state.ending);
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
    /// Places that are free, or become free without the end of a turn.
    fn coming(&self) -> usize {
        self.free + self.quiet + self.ending
    }

    fn live_waiters(&self) -> usize {
        self.waiting.iter().filter(|waiter| waiter.is_live()).count()
    }

    /// The next session that still waits.
    fn next(&mut self) -> Option<Waiter> {
        std::iter::from_fn(|| self.waiting.pop_front()).find(Waiter::is_live)
    }
}

impl Waiter {
    fn is_live(&self) -> bool {
        !self.place.is_closed()
    }
}

impl PlaceWait {
    /// Like [`LiveAgents::full`], for the session that waits: only those that were first get a place before
    /// it.
    pub(crate) fn full(&self) -> Option<usize> {
        let state = self.agents.lock();
        // One that is not there has its place already.
        let own = state.waiting.iter().position(|waiter| waiter.number == self.number)?;
        let before = state.waiting.iter().take(own).filter(|waiter| waiter.is_live()).count();
        (state.coming() <= before).then_some(self.agents.most)
    }
}

impl Future for PlaceWait {
    type Output = Place;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Place> {
        match ready!(Pin::new(&mut self.place).poll(context)) {
            Ok(place) => Poll::Ready(place),
            // The sender is dropped only after it was used.
            Err(_) => Poll::Pending,
        }
    }
}

impl Drop for PlaceWait {
    fn drop(&mut self) {
        self.place.close();
        self.agents.change(|state| state.waiting.retain(Waiter::is_live));
    }
}

impl Place {
    fn new(agents: &Arc<LiveAgents>) -> Self {
        Self { agents: agents.clone(), is_ending: false }
    }

    /// The session answers a request for its place, once. Its link is ending.
    pub(crate) fn give_up(&mut self) {
        let ending = usize::from(!std::mem::replace(&mut self.is_ending, true));
        self.agents.change(|state| {
            state.requested = state.requested.saturating_sub(1);
            state.ending += ending;
        });
    }

    /// The link is ending, so the place will be free soon.
    pub(crate) fn ends(&mut self) {
        if !std::mem::replace(&mut self.is_ending, true) {
            self.agents.change(|state| state.ending += 1);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let next = self.agents.change(|state| {
            state.ending -= usize::from(self.is_ending);
            let next = state.next();
            if next.is_none() {
                state.free += 1;
            }
            next
        });
        // One that stops waiting at this moment drops its place, which goes to the next one.
        if let Some(next) = next {
            drop(next.place.send(Self::new(&self.agents)));
        }
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
    use super::{LiveAgents, Place, PlaceWait};
    use std::pin::{Pin, pin};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll, Waker};
    use std::thread;

    fn now<T>(future: &mut Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn try_take(agents: &Arc<LiveAgents>) -> Option<Place> {
        agents.take().ok()
    }

    fn waits(agents: &Arc<LiveAgents>) -> PlaceWait {
        agents.take().err().expect("no place is free")
    }

    fn give_up(mut place: Place) {
        place.give_up();
        place.ends();
    }

    #[test]
    fn sessions_that_were_quiet_for_longest_make_room_for_all_that_wait() {
        let agents = Arc::new(LiveAgents::new(3));
        let [first, second, third] = [(); 3].map(|()| try_take(&agents).unwrap());
        assert!(try_take(&agents).is_none());
        assert_eq!(agents.full(), Some(3));
        let mut quiet = [(); 3].map(|()| Box::pin(agents.wanted()));
        assert!(quiet.iter_mut().all(|quiet| now(&mut quiet.as_mut()).is_none()));
        assert_eq!(agents.full(), None, "quiet sessions make room");
        let (mut one, mut other) = (pin!(waits(&agents)), pin!(waits(&agents)));
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
        let place = try_take(&agents).unwrap();
        let (mut one, mut other) = (pin!(waits(&agents)), pin!(waits(&agents)));
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
        let _place = try_take(&agents).unwrap();
        {
            let mut waits = pin!(waits(&agents));
            assert!(now(&mut waits).is_none());
            assert_eq!(agents.counts().waiting, 1);
        }
        assert_eq!(now(&mut pin!(agents.wanted())), None);
        assert_eq!(agents.counts().waiting, 0);
    }

    #[test]
    fn nobody_waits_for_a_place_that_became_free_at_the_same_moment() {
        // On a busy machine each handover between the threads waits for its turn on a core.
        let rounds = if std::env::var_os("TURNSTREAM_FULL").is_some() { 300_000 } else { 2_000 };
        let agents = Arc::new(LiveAgents::new(1));
        let (held, begun, ended) = (Mutex::new(None), AtomicUsize::new(0), AtomicUsize::new(0));
        // Does not sleep, because a thread that is woken comes too late for the moment.
        let reach = |counter: &AtomicUsize, round| {
            while counter.load(Ordering::SeqCst) < round {
                thread::yield_now();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=rounds {
                    reach(&begun, round);
                    let place: Option<Place> = held.lock().unwrap().take();
                    for _ in 0..round % 50 {
                        std::hint::spin_loop();
                    }
                    drop(place);
                    ended.store(round, Ordering::SeqCst);
                }
            });
            let mut stuck = 0;
            for round in 1..=rounds {
                *held.lock().unwrap() = try_take(&agents);
                begun.store(round, Ordering::SeqCst);
                let taken = agents.take();
                reach(&ended, round);
                if let Err(wait) = taken {
                    stuck += usize::from(now(&mut pin!(wait)).is_none());
                }
            }
            assert_eq!(stuck, 0, "waits for a place that is free");
        });
        assert_eq!(agents.counts().live, 0);
    }

    #[test]
    fn a_session_that_waits_is_not_in_its_own_way() {
        let agents = Arc::new(LiveAgents::new(1));
        let mut place = try_take(&agents).unwrap();
        let (mut first, second) = (pin!(waits(&agents)), waits(&agents));
        assert_eq!(first.full(), Some(1), "the agent works");
        place.ends();
        assert_eq!((first.full(), second.full(), agents.full()), (None, Some(1), Some(1)));
        drop(place);
        assert_eq!((first.full(), second.full()), (None, Some(1)), "the place is there");
        drop(now(&mut first));
        assert_eq!(second.full(), None);
    }

    #[test]
    fn a_link_that_ends_anyway_makes_room_like_one_that_is_given_up() {
        let agents = Arc::new(LiveAgents::new(2));
        let (mut ending, _quiet) = (try_take(&agents).unwrap(), try_take(&agents).unwrap());
        ending.ends();
        let mut waits = pin!(waits(&agents));
        assert_eq!(now(&mut pin!(agents.wanted())), None, "one place is enough");
        drop(ending);
        assert!(now(&mut waits).is_some());
    }
}
