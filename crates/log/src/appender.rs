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

/// The right to append to one session, under one owner epoch. There is one per epoch and it cannot be cloned; a newer
/// epoch makes it useless.
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
}

/// Resolves when the events are durable, to the last one's number. Dropping it changes nothing for them.
#[must_use = "without it nobody knows whether the events are durable"]
pub struct Receipt(oneshot::Receiver<Result<Seq, AppendError>>);

impl Appender {
    /// What one append may hold. A commit holds at most twice this, and its length fits its record even if every byte of
    /// it has to be escaped.
    pub const MOST_BYTES: usize = 64 << 20;

    pub(crate) fn new(log: Arc<Inner>, session: Arc<Session>, epoch: u64) -> Self {
        Self { log, session, epoch }
    }

    /// Its session.
    pub fn session(&self) -> &SessionId {
        &self.session.id
    }

    /// The generation of its log.
    pub fn generation(&self) -> &Generation {
        &self.session.generation
    }

    /// Its owner epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The last durable event of the session.
    pub fn head(&self) -> Seq {
        self.session.head()
    }

    /// Returns when every commit that began before it has ended.
    pub(crate) async fn settle_in(&mut self) -> Result<(), AppendError> {
        self.append(Vec::new(), Time(0)).await?.await.map(drop)
    }

    /// Hands events to the next commit, in the order of the calls. Waits only while more than the log's budget is
    /// under way; the receipt tells when they are durable. All of them become durable together, so there is a limit to
    /// what one call may hold: [`Appender::MOST_BYTES`], about.
    pub async fn append(&mut self, drafts: Vec<Draft>, time: Time) -> Result<Receipt, AppendError> {
        let weight = weight::of_all(&drafts);
        enqueue(&self.log, &self.session, self.epoch, Content::Drafts(drafts, time), weight).await
    }
}

/// Hands it to the next commit, when there is room for it.
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
    let permit = log.queue.room(&content, weight).await?;
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
