//! Room for links to agents: so many may be up at the same time. A session that needs one more waits, and the
//! session that was quiet for longest gives up its link for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places for links.
pub(crate) struct LiveAgents {
    most: usize,
    places: Arc<Semaphore>,
    /// A permit for each session that waits, until a quiet session gives up its link for it. Quiet sessions
    /// are served in the order in which they became quiet.
    wanted: Semaphore,
    waiting: AtomicUsize,
    /// Places that can be free soon: of sessions that would give up their link, and of links that are ending.
    spare: AtomicUsize,
}

/// A place for one link, held until the link has ended.
pub(crate) struct Place {
    /// Dropped with it.
    _permit: Option<OwnedSemaphorePermit>,
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
        let most = most.min(Semaphore::MAX_PERMITS);
        Self {
            most,
            places: Arc::new(Semaphore::new(most)),
            wanted: Semaphore::new(0),
            waiting: AtomicUsize::new(0),
            spare: AtomicUsize::new(0),
        }
    }

    /// A place, if one is free.
    pub(crate) fn try_take(&self) -> Option<Place> {
        let permit = self.places.clone().try_acquire_owned().ok()?;
        Some(Place { _permit: Some(permit) })
    }

    /// Waits for a place. A quiet session is asked to give up its link.
    pub(crate) async fn take(self: Arc<Self>) -> Place {
        let _waiting = Waiting::begin(&self);
        // Fails only when the semaphore is closed, and nobody closes it.
        Place { _permit: self.places.clone().acquire_owned().await.ok() }
    }

    /// For a quiet session: returns when it should give up its link. Safe to drop and call again.
    pub(crate) async fn wanted(&self) {
        let _spare = Spare::begin(self);
        match self.wanted.acquire().await {
            Ok(permit) => permit.forget(),
            // As above.
            Err(_) => std::future::pending().await,
        }
    }

    /// Why a session without a link can get none soon: all places are taken by sessions that work, or are
    /// waited for.
    pub(crate) fn full(&self) -> Option<usize> {
        let (free, spare) = (self.places.available_permits(), self.spare.load(Ordering::Acquire));
        (free + spare <= self.waiting.load(Ordering::Acquire)).then_some(self.most)
    }

    pub(crate) fn counts(&self) -> LiveAgentCounts {
        let live = self.most - self.places.available_permits().min(self.most);
        LiveAgentCounts { live, waiting: self.waiting.load(Ordering::Acquire) }
    }
}

/// A session that waits for a place.
struct Waiting(Arc<LiveAgents>);

impl Waiting {
    fn begin(agents: &Arc<LiveAgents>) -> Self {
        agents.waiting.fetch_add(1, Ordering::AcqRel);
        agents.wanted.add_permits(1);
        Self(agents.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
        // If a quiet session has answered meanwhile, its place is for the next one.
        if let Ok(unanswered) = self.0.wanted.try_acquire() {
            unanswered.forget();
        }
    }
}

/// A place that can be free soon.
pub(crate) struct Spare<T: AsRef<LiveAgents>>(T);

impl<T: AsRef<LiveAgents>> Spare<T> {
    pub(crate) fn begin(agents: T) -> Self {
        agents.as_ref().spare.fetch_add(1, Ordering::AcqRel);
        Self(agents)
    }
}

impl<T: AsRef<LiveAgents>> Drop for Spare<T> {
    fn drop(&mut self) {
        self.0.as_ref().spare.fetch_sub(1, Ordering::AcqRel);
    }
}

impl AsRef<Self> for LiveAgents {
    fn as_ref(&self) -> &Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::LiveAgents;
    use std::pin::{Pin, pin};
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    fn now<T>(future: &mut Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn the_session_that_was_quiet_for_longest_makes_room_for_one_that_waits() {
        let agents = Arc::new(LiveAgents::new(2));
        let (first, second) = (agents.try_take().unwrap(), agents.try_take().unwrap());
        assert!(agents.try_take().is_none());
        assert_eq!(agents.full(), Some(2));
        let (mut long_quiet, mut quiet) = (pin!(agents.wanted()), pin!(agents.wanted()));
        assert_eq!((now(&mut long_quiet), now(&mut quiet)), (None, None));
        assert_eq!(agents.full(), None, "quiet sessions make room");
        let mut waits = pin!(agents.clone().take());
        assert!(now(&mut waits).is_none());
        assert_eq!((now(&mut quiet), now(&mut long_quiet)), (None, Some(())));
        drop(first);
        let third = now(&mut waits).expect("the place of the first");
        assert_eq!(agents.counts().waiting, 0);
        assert_eq!(now(&mut quiet), None, "one that waited, one that left");
        drop((second, third));
        assert_eq!(agents.counts().live, 0);
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
