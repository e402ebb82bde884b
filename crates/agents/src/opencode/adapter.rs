//! A link to one session of opencode: the conversation, with a keeper on the other side.

use super::client::Client;
use super::conduct::Conductor;
use super::rest::SessionRef;
use super::talk::{Clock, Heard, News, Way};
use crate::link::{Command, Observed, Observer};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep_until;
use turnstream_model::signal::Signal;

/// How long the last calls may take.
const FINISH: Duration = Duration::from_millis(800);

/// One link.
pub(super) struct Adapter {
    conductor: Conductor,
    way: Way,
    clock: Clock,
}

/// The link has ended.
struct Over;

impl Adapter {
    /// A link whose way is connected.
    pub(super) fn new(conductor: Conductor, way: Way, clock: Clock) -> Self {
        Self { conductor, way, clock }
    }

    /// Subscribes to the session's events.
    pub(super) fn way(client: &Client, at: &SessionRef) -> Way {
        Way::new(client, at)
    }

    /// Runs until the keeper or the server is gone.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>, observer: Observer) {
        self.conductor.connected(None, self.clock.now());
        while self.hand_over(&observer).await.is_ok() {
            let deadline = self.conductor.deadline().map(|time| self.clock.moment(time));
            let tick = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.conductor.command(command, self.clock.now()),
                    None => break,
                },
                news = self.way.news() => self.take(news),
                () = tick => self.conductor.tick(self.clock.now()),
                () = observer.gone() => break,
            }
        }
        self.finish(commands).await;
    }

    /// What the keeper said last still reaches the server: most of all that the turn is to stop.
    async fn finish(mut self, mut commands: mpsc::Receiver<Command>) {
        while let Ok(command) = commands.try_recv() {
            self.conductor.command(command, self.clock.now());
        }
        while let Some(call) = self.conductor.call() {
            self.way.begin(call);
        }
        // Whoever ends the link waits a little longer than this.
        let _ = tokio::time::timeout(FINISH, self.way.settled()).await;
    }

    fn take(&mut self, news: News) {
        let now = self.clock.now();
        match news {
            News::Answer(answer) => self.conductor.answer(answer, now),
            News::Item(item) => match Heard::of(item) {
                Heard::Event(event) => self.conductor.event(&event, now),
                Heard::Lost(reason) => self.conductor.lost(&reason, now),
                Heard::Gap(reason) => self.conductor.connected(Some(reason), now),
                Heard::Closed(reason) => self.conductor.closed(reason),
                Heard::Nothing => {}
            },
        }
    }

    /// Begins the calls and tells the keeper what was observed.
    async fn hand_over(&mut self, observer: &Observer) -> Result<(), Over> {
        while let Some(call) = self.conductor.call() {
            self.way.begin(call);
        }
        while let Some(observed) = self.conductor.observed() {
            let is_last = matches!(observed, Observed::Signal(Signal::LinkLost(_)));
            observer.observed(observed).await.map_err(|_| Over)?;
            if is_last {
                return Err(Over);
            }
        }
        Ok(())
    }
}
