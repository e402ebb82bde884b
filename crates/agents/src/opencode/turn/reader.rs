//! The one who reads a turn: gets events, gives orders, and may be gone.

use super::Order;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use turnstream_dialects::acp::AcpEvent;

/// The other side of a [`Turn`](super::Turn).
pub(super) struct Reader {
    sender: mpsc::Sender<AcpEvent>,
    orders: mpsc::UnboundedReceiver<Order>,
    keep_alive: Option<Duration>,
    /// When something was last handed out.
    said: Instant,
}

/// The reader is gone.
pub(super) struct Gone;

/// Why something was not waited for.
pub(super) enum Interrupted {
    Gone,
    Cancelled,
}

impl Reader {
    pub(super) fn new(
        sender: mpsc::Sender<AcpEvent>,
        orders: mpsc::UnboundedReceiver<Order>,
        keep_alive: Option<Duration>,
    ) -> Self {
        Self { sender, orders, keep_alive, said: Instant::now() }
    }

    /// Hands out an event; waits when too many wait.
    pub(super) async fn hand_out(&mut self, event: AcpEvent) -> Result<(), Gone> {
        self.sender.send(event).await.map_err(|_| Gone)?;
        self.said = Instant::now();
        Ok(())
    }

    /// The next order. Safe to cancel.
    pub(super) async fn order(&mut self) -> Result<Order, Gone> {
        tokio::select! {
            order = self.orders.recv() => order.ok_or(Gone),
            () = self.sender.closed() => Err(Gone),
        }
    }

    /// When the silence has lasted too long.
    pub(super) fn alive_at(&self) -> Option<Instant> {
        self.keep_alive.map(|silence| self.said + silence)
    }

    /// Breaks a silence that lasted too long.
    pub(super) async fn keep_alive(&mut self) -> Result<(), Gone> {
        match self.alive_at() {
            Some(at) if at <= Instant::now() => self.hand_out(AcpEvent::KeepAlive).await,
            _ => Ok(()),
        }
    }

    /// Waits for something, as long as the reader wants it.
    pub(super) async fn while_waiting<T>(&mut self, wait: impl Future<Output = T>) -> Result<T, Interrupted> {
        let mut wait = pin!(wait);
        loop {
            let far = Instant::now() + Duration::from_secs(3_600);
            let alive_at = self.alive_at().unwrap_or(far);
            tokio::select! {
                waited = &mut wait => return Ok(waited),
                order = self.order() => match order {
                    Ok(Order::Cancel) => return Err(Interrupted::Cancelled),
                    // Nothing has been asked yet.
                    Ok(Order::Approve(..) | Order::Answer(..)) => {}
                    Err(Gone) => return Err(Interrupted::Gone),
                },
                () = sleep_until(alive_at) => self.keep_alive().await.map_err(|Gone| Interrupted::Gone)?,
            }
        }
    }
}
