//! What happens to a message from its place in the queue to its terminator.

use super::reader::{Gone, Interrupted, Reader};
use super::{Order, TurnSettings};
use crate::counts::{Counted, Counters};
use crate::opencode::client::{Client, Place};
use crate::opencode::conduct::{Call, Conductor};
use crate::opencode::ids;
use crate::opencode::rest::SessionRef;
use crate::opencode::solo::Solo;
use crate::opencode::talk::{Clock, Heard, News, Way, closed};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use turnstream_dialects::acp::{AcpEvent, Encoder};
use turnstream_model::event::{Body, By, Effect, ErrorClass, Event, NoticeCode, Outcome, Status, TurnError};
use turnstream_model::signal::Ending;

/// How long the stopping of a turn may take before it is ended without the server's word.
const STOP: Duration = Duration::from_secs(10);
/// Between two looks at whether a session rests. The last words of a turn come up to half a second after that (captures
/// f1, g2).
const LOOK: Duration = Duration::from_millis(500);

/// Sends a message and hands out its answer.
pub(super) async fn run(
    client: Client,
    at: SessionRef,
    text: String,
    settings: TurnSettings,
    mut reader: Reader,
    place: Place,
) {
    let slot = match reader.while_waiting(place).await {
        Ok(slot) => Ok(slot),
        Err(Interrupted::Cancelled) => Err(Ending::cancelled()),
        Err(Interrupted::Gone) => return,
    };
    let mut way = Way::new(&client, &at);
    let ready = match &slot {
        Err(ending) => Err(ending.clone()),
        Ok(_) => match reader.while_waiting(rested(&mut way, settings.pace.busy)).await {
            Ok(rested) => rested.map_err(Ending::failed),
            Err(Interrupted::Cancelled) => Err(Ending::cancelled()),
            Err(Interrupted::Gone) => return,
        },
    };
    Driver::new(way, &at, settings, reader, client.counters().clone()).run(text, ready).await;
}

/// Waits until events are seen and the session rests. What still runs there, of another client or of a turn that was
/// lost, must not be taken for the answer; and what is sent meanwhile would become part of it (capture k1).
async fn rested(way: &mut Way, busy: Duration) -> Result<(), TurnError> {
    way.connected().await.map_err(|reason| closed(&reason))?;
    let until = Instant::now() + busy;
    let mut ran = false;
    loop {
        let runs = way.is_busy().await?;
        if !runs && !ran {
            return Ok(());
        }
        if Instant::now() >= until {
            let message = format!(
                "another turn runs in the session and did not end within {} seconds; abort it or wait for it",
                busy.as_secs()
            );
            return Err(TurnError::new(ErrorClass::NotStarted, message));
        }
        ran = runs;
        let look = Instant::now() + LOOK;
        while let Ok(news) = timeout_at(look, way.news()).await {
            if let News::Item(item) = news
                && let Heard::Closed(reason) = Heard::of(item)
            {
                return Err(reason);
            }
        }
    }
}

struct Driver {
    solo: Solo,
    way: Way,
    clock: Clock,
    settings: TurnSettings,
    encoder: Encoder,
    /// Gone when nobody reads any more.
    reader: Option<Reader>,
    session: String,
    /// When the session was last active, and when the turn began.
    active: Instant,
    began: Instant,
    /// It waits for a person.
    waiting: bool,
    /// It is being stopped, and ends so if that takes too long.
    stopping: Option<(Instant, Ending)>,
    /// It ended without the server's word, which may still work on it.
    abandoned: bool,
    counters: Counters,
}

/// There is nothing more to hand out.
struct Done;

impl Driver {
    fn new(way: Way, at: &SessionRef, settings: TurnSettings, reader: Reader, counters: Counters) -> Self {
        let clock = Clock::new();
        let mut conductor = Conductor::new(&at.id, settings.pace, settings.budget.clone(), clock.now());
        conductor.choose(settings.model.clone(), settings.mode.clone());
        let cwd = at.directory.as_str();
        let solo = Solo::new(conductor, &at.id, cwd, settings.permissions, clock.now());
        let now = Instant::now();
        Self {
            solo,
            way,
            clock,
            settings,
            encoder: Encoder::new(),
            reader: Some(reader),
            session: at.id.clone(),
            active: now,
            began: now,
            waiting: false,
            stopping: None,
            abandoned: false,
            counters,
        }
    }

    async fn run(mut self, text: String, ready: Result<(), Ending>) {
        let native_id = ids::for_prompt(&self.session, &text, self.clock.now().0).message();
        let sent = self.solo.prompt(native_id, vec![json!({"type": "text", "text": text})], self.clock.now());
        debug_assert!(sent.is_ok(), "a new conversation takes a prompt");
        if let Err(ending) = ready {
            // Nothing has left yet.
            while self.solo.call().is_some() {}
            self.solo.end(ending, self.clock.now());
        }
        while self.hand_out().await.is_ok() {
            let due = self.due();
            tokio::select! {
                news = self.way.news() => self.take(news),
                order = order(self.reader.as_mut()) => self.obey(order),
                () = sleep_until(due) => self.tick(),
            }
        }
        // The next message of ours waits for this.
        self.solo.close();
        let _ = timeout(STOP, self.make_calls()).await;
    }

    async fn make_calls(&mut self) {
        // A prompt that is still on its way would begin after the abort.
        self.way.settled().await;
        if self.abandoned {
            self.way.begin(Call::Abort);
            self.way.settled().await;
        }
        while let Some(call) = self.solo.call() {
            self.way.begin(call);
        }
        self.way.settled().await;
    }

    fn take(&mut self, news: News) {
        let now = self.clock.now();
        match news {
            News::Answer(answer) => self.solo.answer(answer, now),
            News::Item(item) => match Heard::of(item) {
                Heard::Event(event) => self.solo.event(&event, now),
                Heard::Lost(reason) => self.solo.lost(&reason, now),
                Heard::Gap(reason) => self.solo.connected(Some(reason), now),
                Heard::Closed(reason) => self.solo.closed(reason, now),
                Heard::Nothing => {}
            },
        }
    }

    fn obey(&mut self, order: Result<Order, Gone>) {
        let now = self.clock.now();
        match order {
            Ok(Order::Cancel) => self.cancel(),
            // Refused when it is settled already: the first answer counts.
            Ok(Order::Approve(approval, outcome)) => {
                let _ = self.solo.approve(&approval, outcome, By::Client, now);
            }
            Ok(Order::Answer(question, answers)) => {
                let _ = self.solo.answer_question(&question, answers, now);
            }
            Err(Gone) => self.forsake(),
        }
    }

    fn cancel(&mut self) {
        if self.stopping.is_none() {
            self.stopping = Some((Instant::now() + STOP, Ending::cancelled()));
            self.solo.cancel(self.clock.now());
        }
    }

    /// Whoever dropped the stream does not want the turn any more. It is watched to its end, so that the next one
    /// begins where this one is over.
    fn forsake(&mut self) {
        self.reader = None;
        self.cancel();
    }

    /// When something has to be done without being asked.
    fn due(&self) -> Instant {
        let solo = self.solo.deadline().map(|time| self.clock.moment(time));
        let alive = self.reader.as_ref().and_then(Reader::alive_at);
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
            self.abandoned = true;
            return self.solo.end(ending, now);
        }
        if self.stopping.is_none()
            && let Some((_, message)) = self.limit().filter(|(until, _)| Instant::now() >= *until)
        {
            // Stopped first, so that nothing of it runs on; then it is over whatever the server says.
            let error = TurnError::new(ErrorClass::Timeout, message);
            self.stopping = Some((Instant::now() + STOP, Ending::failed(error.clone())));
            return self.solo.stop_for(error, now);
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
        let is_over = out.iter().any(AcpEvent::is_terminator);
        for event in out {
            let is_last = event.is_terminator();
            let Some(reader) = &mut self.reader else { break };
            if reader.hand_out(event).await.is_err() {
                self.forsake();
            }
            if is_last {
                break;
            }
        }
        if let Some(reader) = &mut self.reader
            && !is_over
            && reader.keep_alive().await.is_err()
        {
            self.forsake();
        }
        if is_over { Err(Done) } else { Ok(()) }
    }

    fn note(&mut self, event: &Event) {
        if let Body::SessionStatus(status) = &event.draft.body {
            self.waiting = *status == Status::Waiting;
        } else if let Body::Notice { code: NoticeCode::UnexpectedPermission, .. } = &event.draft.body {
            self.counters.count(Counted::UnexpectedPermission);
        } else if let Body::TurnEnded { outcome, .. } = &event.draft.body {
            self.abandoned |= *outcome == Outcome::Lost;
        } else if event.draft.is_activity() || matches!(event.draft.about(), Some((_, Effect::Cancels))) {
            self.active = Instant::now();
        }
    }
}

/// The next order, if somebody is there to give one.
async fn order(reader: Option<&mut Reader>) -> Result<Order, Gone> {
    match reader {
        Some(reader) => reader.order().await,
        None => std::future::pending().await,
    }
}
