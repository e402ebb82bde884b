//! One message and its answer, for those who have no gateway: [`Client::send_message`].

use super::client::Client;
use super::conduct::{Budget, Call, Conductor, Pace};
use super::ids;
use super::rest::SessionRef;
use super::solo::Solo;
use super::talk::{Clock, Heard, News, Way};
use futures_core::Stream;
use serde_json::json;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use turnstream_dialects::acp::{AcpEvent, Encoder};
use turnstream_model::event::{ApprovalOutcome, Body, By, ErrorClass, Event, Permissions, Status, TurnError};
use turnstream_model::id::ApprovalId;
use turnstream_model::signal::Ending;

/// Events that may wait for the one who reads them; then the conversation waits.
const WAITING: usize = 256;
/// How long the stopping of a turn may take before it is ended without the server's word.
const STOP: Duration = Duration::from_secs(10);

/// How turns of [`Client::send_message`] behave.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnSettings {
    /// What becomes of asks. `Ask` hands them out; answer them with [`Turn::approve`].
    pub permissions: Permissions,
    /// Silence of the session and its subagents after which the turn is stopped. Heartbeats do not count, and a turn that
    /// waits for a person is not silent.
    pub inactivity: Duration,
    /// How long a turn may take in all.
    pub wall_clock: Option<Duration>,
    /// Silence after which a keep-alive is handed out.
    pub keep_alive: Option<Duration>,
    /// `provider/model`.
    pub model: Option<String>,
    /// opencode's agent: `build`, `plan` and so on.
    pub mode: Option<String>,
    /// What the turn may take.
    pub budget: Budget,
    /// How long the conversation waits for signs of life.
    pub pace: Pace,
}

impl Default for TurnSettings {
    fn default() -> Self {
        Self {
            permissions: Permissions::Ask,
            inactivity: Duration::from_secs(200),
            wall_clock: None,
            keep_alive: Some(Duration::from_secs(15)),
            model: None,
            mode: None,
            budget: Budget::default(),
            pace: Pace::default(),
        }
    }
}

/// The answer to a message, as it comes. It ends after exactly one terminator ([`AcpEvent::is_terminator`]). Dropped
/// before that, it stops the turn.
pub struct Turn {
    events: mpsc::Receiver<AcpEvent>,
    orders: mpsc::UnboundedSender<Order>,
}

enum Order {
    Cancel,
    Approve(ApprovalId, ApprovalOutcome),
}

impl Turn {
    /// The next event; `None` after the terminator.
    pub async fn next(&mut self) -> Option<AcpEvent> {
        self.events.recv().await
    }

    /// Stops the turn; its terminator still comes.
    pub fn cancel(&self) {
        // A turn that is over has nobody who listens.
        let _ = self.orders.send(Order::Cancel);
    }

    /// Answers a permission that was asked for. The first answer counts.
    pub fn approve(&self, approval: ApprovalId, outcome: ApprovalOutcome) {
        let _ = self.orders.send(Order::Approve(approval, outcome));
    }
}

impl Stream for Turn {
    type Item = AcpEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<AcpEvent>> {
        self.events.poll_recv(context)
    }
}

impl Client {
    /// Sends a message and hands out the answer. Messages to one session are sent one after the other: this one waits
    /// until the one before has its end.
    pub fn send_message(&self, session: &SessionRef, text: &str, settings: TurnSettings) -> Turn {
        let (sender, events) = mpsc::channel(WAITING);
        let (orders, ordered) = mpsc::unbounded_channel();
        let (client, at, text) = (self.clone(), session.clone(), text.to_owned());
        tokio::spawn(async move {
            let turn = client.queue(&at.id);
            // Somebody who no longer waits needs no turn.
            let _slot = tokio::select! {
                slot = turn.lock() => slot,
                () = sender.closed() => return,
            };
            Driver::new(client, at, settings, sender, ordered).run(text).await;
        });
        Turn { events, orders }
    }
}

struct Driver {
    solo: Solo,
    way: Way,
    clock: Clock,
    settings: TurnSettings,
    encoder: Encoder,
    sender: mpsc::Sender<AcpEvent>,
    orders: mpsc::UnboundedReceiver<Order>,
    session: String,
    /// When the session was last active, when the turn began, and when something was last handed out.
    active: Instant,
    began: Instant,
    said: Instant,
    /// It waits for a person.
    waiting: bool,
    /// It is being stopped, and ends so if that takes too long.
    stopping: Option<(Instant, Ending)>,
}

/// The reader is gone, or has had the terminator.
struct Done;

impl Driver {
    fn new(
        client: Client,
        at: SessionRef,
        settings: TurnSettings,
        sender: mpsc::Sender<AcpEvent>,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Self {
        let clock = Clock::new();
        let mut conductor = Conductor::new(&at.id, settings.pace, settings.budget.clone(), clock.now());
        conductor.choose(settings.model.clone(), settings.mode.clone());
        let cwd = at.directory.as_str();
        let solo = Solo::new(conductor, &at.id, cwd, settings.permissions, clock.now());
        let now = Instant::now();
        Self {
            solo,
            way: Way::new(&client, &at),
            clock,
            settings,
            encoder: Encoder::new(),
            sender,
            orders,
            session: at.id,
            active: now,
            began: now,
            said: now,
            waiting: false,
            stopping: None,
        }
    }

    async fn run(mut self, text: String) {
        let connected = tokio::select! {
            connected = self.way.connected() => connected,
            () = self.sender.closed() => return,
        };
        let native_id = ids::for_prompt(&self.session, &text, self.clock.now().0).message();
        let sent = self.solo.prompt(native_id, vec![json!({"type": "text", "text": text})], self.clock.now());
        debug_assert!(sent.is_ok(), "a new conversation takes a prompt");
        if let Err(error) = connected {
            // Nothing has left yet.
            while self.solo.call().is_some() {}
            self.solo.end(Ending::failed(error), self.clock.now());
        }
        (self.began, self.active) = (Instant::now(), Instant::now());
        while self.hand_out().await.is_ok() {
            let due = self.due();
            tokio::select! {
                news = self.way.news() => self.take(news),
                order = self.orders.recv() => self.obey(order),
                () = sleep_until(due) => self.tick(),
                () = self.sender.closed() => break,
            }
        }
        // Whoever dropped the stream does not want the turn any more; what others run in the session later is not touched,
        // because the next message of ours waits for this.
        if self.solo.is_busy() {
            let _ = timeout(STOP, self.way.make(Call::Abort)).await;
        }
    }

    fn take(&mut self, news: News) {
        let now = self.clock.now();
        match news {
            News::Answer(answer) => self.solo.answer(answer, now),
            News::Item(item) => match Heard::of(item) {
                Heard::Event(event) => self.solo.event(&event, now),
                Heard::Gap(reason) => self.solo.connected(Some(reason), now),
                Heard::Closed(reason) => self.solo.closed(reason, now),
                Heard::Nothing => {}
            },
        }
    }

    fn obey(&mut self, order: Option<Order>) {
        let now = self.clock.now();
        match order {
            Some(Order::Cancel) => {
                self.stopping.get_or_insert((Instant::now() + STOP, Ending::cancelled()));
                self.solo.cancel(now);
            }
            Some(Order::Approve(approval, outcome)) => {
                // Refused when it is settled already: the first answer counts.
                let _ = self.solo.approve(&approval, outcome, By::Client, now);
            }
            None => {}
        }
    }

    /// When something has to be done without being asked.
    fn due(&self) -> Instant {
        let solo = self.solo.deadline().map(|time| self.clock.moment(time));
        let alive = self.settings.keep_alive.map(|silence| self.said + silence);
        let limit = match &self.stopping {
            Some((until, _)) => Some(*until),
            None => self.limit().map(|(until, _)| until),
        };
        let far = Instant::now() + Duration::from_secs(3_600);
        [solo, alive, limit].into_iter().flatten().min().unwrap_or(far)
    }

    /// The first limit that will be reached, and what is said of it.
    fn limit(&self) -> Option<(Instant, String)> {
        let TurnSettings { inactivity, wall_clock, .. } = &self.settings;
        let silent = (!self.waiting).then(|| {
            let message = format!("nothing was heard of the turn for {} seconds", inactivity.as_secs());
            (self.active + *inactivity, message)
        });
        let long = wall_clock
            .map(|most| (self.began + most, format!("the turn took longer than {} seconds", most.as_secs())));
        silent.into_iter().chain(long).min_by_key(|(until, _)| *until)
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        if let Some((_, ending)) = self.stopping.take_if(|(until, _)| Instant::now() >= *until) {
            return self.solo.end(ending, now);
        }
        if self.stopping.is_none()
            && let Some((_, message)) = self.limit().filter(|(until, _)| Instant::now() >= *until)
        {
            // Stopped first, so that nothing of it runs on; then it is over whatever the server says.
            self.way.begin(Call::Abort);
            let ending = Ending::failed(TurnError::new(ErrorClass::Timeout, message));
            return self.solo.end(ending, now);
        }
        self.solo.tick(now);
    }

    /// Begins the calls and hands out what happened.
    async fn hand_out(&mut self) -> Result<(), Done> {
        while let Some(call) = self.solo.call() {
            self.way.begin(call);
        }
        let mut out = Vec::new();
        while let Some(event) = self.solo.take_event() {
            self.note(&event);
            self.encoder.encode(&event, &mut out);
        }
        if out.is_empty()
            && self.settings.keep_alive.is_some_and(|silence| self.said + silence <= Instant::now())
        {
            out.push(AcpEvent::KeepAlive);
        }
        for event in out {
            self.said = Instant::now();
            let is_last = event.is_terminator();
            self.sender.send(event).await.map_err(|_| Done)?;
            if is_last {
                return Err(Done);
            }
        }
        Ok(())
    }

    fn note(&mut self, event: &Event) {
        match &event.draft.body {
            Body::SessionStatus(status) => self.waiting = *status == Status::Waiting,
            Body::Notice { .. } | Body::SessionUpdated(_) | Body::SessionCreated { .. } => {}
            _ => self.active = Instant::now(),
        }
    }
}
