//! The driver's side of a [`Turn`](super::Turn): sends events to its reader and receives commands.

use super::TurnCommand;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use turnstream_dialects::acp::AcpEvent;

/// The reader of a turn, as its driver sees it.
pub(super) struct Reader {
    sender: mpsc::Sender<AcpEvent>,
    commands: mpsc::UnboundedReceiver<TurnCommand>,
    keep_alive: Option<Duration>,
    /// When the last event was sent.
    last_sent: Instant,
}

/// The reader has dropped its [`Turn`](super::Turn).
pub(super) struct ReaderGone;

/// Why a wait was interrupted.
pub(super) enum Interrupted {
    ReaderGone,
    Cancelled,
}

impl Reader {
    pub(super) fn new(
        sender: mpsc::Sender<AcpEvent>,
        commands: mpsc::UnboundedReceiver<TurnCommand>,
        keep_alive: Option<Duration>,
    ) -> Self {
        Self { sender, commands, keep_alive, last_sent: Instant::now() }
    }

    /// Sends an event; waits while the queue is full.
    pub(super) async fn send(&mut self, event: AcpEvent) -> Result<(), ReaderGone> {
        self.sender.send(event).await.map_err(|_| ReaderGone)?;
        self.last_sent = Instant::now();
        Ok(())
    }

    /// The next command. Safe to cancel.
    pub(super) async fn next_command(&mut self) -> Result<TurnCommand, ReaderGone> {
        tokio::select! {
            command = self.commands.recv() => command.ok_or(ReaderGone),
            () = self.sender.closed() => Err(ReaderGone),
        }
    }

    /// When the next keep-alive is due.
    pub(super) fn keep_alive_at(&self) -> Option<Instant> {
        self.keep_alive.map(|silence| self.last_sent + silence)
    }

    /// Sends a keep-alive if one is due.
    pub(super) async fn keep_alive(&mut self) -> Result<(), ReaderGone> {
        match self.keep_alive_at() {
            Some(at) if at <= Instant::now() => self.send(AcpEvent::KeepAlive).await,
            _ => Ok(()),
        }
    }

    /// Waits for a future, unless the reader cancels or is gone. Keep-alives are sent meanwhile.
    pub(super) async fn while_waiting<T>(&mut self, wait: impl Future<Output = T>) -> Result<T, Interrupted> {
        let mut wait = pin!(wait);
        loop {
            let far = Instant::now() + Duration::from_secs(3_600);
            let keep_alive_at = self.keep_alive_at().unwrap_or(far);
            tokio::select! {
                waited = &mut wait => return Ok(waited),
                command = self.next_command() => match command {
                    Ok(TurnCommand::Cancel) => return Err(Interrupted::Cancelled),
                    // Nothing has been asked yet.
                    Ok(TurnCommand::Approve(..) | TurnCommand::Answer(..)) => {}
                    Err(ReaderGone) => return Err(Interrupted::ReaderGone),
                },
                () = sleep_until(keep_alive_at) => {
                    self.keep_alive().await.map_err(|ReaderGone| Interrupted::ReaderGone)?;
                }
            }
        }
    }
}
