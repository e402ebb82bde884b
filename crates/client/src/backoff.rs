//! Pauses between attempts: each is longer than the one before, with jitter, so that clients of a gateway
//! that restarts do not all return at the same moment.

use crate::ClientError;
use serde_json::Value;
use std::time::Duration;

/// How often [`with_retries`] sends a request.
const TRIES: u32 = 5;

/// Growing pauses with jitter.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Pauses from `first` to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The next pause: between half of its full length and all of it.
    pub fn pause(&mut self) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(self.longest);
        full.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Begins with the first pause again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Sends a request, and retries while that can help. Only for requests that can be repeated: those without an
/// effect, and those with a key.
pub async fn with_retries<F: Future<Output = Result<Value, ClientError>>>(
    request: impl Fn() -> F,
) -> Result<Value, ClientError> {
    let mut backoff = Backoff::new(Duration::from_millis(150), Duration::from_secs(2));
    for _ in 1..TRIES {
        match request().await {
            Err(error) if error.may_pass() => tokio::time::sleep(backoff.pause()).await,
            done => return done,
        }
    }
    request().await
}

#[cfg(test)]
mod tests {
    use super::Backoff;
    use std::time::Duration;

    #[test]
    fn pauses_grow_to_the_longest_and_begin_again_after_a_reset() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(400));
        for full in [100, 200, 400, 400] {
            let pause = backoff.pause();
            assert!(pause >= Duration::from_millis(full / 2) && pause <= Duration::from_millis(full));
        }
        backoff.reset();
        assert!(backoff.pause() <= Duration::from_millis(100));
    }
}
