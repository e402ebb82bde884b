//! `cargo xtask bench gateway`: compares `turnstream serve` with sandbox-agent.
//!
//! Both run as processes on loopback, each with an agent that sends the same events at the same rate. This
//! process is all the subscribers.

mod cells;
mod count;
mod crowd;
pub(crate) mod http;
pub(crate) mod ours;
mod peer;
pub(crate) mod process;
mod report;
pub(crate) mod side;
pub mod stamp;

use crate::scratch::scratch;
use crate::seconds;
use cells::{Place, Played};
use count::Keep;
use ours::{Ours, Pieces};
use peer::Peer;
use report::Report;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The bytes of text per event.
const BYTES: usize = 100;
/// The length of a run that the bars are for.
const FULL: u64 = 10;
/// How often both sides run a cell, in turn. The median counts, so that a slow moment affects both.
const ROUNDS: usize = 3;
/// Descriptors besides the sockets: files of the log, pipes, the runtime.
const SPARE_FILES: u64 = 500;

/// What an agent sends in one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// The number of events.
    pub events: u64,
    /// The bytes of text per event.
    pub bytes: usize,
    /// Events per second; `None` is full speed.
    pub rate: Option<u64>,
}

impl Load {
    /// The nominal length; zero for a burst.
    pub(crate) fn length(&self) -> Duration {
        self.rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(self.events as f64 / rate as f64))
    }
}

/// Runs every cell and prints the bars.
///
/// `TURNSTREAM_BENCH_SECONDS` makes everything smaller. With the word `ours` or `peer` only that side runs.
pub fn run() -> ExitCode {
    let word = std::env::args().nth(1);
    let measured = Sides::find(word.as_deref()).and_then(|sides| measure(&sides));
    match measured {
        Ok(report) => report.finish(),
        Err(problem) => {
            eprintln!("bench gateway: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// The compared gateways.
struct Sides {
    ours: Option<Ours>,
    peer: Option<Peer>,
}

impl Sides {
    fn find(word: Option<&str>) -> Result<Self, String> {
        let (ours, peer) = match word {
            None => (true, true),
            Some("ours") => (true, false),
            Some("peer") => (false, true),
            Some(other) => return Err(format!("{other:?} is neither \"ours\" nor \"peer\"")),
        };
        let here = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let here = here.parent().unwrap_or(Path::new(".")).to_owned();
        let built = |name: &str| there(here.join(name), "`cargo xtask bench gateway` builds it");
        let ours = ours.then(|| built("turnstream").map(|program| Ours { program, pieces: Pieces::Apart }));
        let ours = ours.transpose()?;
        let peer = peer.then(|| {
            let program = std::env::var_os("TURNSTREAM_BENCH_PEER").unwrap_or_default();
            let program = there(PathBuf::from(program), "`cargo xtask bench gateway` installs it")?;
            Ok::<_, String>(Peer { program, agent: built("bench-acp-agent")? })
        });
        Ok(Self { ours, peer: peer.transpose()? })
    }

    /// One session with subscribers, for both sides in turn.
    fn in_turn(&self, place: &Place, subscribers: usize, load: &Load, keep: Keep) -> Result<Both, String> {
        let rounds = if seconds() < FULL { 1 } else { ROUNDS };
        let mut both = Both::default();
        for _ in 0..rounds {
            if let Some(ours) = &self.ours {
                both.ours.push(cells::play(ours, place, (1, subscribers), load, keep)?);
            }
            if let Some(peer) = &self.peer {
                both.peer.push(cells::play(peer, place, (1, subscribers), load, keep)?);
            }
        }
        Ok(both)
    }
}

/// The rounds of a cell for both sides.
#[derive(Debug, Default)]
struct Both {
    ours: Vec<Played>,
    peer: Vec<Played>,
}

fn measure(sides: &Sides) -> Result<Report, String> {
    let idle = scaled(10_000);
    process::raise_open_files(idle + SPARE_FILES)?;
    let directory = scratch("bench-gateway")?;
    process::end_with_us(directory.path())?;
    let place = Place::new(directory.path());
    println!(
        "Events of {BYTES} bytes of text, {} s per cell, files below {}. turnstream keeps every event on disk before it\n\
         delivers it and plays a scripted agent inside its process; sandbox-agent keeps a ring in memory and reads an\n\
         ACP agent's pipe. A latency is from the agent's send to the event parsed in the subscriber. Each event of the\n\
         agent is one delivery, but in the row \"merged\", where turnstream may make one of those that wait for the disk.\n",
        seconds(),
        directory.path().display()
    );
    let mut report = Report::new(seconds(), BYTES);

    let times = scaled(10).max(3) as usize;
    if let Some(ours) = &sides.ours {
        report.at_rest(true, cells::start(ours, &place, times)?, cells::at_rest(ours, &place)?);
    }
    if let Some(peer) = &sides.peer {
        report.at_rest(false, cells::start(peer, &place, times)?, cells::at_rest(peer, &place)?);
    }
    for rate in [100, 1_000] {
        let load = Load { events: rate * seconds(), bytes: BYTES, rate: Some(rate) };
        report.paced(rate, sides.in_turn(&place, 50, &load, Keep::Latencies)?);
    }
    let load = Load { events: scaled(100_000), bytes: BYTES, rate: None };
    report.burst(load.events, sides.in_turn(&place, 50, &load, Keep::Totals)?);
    if let Some(ours) = &sides.ours {
        let merging = Ours { program: ours.program.clone(), pieces: Pieces::Merged };
        report.merged(load.events, cells::play(&merging, &place, (1, 50), &load, Keep::Totals)?);
        let load = Load { events: 100 * seconds(), bytes: BYTES, rate: Some(100) };
        report.many(cells::play(ours, &place, (200, 5), &load, Keep::Latencies)?);
        report.idle(cells::idle(ours, &place, idle as usize)?);
    }
    Ok(report)
}

/// Scales a number down for a short run.
fn scaled(count: u64) -> u64 {
    (count * seconds().min(FULL) / FULL).max(1)
}

fn there(path: PathBuf, way_out: &str) -> Result<PathBuf, String> {
    if path.is_file() { Ok(path) } else { Err(format!("there is no {}; {way_out}", path.display())) }
}
