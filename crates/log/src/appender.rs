//! The one writer of a session.

use crate::error::AppendError;
use crate::log::Inner;
use crate::queue::{Append, Content};
use crate::session::Session;
use crate::weight;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::sync::oneshot;
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::event::Draft;
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// The right to append to one session under one owner epoch. There is one appender per epoch, and it cannot
/// be cloned. A newer epoch fences it: its appends are refused.
///
/// ```compile_fail
/// fn two(appender: turnstream_log::Appender) -> (turnstream_log::Appender, turnstream_log::Appender) {
///     (appender.clone(), appender)
/// }
/// ```
pub struct Appender {
    log: Arc<Inner>,
    session: Arc<Session>,
    epoch: u64,
    /// The time of the last event. No later event gets an earlier one, also if the clock is set back.
    last: Time,
}

/// Resolves to the seq of the last event once the events are durable. Dropping the receipt does not cancel
/// the append.
#[must_use = "without it nobody knows whether the events are durable"]
pub struct Receipt(oneshot::Receiver<Result<Seq, AppendError>>);

impl Appender {
    /// The largest append. A commit holds at most twice this. Its length fits the record header even if every
    /// byte has to be escaped.
    pub const MOST_BYTES: usize = 64 << 20;

    pub(crate) fn new(log: Arc<Inner>, session: Arc<Session>, epoch: u64) -> Self {
        Self { log, session, epoch, last: Time(0) }
    }

    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.session.id
    }

    /// The generation of the session's log.
    pub fn generation(&self) -> &Generation {
        &self.session.generation
    }

    /// The owner epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The last durable event of the session.
    pub fn head(&self) -> Seq {
        self.session.head()
    }

    /// The time that events get which are appended now: never before the last event of the session.
    pub fn stamp(&mut self, now: Time) -> Time {
        self.last = self.last.max(now);
        self.last
    }

    /// Returns when every commit that began before this call has ended.
    pub(crate) async fn wait_for_earlier_commits(&mut self) -> Result<(), AppendError> {
        self.append(Vec::new(), Time(0)).await?.await.map(drop)
    }

    /// Queues events for the next commit, in call order. Waits only while the log's byte budget is used up;
    /// the receipt resolves when the events are durable.
    ///
    /// All events of one call become durable together, so a call is limited to about
    /// [`Appender::MOST_BYTES`]. They get this time, or that of the last event if it is later.
    pub async fn append(&mut self, drafts: Vec<Draft>, time: Time) -> Result<Receipt, AppendError> {
        let time = self.stamp(time);
        let weight = weight::of_all(&drafts);
        enqueue(&self.log, &self.session, self.epoch, Content::Drafts(drafts, time), weight).await
    }
}

/// Queues content for the next commit, after reserving its bytes in the budget.
pub(crate) async fn enqueue(
    log: &Inner,
    session: &Arc<Session>,
    epoch: u64,
    content: Content,
    weight: usize,
) -> Result<Receipt, AppendError> {
    if weight > Appender::MOST_BYTES {
        let (session, most) = (session.id.to_string(), Appender::MOST_BYTES);
        return Err(AppendError::TooLarge { session, bytes: weight, most });
    }
    let since = Instant::now();
    let permit = log.queue.reserve(&content, weight).await?;
    let (done, receipt) = oneshot::channel();
    let append = Append { session: session.clone(), epoch, since, content, weight, permit, done };
    log.queue.append(append).map_err(|_| AppendError::Closed)?;
    Ok(Receipt(receipt))
}

impl Drop for Appender {
    fn drop(&mut self) {
        self.log.store.release(self.session.key, self.epoch);
    }
}

impl Future for Receipt {
    type Output = Result<Seq, AppendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|done| done.unwrap_or(Err(AppendError::Closed)))
    }
}
