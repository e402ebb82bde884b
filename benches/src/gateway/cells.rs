//! The cells: each starts a server of its own on new files, measures, and ends it.

use super::Load;
use super::count::Keep;
use super::crowd::{Crowd, Tally};
use super::process::{Server, Usage};
use super::side::{Session, Side};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// For a crowd to connect.
const CONNECT: Duration = Duration::from_secs(60);
/// For everything behind the time that a load takes by itself.
const SLACK: Duration = Duration::from_secs(150);
/// Between a start and the look at the memory of a server that has nothing to do.
const SETTLE: Duration = Duration::from_secs(2);
/// Threads that send prompts.
const SENDERS: usize = 16;
/// Sessions that the idle subscribers are spread over.
const IDLE_SESSIONS: usize = 100;

/// Where the cells keep their files.
#[derive(Debug)]
pub(crate) struct Place {
    folder: PathBuf,
    next: AtomicUsize,
}

/// What a load through a server came to.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) tally: Tally,
    /// CPU time of the server's process while it lasted.
    pub(crate) cpu: Duration,
    pub(crate) usage: Usage,
}

/// What subscribers that get nothing cost.
#[derive(Debug)]
pub(crate) struct Idle {
    pub(crate) subscribers: usize,
    /// Before any of them came, with the sessions there.
    pub(crate) before: Usage,
    pub(crate) after: Usage,
    /// One event to each at the end, as a proof that they are there.
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

/// From the start of the process to the first 200 of its health, the median of several.
pub(crate) fn start<S: Side>(side: &S, place: &Place, times: usize) -> Result<Duration, String> {
    let mut starts = Vec::with_capacity(times);
    for _ in 0..times {
        starts.push(side.start(&place.fresh(S::NAME)?)?.start);
    }
    starts.sort_unstable();
    starts.get(times / 2).copied().ok_or_else(|| "no start was measured".to_owned())
}

/// What a server uses that nobody has asked for anything.
pub(crate) fn at_rest<S: Side>(side: &S, place: &Place) -> Result<Usage, String> {
    let server = side.start(&place.fresh(S::NAME)?)?;
    std::thread::sleep(SETTLE);
    Ok(server.usage())
}

/// The same load in each of so many sessions, with so many subscribers each.
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

/// Subscribers that get nothing, and then one event each.
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

/// Sends every prompt, and returns when the crowd has what it will get.
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

/// A prompt is answered when it is durable: one after the other, many sessions would begin at many times.
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
