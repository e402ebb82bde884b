//! How many quiet sessions stay in memory without a link to their agent. Their state is in the log, so beyond
//! that number the one that was quiet for longest leaves.

use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

/// The quiet keepers without a link.
pub(crate) struct Crowd {
    most: usize,
    staying: AtomicUsize,
    /// A permit for each keeper that should leave. Keepers get them in the order in which they became quiet.
    leaving: Semaphore,
}

impl Crowd {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, staying: AtomicUsize::new(0), leaving: Semaphore::new(0) }
    }

    /// For a quiet keeper without a link: returns when it should leave. Safe to drop and call again.
    pub(super) async fn asked_to_leave(&self) {
        let _staying = Staying::begin(self);
        match self.leaving.acquire().await {
            Ok(permit) => permit.forget(),
            // Only a semaphore that was closed fails, and nobody closes it.
            Err(_) => std::future::pending().await,
        }
    }
}

/// A keeper that stays.
struct Staying<'a>(&'a Crowd);

impl<'a> Staying<'a> {
    fn begin(crowd: &'a Crowd) -> Self {
        if crowd.staying.fetch_add(1, Ordering::AcqRel) >= crowd.most {
            crowd.leaving.add_permits(1);
        }
        Self(crowd)
    }
}

impl Drop for Staying<'_> {
    fn drop(&mut self) {
        self.0.staying.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::Crowd;
    use std::pin::{Pin, pin};
    use std::task::{Context, Waker};

    fn leaves(keeper: &mut Pin<&mut impl Future<Output = ()>>) -> bool {
        keeper.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn beyond_the_number_the_one_that_was_quiet_for_longest_leaves() {
        let crowd = Crowd::new(2);
        let (mut first, mut second) = (pin!(crowd.asked_to_leave()), pin!(crowd.asked_to_leave()));
        assert!(!leaves(&mut first) && !leaves(&mut second));
        let mut third = pin!(crowd.asked_to_leave());
        assert!(!leaves(&mut third) && !leaves(&mut second));
        assert!(leaves(&mut first));
        let mut fourth = pin!(crowd.asked_to_leave());
        assert!(!leaves(&mut fourth) && !leaves(&mut third));
        assert!(leaves(&mut second));
    }
}
