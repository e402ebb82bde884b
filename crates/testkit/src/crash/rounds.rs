//! Rounds of start, kill, restart and verify, driven by one seed.

use super::{KillPoint, Program, Seen};
use std::fmt;

/// The variable that replaces the test's seed, to repeat a failure or to explore.
const SEED: &str = "TURNSTREAM_SEED";

/// A number of rounds, and their seed.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    seed: u64,
    count: u32,
}

/// One round. Its random numbers depend only on seed and number.
#[derive(Debug)]
pub struct Round {
    /// The number, from 1.
    pub number: u32,
    /// The random numbers of this round.
    pub rng: fastrand::Rng,
}

/// The first failed round, with everything that is known about it.
pub struct RoundFailed {
    /// The number of the round, from 1.
    pub round: u32,
    /// The planned number of rounds.
    pub of: u32,
    /// The seed of the run.
    pub seed: u64,
    /// Where the child was killed, if it was started.
    pub point: Option<KillPoint>,
    /// What the child delivered, if it was started.
    pub seen: Option<Box<Seen>>,
    /// What was wrong.
    pub reason: String,
}

// === impl Rounds ===

impl Rounds {
    /// `count` rounds with this seed, or with `TURNSTREAM_SEED`.
    pub fn seeded(seed: u64, count: u32) -> Self {
        Self { seed, count }
    }

    /// Runs the rounds, and stops at the first failure.
    ///
    /// `start` says what to start in a round and when to kill it. Since `state` outlives the kill, it is
    /// also the restart of the previous round. `verify` compares what was delivered with what is stored.
    /// `state` is shared by all rounds: a directory, or a fault disk.
    pub fn run<S, E: fmt::Display>(
        &self,
        state: &mut S,
        mut start: impl FnMut(&mut S, &mut Round) -> Result<(Program, KillPoint), E>,
        mut verify: impl FnMut(&mut S, &mut Round, &Seen) -> Result<(), E>,
    ) -> Result<(), RoundFailed> {
        let seed = chosen_seed(self.seed)?;
        for number in 1..=self.count {
            // Multiplying by an odd constant spreads neighbouring numbers over all bits.
            let rng = fastrand::Rng::with_seed(seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut round = Round { number, rng };
            let failed = |point, seen, reason| RoundFailed {
                round: number,
                of: self.count,
                seed,
                point,
                seen,
                reason,
            };
            let (mut program, point) =
                start(state, &mut round).map_err(|error| failed(None, None, error.to_string()))?;
            let seen =
                program.run(&point).map_err(|error| failed(Some(point.clone()), None, error.to_string()))?;
            if let Err(error) = verify(state, &mut round, &seen) {
                return Err(failed(Some(point), Some(Box::new(seen)), error.to_string()));
            }
        }
        Ok(())
    }
}

/// The seed from the environment, if it is set. An invalid one is an error.
fn chosen_seed(seed: u64) -> Result<u64, RoundFailed> {
    let Ok(text) = std::env::var(SEED) else { return Ok(seed) };
    text.parse().map_err(|_| {
        let reason = format!("{SEED} is {text:?}, which is not a whole number; correct or unset it");
        RoundFailed { round: 0, of: 0, seed, point: None, seen: None, reason }
    })
}

// === impl RoundFailed ===

impl fmt::Display for RoundFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { round, of, seed, point, seen, reason } = self;
        write!(f, "round {round} of {of} failed with seed {seed} (repeat with {SEED}={seed}): {reason}")?;
        if let Some(point) = point {
            write!(f, "\nthe kill was to come at {point}")?;
        }
        if let Some(seen) = seen {
            write!(f, "\n{seen}")?;
        }
        Ok(())
    }
}

/// Like `Display`, because `unwrap` in a test prints this.
impl fmt::Debug for RoundFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for RoundFailed {}
