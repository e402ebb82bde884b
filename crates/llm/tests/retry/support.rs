//! A provider on a real socket, a ledger on a real disk, and clocks that do not keep a test waiting.

use bytes::Bytes;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use turnstream_fake_provider::{Provider, Script, Step};
use turnstream_llm::client::{
    CallEvent, CallOutcome, Client, Environment, ModelCall, Route, RunningCall, Settings, Timeouts,
};
use turnstream_llm::retry::{Consumer, Policy};
use turnstream_llm::wait::Clock;
use turnstream_llm::{Format, Profile, StreamEvent};
use turnstream_log::Attempts;
use turnstream_model::attempts::{Attempt, Ledger, Verdict, Waits};
use turnstream_model::event::ErrorClass;
use turnstream_model::time::Time;
use turnstream_redact::Rules;

pub(crate) const START: Time = Time(1_794_809_255_000);

/// Clocks that jump to the end of every sleep.
pub(crate) struct QuickClock(Mutex<Duration>);

impl QuickClock {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Duration::ZERO))
    }
}

impl Clock for QuickClock {
    fn wall(&self) -> Time {
        START.plus_millis(self.0.lock().unwrap().as_millis() as u64)
    }

    fn elapsed(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn sleep(&self, how_long: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        *self.0.lock().unwrap() += how_long;
        Box::pin(tokio::task::yield_now())
    }
}

/// An event for the clocks of a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    /// The wall clock is set by this many milliseconds.
    Jump(i64),
    /// The machine is suspended for this many milliseconds: both clocks continue, timers do not.
    Suspended(u64),
    /// The clocks stop.
    Halt,
}

/// Clocks that advance with every sleep, with events at given elapsed milliseconds.
pub(crate) struct HandClock(Mutex<Hands>);

struct Hands {
    wall: u64,
    elapsed: u64,
    happenings: Vec<(u64, Happening)>,
    suspended: u64,
    is_halted: bool,
}

impl HandClock {
    pub(crate) fn new(happenings: impl IntoIterator<Item = (u64, Happening)>) -> Self {
        Self::at(START, happenings)
    }

    /// With this wall time.
    pub(crate) fn at(wall: Time, happenings: impl IntoIterator<Item = (u64, Happening)>) -> Self {
        let happenings = happenings.into_iter().collect();
        Self(Mutex::new(Hands { wall: wall.0, elapsed: 0, happenings, suspended: 0, is_halted: false }))
    }

    /// Time passes.
    pub(crate) fn pass(&self, millis: u64) {
        let mut hands = self.0.lock().unwrap();
        hands.wall += millis;
        hands.elapsed += millis;
    }

    /// Sets the wall clock.
    pub(crate) fn jump(&self, by: i64) {
        let mut hands = self.0.lock().unwrap();
        hands.wall = hands.wall.saturating_add_signed(by);
    }

    /// How long the machine was suspended in total.
    pub(crate) fn suspended(&self) -> u64 {
        self.0.lock().unwrap().suspended
    }

    fn happen(&self) {
        let mut due = Vec::new();
        {
            let mut hands = self.0.lock().unwrap();
            let now = hands.elapsed;
            hands.happenings.retain(|(at, happening)| {
                if *at <= now {
                    due.push(*happening);
                }
                *at > now
            });
        }
        for happening in due {
            match happening {
                Happening::Jump(by) => self.jump(by),
                Happening::Suspended(millis) => {
                    self.pass(millis);
                    self.0.lock().unwrap().suspended += millis;
                }
                Happening::Halt => self.0.lock().unwrap().is_halted = true,
            }
        }
    }
}

impl Clock for HandClock {
    fn wall(&self) -> Time {
        Time(self.0.lock().unwrap().wall)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.0.lock().unwrap().elapsed)
    }

    fn sleep(&self, how_long: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        if self.0.lock().unwrap().is_halted {
            return Box::pin(std::future::pending());
        }
        self.pass(how_long.as_nanos().div_ceil(1_000_000) as u64);
        self.happen();
        Box::pin(tokio::task::yield_now())
    }
}

/// Stopped clocks: a sleep never ends.
pub(crate) struct StoppedClock(pub(crate) Time);

impl Clock for StoppedClock {
    fn wall(&self) -> Time {
        self.0
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

/// A client with its provider and its ledger.
pub(crate) struct Bench {
    pub(crate) provider: Provider,
    pub(crate) attempts: Attempts,
    pub(crate) client: Client,
    pub(crate) directory: TempDir,
}

pub(crate) async fn bench(steps: impl IntoIterator<Item = Step>) -> Bench {
    bench_with(steps, Timeouts::default(), Arc::new(QuickClock::new())).await
}

pub(crate) async fn bench_with(
    steps: impl IntoIterator<Item = Step>,
    timeouts: Timeouts,
    clock: Arc<dyn Clock>,
) -> Bench {
    let provider = Provider::start(Script::new(steps)).await.unwrap();
    let directory = TempDir::new().unwrap();
    let attempts = Attempts::open(directory.path()).unwrap();
    let client = client(attempts.clone(), timeouts, clock);
    Bench { provider, attempts, client, directory }
}

pub(crate) fn client(attempts: Attempts, timeouts: Timeouts, clock: Arc<dyn Clock>) -> Client {
    client_with(Settings { timeouts, policy: Policy::default(), ..Settings::default() }, attempts, clock)
}

pub(crate) fn client_with(settings: Settings, attempts: Attempts, clock: Arc<dyn Clock>) -> Client {
    let environment = Environment {
        ledger: Arc::new(attempts.clone()),
        waits: Arc::new(attempts),
        clock,
        redact: Arc::new(Rules::standard()),
    };
    Client::new(settings, environment).unwrap()
}

pub(crate) fn call(base: &str, format: Format, consumer: Consumer) -> ModelCall {
    let (path, messages) = match format {
        Format::Chat => ("/v1/chat/completions", "messages"),
        Format::Responses => ("/v1/responses", "input"),
        Format::Messages => ("/v1/messages", "messages"),
    };
    let body = serde_json::json!({
        "model": "m", "stream": true, "stream_options": {"include_usage": true},
        messages: [{"role": "user", "content": "Hi"}],
    });
    ModelCall {
        session: "ses_1".into(),
        turn: "t1".into(),
        step: 1,
        attempts_before: 0,
        route: Route {
            name: "main".to_owned(),
            url: format!("{base}{path}"),
            format,
            profile: Profile::UNKNOWN,
            headers: vec![("authorization".to_owned(), "Bearer k".to_owned())],
        },
        model: "m".to_owned(),
        body: Bytes::from(body.to_string()),
        consumer,
    }
}

/// All events of a call.
pub(crate) async fn all(mut running: RunningCall) -> Vec<CallEvent> {
    let mut told = Vec::new();
    let gathering = async {
        while let Some(next) = running.next().await {
            told.push(next);
        }
    };
    tokio::time::timeout(Duration::from_secs(300), gathering).await.expect("the call never ended");
    told
}

impl Bench {
    pub(crate) async fn run(&self, format: Format, consumer: Consumer) -> Vec<CallEvent> {
        all(self.client.start(call(&self.provider.base_url(), format, consumer))).await
    }

    /// The ledger rows. Asserts that there were as many requests.
    pub(crate) async fn rows(&self) -> Vec<Attempt> {
        let rows = self.attempts.attempts("ses_1".into()).await.unwrap();
        let posts = self.provider.calls().len();
        assert_eq!(posts, rows.len(), "requests on the wire and attempts in the ledger");
        rows
    }

    pub(crate) async fn verdicts(&self) -> Vec<(Verdict, Option<ErrorClass>)> {
        let verdict = |row: &Attempt| (row.verdict().unwrap(), row.end.as_ref().and_then(|end| end.class));
        self.rows().await.iter().map(verdict).collect()
    }

    pub(crate) async fn waits(&self) -> usize {
        self.attempts.parked().await.unwrap().len()
    }
}

pub(crate) fn ending(told: &[CallEvent]) -> &CallOutcome {
    match told.last() {
        Some(CallEvent::Ended { outcome: ending, .. }) => ending,
        other => panic!("it did not end: {other:?}"),
    }
}

/// The final text of a consumer that takes back superseded items.
pub(crate) fn text_of(told: &[CallEvent]) -> String {
    let mut texts: Vec<(u32, String)> = Vec::new();
    for told in told {
        match told {
            CallEvent::Stream { attempt, event: StreamEvent::Text { text, .. } } => {
                texts.push((*attempt, text.clone()))
            }
            CallEvent::Superseded { attempt, .. } => texts.retain(|(of, _)| of != attempt),
            CallEvent::Stream { .. }
            | CallEvent::AttemptStarted { .. }
            | CallEvent::Retrying { .. }
            | CallEvent::NotRecorded(_)
            | CallEvent::Ended { .. } => {}
        }
    }
    texts.into_iter().map(|(_, text)| text).collect()
}

/// Whether no file in the directory contains this text.
pub(crate) fn is_nowhere(directory: &Path, text: &str) -> bool {
    std::fs::read_dir(directory).unwrap().all(|entry| {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        !bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}
