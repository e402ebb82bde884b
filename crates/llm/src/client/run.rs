//! The attempts of one call, one after the other, until there is an end.

use super::attempt::{Tried, once};
use super::keys::Keys;
use super::running::{Ending, Running, Told};
use super::{Call, Client, row};
use crate::attempt::ItemNo;
use crate::classify::Failure;
use crate::retry::{Decision, Retries};
use crate::wait::WallWatch;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use turnstream_model::attempts::{Parked, Unkept, Verdict};
use turnstream_model::event::ErrorClass;
use turnstream_model::time::Time;

/// Things told that wait for their reader.
const QUEUE: usize = 256;
/// Numbers that may have been used by a run that was killed between a row and the removal of its wait.
const SKIPPED: u32 = 64;

/// Why nobody wants it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// Cancelled, for good.
    Cancelled,
    /// The reader is gone: the process stops, perhaps.
    Dropped,
}

/// Tells the consumer, unless it is gone.
pub(super) struct Teller {
    told: mpsc::Sender<Told>,
    cancelled: watch::Receiver<bool>,
}

impl Teller {
    /// Waits until nobody wants it any more.
    pub(super) async fn gone(&self) -> Gone {
        let mut cancelled = self.cancelled.clone();
        let cancel = async {
            if cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = cancel => Gone::Cancelled,
            () = self.told.closed() => Gone::Dropped,
        }
    }

    /// Tells that something was not written down, also to one who has cancelled: it reads to the end, and a wait that could
    /// not be removed comes back after a restart.
    pub(super) async fn own_up(&self, unkept: Unkept) {
        let _ = self.told.send(Told::Unkept(unkept)).await;
    }

    pub(super) async fn tell(&self, told: Told) -> Result<(), Gone> {
        tokio::select! {
            biased;
            gone = self.gone() => Err(gone),
            sent = self.told.send(told) => sent.map_err(|_| Gone::Dropped),
        }
    }
}

pub(super) fn start(client: Client, call: Call, retries: Retries, parked: Option<Parked>) -> Running {
    let (sender, told) = mpsc::channel(QUEUE);
    let (cancel, cancelled) = watch::channel(false);
    let number = parked.as_ref().map_or(call.attempts_before, |parked| parked.attempt);
    let teller = Teller { told: sender, cancelled };
    let watch = WallWatch::new(&*client.keeping.clock);
    let rng = fastrand::Rng::new();
    let keys = Keys::of(&call.route);
    let run = Run { client, call, keys, retries, teller, rng, watch, number, replaced: None };
    tokio::spawn(run.all(parked));
    Running { told, cancel }
}

pub(super) struct Run {
    pub(super) client: Client,
    pub(super) call: Call,
    keys: Keys,
    pub(super) retries: Retries,
    pub(super) teller: Teller,
    rng: fastrand::Rng,
    pub(super) watch: WallWatch,
    /// Of the last attempt.
    pub(super) number: u32,
    /// The attempt that the next one takes the place of, and what was shown of it.
    pub(super) replaced: Option<(u32, Vec<ItemNo>)>,
}

/// What to do next.
pub(super) enum Next {
    /// Ask again.
    Again {
        /// A wait that is stored has ended.
        is_parked: bool,
    },
    /// That is all.
    End(Box<Ending>),
    /// Nobody is there to be told.
    Stop,
}

impl Run {
    async fn all(mut self, parked: Option<Parked>) {
        let mut next = match parked {
            Some(parked) => self.take_up(parked).await,
            None => Next::Again { is_parked: false },
        };
        let ending = loop {
            next = match next {
                Next::Again { is_parked } => self.attempt(is_parked).await,
                Next::End(ending) => break ending,
                Next::Stop => return,
            };
        };
        let spent = self.retries.spent().clone();
        let ended = Told::Ended { ending, attempt: self.number, spent };
        // Also to one who has cancelled; nobody else is told anything after this.
        let _ = self.teller.told.send(ended).await;
    }

    async fn attempt(&mut self, is_parked: bool) -> Next {
        if let Err(unkept) = self.begin().await {
            if is_parked {
                // The turn ends by it. Were its wait left, a restart would ask for a turn that is over.
                self.unpark().await;
            }
            return Next::End(Box::new(Ending::Unkept(unkept)));
        }
        turnstream_failpoint::reach("llm.begun");
        let gone = match self.announce().await {
            // A reader that is gone leaves its wait parked, so it is told first.
            Ok(()) if is_parked && !self.unpark().await => Some(Gone::Cancelled),
            Ok(()) => None,
            Err(gone) => {
                if is_parked && gone == Gone::Cancelled {
                    self.unpark().await;
                }
                Some(gone)
            }
        };
        let mut tried = match gone {
            None => once(&self.client, &self.call, self.number, &mut self.teller).await,
            Some(_) => Tried { gone, ..Tried::nothing(self.call.consumer) },
        };
        if let Some(failure) = &mut tried.failure {
            self.keys.hide(failure);
        }
        if let Some(id) = &mut tried.request_id {
            self.keys.hide_in_text(id);
        }
        self.settle(tried).await
    }

    /// Tells that an attempt begins, and what it takes the place of.
    async fn announce(&mut self) -> Result<(), Gone> {
        self.teller.tell(Told::Began { attempt: self.number }).await?;
        if let Some((attempt, items)) = self.replaced.take() {
            self.teller.tell(Told::Superseded { attempt, by: self.number, items }).await?;
        }
        Ok(())
    }

    /// Writes the row of the next attempt, durably.
    async fn begin(&mut self) -> Result<(), Unkept> {
        for _ in 0..SKIPPED {
            self.number = self.number.saturating_add(1);
            let now = self.now();
            let begun = self.call.begun(self.number, now);
            match self.client.keeping.ledger.begin(begun).await {
                // A run that was killed has used it: its row is there, its request may have left.
                Err(Unkept::Repeated(_)) => {}
                other => return other,
            }
        }
        Err(Unkept::Repeated(self.call.name(self.number)))
    }

    /// Decides what follows an attempt, and writes its end.
    async fn settle(&mut self, tried: Tried) -> Next {
        let now = self.now();
        if let Some(gone) = tried.gone {
            self.end(tried, Verdict::Cancelled, None).await;
            return match gone {
                Gone::Cancelled => Next::End(Box::new(Ending::Cancelled)),
                Gone::Dropped => Next::Stop,
            };
        }
        let outcome = tried.outcome.clone();
        let Some(failure) = tried.failure.clone() else {
            self.retries.answered(now);
            self.end(tried, Verdict::Complete, None).await;
            return Next::End(Box::new(outcome.map_or_else(missing, Ending::Complete)));
        };
        let shown = tried.hold.shown.clone();
        let decision = self.retries.decide(&failure, &shown, self.call.consumer, now, &mut self.rng);
        let runnable = outcome.filter(|outcome| !outcome.runnable().is_empty());
        match (decision, runnable) {
            (Decision::Truncate, Some(outcome)) => {
                // Not all of an answer, and one that the turn goes on with.
                self.retries.answered(now);
                self.end(tried, Verdict::Truncated, Some(&failure)).await;
                Next::End(Box::new(Ending::Truncated { outcome, failure }))
            }
            (Decision::Truncate, None) => {
                self.end(tried, Verdict::Failed, Some(&failure)).await;
                Next::End(Box::new(Ending::Failed { failure, retry_at: None }))
            }
            (Decision::Fail { retry_at }, _) => {
                self.end(tried, Verdict::Failed, Some(&failure)).await;
                Next::End(Box::new(Ending::Failed { failure, retry_at }))
            }
            (Decision::Retry { after, supersede }, _) => {
                self.end(tried, Verdict::Failed, Some(&failure)).await;
                self.replaced = Some((self.number, supersede));
                self.sleep(&failure, after).await
            }
            (Decision::Park { until, supersede }, _) => {
                self.replaced = Some((self.number, supersede));
                // Before the end of the row: a kill between the two leaves a row that is unknown, and loses no wait.
                let parked = self.park(&failure, Duration::from_millis(until.0.saturating_sub(now.0))).await;
                self.end(tried, Verdict::Failed, Some(&failure)).await;
                match parked {
                    Ok(waiting) => self.sit_out(waiting).await,
                    Err(unkept) => Next::End(Box::new(Ending::Unkept(unkept))),
                }
            }
        }
    }

    /// Whether the wait was still there.
    pub(super) async fn unpark(&mut self) -> bool {
        let (session, turn) = (self.call.session.clone(), self.call.turn.clone());
        match self.client.keeping.waits.unpark(session, turn).await {
            Ok(was_there) => was_there,
            Err(unkept) => {
                self.teller.own_up(unkept).await;
                // Asked again after a restart, at worst. To give up the turn now would be worse.
                true
            }
        }
    }

    async fn end(&mut self, tried: Tried, verdict: Verdict, failure: Option<&Failure>) {
        // Not `now()`: a jump has to be seen by the wait that may have been stored a moment ago.
        let now = self.client.keeping.clock.wall();
        let mut ended = row::ended(tried, verdict, failure, now, &self.client.keeping.redact);
        if let Some(evidence) = &mut ended.evidence {
            self.keys.hide_in_bytes(evidence);
        }
        let name = self.call.name(self.number);
        if let Err(unkept) = self.client.keeping.ledger.end(name, ended).await {
            self.teller.own_up(unkept).await;
        }
    }

    /// What time it is. Times that were noted before are moved if somebody has set the clock since.
    pub(super) fn now(&mut self) -> Time {
        let clock = &*self.client.keeping.clock;
        if let Some(by) = self.watch.moved(clock) {
            self.retries.clock_moved(by);
        }
        clock.wall()
    }
}

/// An attempt without a failure has an outcome; were it not so, the mistake is ours.
fn missing() -> Ending {
    let message = "an attempt ended without an outcome";
    let failure = Failure::new(ErrorClass::Internal, crate::classify::Source::Ours, message);
    Ending::Failed { failure, retry_at: None }
}
