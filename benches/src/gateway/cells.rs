//! The cells of the benchmark. Each starts a server with new files, measures, and ends it.

use super::Load;
use super::count::Keep;
use super::crowd::{Crowd, Tally};
use super::process::{Server, Usage};
use super::side::{Session, Side};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The time limit for connecting all subscribers.
const CONNECT: Duration = Duration::from_secs(60);
/// The time limit after the nominal length of a load.
const SLACK: Duration = Duration::from_secs(150);
/// The time between a start and the measurement of an idle server's memory.
const SETTLE: Duration = Duration::from_secs(2);
/// Threads that send prompts.
const SENDERS: usize = 16;
/// The sessions of the idle subscribers.
const IDLE_SESSIONS: usize = 100;

/// The folder of the cells' files.
#[derive(Debug)]
pub(crate) struct Place {
    folder: PathBuf,
    next: AtomicUsize,
}

/// The result of a load.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) tally: Tally,
    /// The CPU time of the server's process during the load.
    pub(crate) cpu: Duration,
    pub(crate) usage: Usage,
}

/// The cost of idle subscribers.
#[derive(Debug)]
pub(crate) struct Idle {
    pub(crate) subscribers: usize,
    /// Usage before the subscribers, with the sessions.
    pub(crate) before: Usage,
    pub(crate) after: Usage,
    /// The result of one event to each at the end, which proves that they are connected.
    pub(crate) tally: Tally,
}

impl Place {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), next: AtomicUsize::new(0) }
    }

    fn fresh(&self, side: &str) -> Result<PathBuf, String> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.join(format!("{side}-{number}"));
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        Ok(folder)
    }
}

/// The median time from start to the first healthy answer.
pub(crate) fn start<S: Side>(side: &S, place: &Place, times: usize) -> Result<Duration, String> {
    let mut starts = Vec::with_capacity(times);
    for _ in 0..times {
        starts.push(side.start(&place.fresh(S::NAME)?)?.start);
    }
    starts.sort_unstable();
    starts.get(times / 2).copied().ok_or_else(|| "no start was measured".to_owned())
}

/// The resource use of an idle server.
pub(crate) fn at_rest<S: Side>(side: &S, place: &Place) -> Result<Usage, String> {
    let server = side.start(&place.fresh(S::NAME)?)?;
    std::thread::sleep(SETTLE);
    Ok(server.usage())
}

/// The same load in several sessions, with several subscribers each.
pub(crate) fn play<S: Side>(
    side: &S,
    place: &Place,
    (sessions, each): (usize, usize),
    load: &Load,
    keep: Keep,
) -> Result<Played, String> {
    let server = side.start(&place.fresh(S::NAME)?)?;
    let sessions = make(side, &server, sessions)?;
    let crowd = Crowd::connect(server.address, &paths(&sessions, each), load.events, keep, CONNECT)?;
    let before = server.usage();
    prompt_all(side, &server, &sessions, load, &crowd)?;
    let usage = server.usage();
    let cpu = usage.cpu.saturating_sub(before.cpu);
    Ok(Played { tally: crowd.finish(), cpu, usage })
}

/// Idle subscribers, and then one event for each.
pub(crate) fn idle<S: Side>(side: &S, place: &Place, subscribers: usize) -> Result<Idle, String> {
    let server = side.start(&place.fresh(S::NAME)?)?;
    let sessions = make(side, &server, IDLE_SESSIONS.min(subscribers))?;
    let before = server.usage();
    let load = Load { events: 1, bytes: 100, rate: None };
    let paths = paths(&sessions, subscribers / sessions.len().max(1));
    let crowd = Crowd::connect(server.address, &paths, load.events, Keep::Totals, CONNECT)?;
    std::thread::sleep(SETTLE);
    let after = server.usage();
    prompt_all(side, &server, &sessions, &load, &crowd)?;
    Ok(Idle { subscribers: paths.len(), before, after, tally: crowd.finish() })
}

fn make<S: Side>(side: &S, server: &Server, sessions: usize) -> Result<Vec<Session>, String> {
    (0..sessions).map(|number| side.session(server, number)).collect()
}

fn paths(sessions: &[Session], each: usize) -> Vec<String> {
    sessions.iter().flat_map(|session| std::iter::repeat_n(session.events.clone(), each)).collect()
}

/// Sends every prompt, and waits for the subscribers.
fn prompt_all<S: Side>(
    side: &S,
    server: &Server,
    sessions: &[Session],
    load: &Load,
    crowd: &Crowd,
) -> Result<(), String> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let prompts = scope.spawn(|| {
            let sent = prompt_at_once(side, server, sessions, load);
            over.store(true, Ordering::Release);
            sent
        });
        crowd.wait(|| over.load(Ordering::Acquire), S::QUIET, load.length() + SLACK);
        prompts.join().map_err(|_| "the sender of the prompts panicked".to_owned())?
    })
}

/// Sends prompts in parallel: a prompt is answered when it is durable, so sequential prompts would start
/// too late.
fn prompt_at_once<S: Side>(
    side: &S,
    server: &Server,
    sessions: &[Session],
    load: &Load,
) -> Result<(), String> {
    std::thread::scope(|scope| {
        let senders: Vec<_> = sessions
            .chunks(sessions.len().div_ceil(SENDERS).max(1))
            .map(|some| {
                scope.spawn(|| some.iter().try_for_each(|session| side.prompt(server, session, load)))
            })
            .collect();
        senders
            .into_iter()
            .try_for_each(|sender| sender.join().map_err(|_| "a sender of prompts panicked".to_owned())?)
    })
}
