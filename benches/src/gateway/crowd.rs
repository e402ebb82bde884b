//! Many subscribers in one thread, each with its own socket.

use super::count::{Count, Keep, Stream};
use crate::Latencies;
use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

/// The buffer size of a read. All subscribers share one buffer.
const READ: usize = 64 * 1024;
/// Simultaneous connection attempts, well below the backlog of a listener.
const AT_ONCE: usize = 64;
/// Connections from one address. A loopback address has about 28,000 ports, and some may be in TIME_WAIT.
const PER_ADDRESS: usize = 4_000;
/// The interval between checks of the progress.
const LOOK: Duration = Duration::from_millis(20);

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// Connected subscribers.
pub(crate) struct Crowd {
    runtime: Runtime,
    shared: Arc<Shared>,
    subscribers: Vec<Arc<Mutex<Count>>>,
    events: u64,
}

#[derive(Debug, Default)]
struct Shared {
    open: AtomicUsize,
    /// Subscribers that have the last event.
    complete: AtomicUsize,
    deliveries: AtomicU64,
    closed: AtomicUsize,
    /// Why the first ended subscriber ended.
    why: Mutex<Option<String>>,
}

/// The results of all subscribers.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) subscribers: usize,
    pub(crate) deliveries: u64,
    pub(crate) events: u64,
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    pub(crate) anomalies: u64,
    /// Subscribers whose connection ended early, and why the first one did.
    pub(crate) closed: usize,
    pub(crate) why: Option<String>,
    /// From the first event's send time to the last arrival.
    pub(crate) elapsed: Duration,
    pub(crate) latencies: Latencies,
}

impl Crowd {
    /// Connects a subscriber to each path, and returns when all are accepted. Each should get `events`
    /// events.
    pub(crate) fn connect(
        address: SocketAddr,
        paths: &[String],
        events: u64,
        keep: Keep,
        patience: Duration,
    ) -> Result<Self, String> {
        // One thread, because the server needs the other core.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start a runtime: {error}"))?;
        let shared = Arc::new(Shared::default());
        let gate = Arc::new(Semaphore::new(AT_ONCE));
        let mut subscribers = Vec::with_capacity(paths.len());
        for (index, path) in paths.iter().enumerate() {
            let count = Arc::new(Mutex::new(Count::new(keep)));
            subscribers.push(count.clone());
            let subscriber = Subscriber {
                address,
                source: source(index),
                path: path.clone(),
                events,
                count,
                shared: shared.clone(),
                gate: gate.clone(),
            };
            runtime.spawn(subscriber.run());
        }
        let crowd = Self { runtime, shared, subscribers, events };
        let until = Instant::now() + patience;
        while crowd.shared.open.load(Ordering::Acquire) < paths.len() {
            crowd.fail_if_any_closed()?;
            if Instant::now() > until {
                let open = crowd.shared.open.load(Ordering::Acquire);
                return Err(format!("{open} of {} subscribers accepted in {patience:?}", paths.len()));
            }
            std::thread::sleep(LOOK);
        }
        Ok(crowd)
    }

    /// Waits until all subscribers have the last event, until nothing arrived for `quiet` after `over`, or
    /// for `patience`.
    pub(crate) fn wait(&self, mut over: impl FnMut() -> bool, quiet: Duration, patience: Duration) {
        let until = Instant::now() + patience;
        let mut seen = 0;
        let mut last = Instant::now();
        while Instant::now() < until {
            let gone =
                self.shared.complete.load(Ordering::Acquire) + self.shared.closed.load(Ordering::Acquire);
            if gone >= self.subscribers.len() {
                return;
            }
            let deliveries = self.shared.deliveries.load(Ordering::Relaxed);
            if deliveries != seen || !over() {
                seen = deliveries;
                last = Instant::now();
            }
            if last.elapsed() > quiet {
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Disconnects all subscribers and adds up their results.
    pub(crate) fn finish(self) -> Tally {
        // Only subscribers that have ended by now count as ended.
        let closed = self.shared.closed.load(Ordering::Acquire);
        let why = lock(&self.shared.why).take();
        self.runtime.shutdown_timeout(Duration::from_secs(5));
        let mut tally = Tally { subscribers: self.subscribers.len(), closed, why, ..Tally::default() };
        let (mut first, mut last) = (u64::MAX, 0);
        let mut micros = Vec::new();
        for count in &self.subscribers {
            let mut count = lock(count);
            count.end(self.events);
            tally.deliveries += count.deliveries;
            tally.events += count.events;
            tally.lost += count.lost;
            tally.repeated += count.repeated;
            tally.anomalies += count.anomalies;
            first = first.min(count.first_sent.unwrap_or(u64::MAX));
            last = last.max(count.last_arrival.unwrap_or(0));
            micros.append(&mut count.micros);
        }
        tally.elapsed = Duration::from_micros(last.saturating_sub(first));
        tally.latencies = Latencies::of(micros);
        tally
    }

    fn fail_if_any_closed(&self) -> Result<(), String> {
        if self.shared.closed.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let why = lock(&self.shared.why).take();
        Err(format!("a subscriber was not accepted: {}", why.unwrap_or_default()))
    }
}

impl Tally {
    /// Deliveries per second.
    pub(crate) fn rate(&self) -> f64 {
        self.deliveries as f64 / self.elapsed.as_secs_f64().max(1e-6)
    }

    /// Events of the agent per second, also merged ones.
    pub(crate) fn event_rate(&self) -> f64 {
        self.events as f64 / self.elapsed.as_secs_f64().max(1e-6)
    }
}

struct Subscriber {
    address: SocketAddr,
    source: Ipv4Addr,
    path: String,
    events: u64,
    count: Arc<Mutex<Count>>,
    shared: Arc<Shared>,
    gate: Arc<Semaphore>,
}

impl Subscriber {
    async fn run(self) {
        if let Err(why) = self.follow().await {
            lock(&self.shared.why).get_or_insert(why);
            self.shared.closed.fetch_add(1, Ordering::Release);
        }
    }

    async fn follow(&self) -> Result<(), String> {
        let mut gate = self.gate.acquire().await.ok();
        let socket = self.open().await.map_err(|error| format!("connect: {error}"))?;
        let mut stream = Stream::new();
        let mut complete = false;
        loop {
            socket.readable().await.map_err(|error| format!("wait: {error}"))?;
            let Some(read) = self.read(&socket, &mut stream)? else { continue };
            if gate.is_some() && stream.open() {
                gate = None;
                self.shared.open.fetch_add(1, Ordering::Release);
            }
            if !complete && read.reached {
                complete = true;
                self.shared.complete.fetch_add(1, Ordering::Release);
            }
            if read.length == READ {
                // More bytes wait here, but other subscribers have a turn first.
                tokio::task::yield_now().await;
            }
        }
    }

    async fn open(&self) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((self.source, 0)))?;
        let mut socket = socket.connect(self.address).await?;
        socket.set_nodelay(true)?;
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n\r\n",
            self.path, self.address
        );
        socket.write_all(request.as_bytes()).await?;
        Ok(socket)
    }

    fn read(&self, socket: &TcpStream, stream: &mut Stream) -> Result<Option<Read>, String> {
        BUFFER.with_borrow_mut(|buffer| {
            let length = match socket.try_read(buffer) {
                Ok(0) => return Err("the server closed the connection".to_owned()),
                Ok(length) => length,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(format!("read: {error}")),
            };
            let mut count = lock(&self.count);
            let before = count.deliveries;
            stream.feed(&buffer[..length], &mut count)?;
            self.shared.deliveries.fetch_add(count.deliveries - before, Ordering::Relaxed);
            Ok(Some(Read { length, reached: count.reached(self.events) }))
        })
    }
}

struct Read {
    length: usize,
    reached: bool,
}

fn source(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 1 + u8::try_from(index / PER_ADDRESS).unwrap_or(u8::MAX - 1))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
