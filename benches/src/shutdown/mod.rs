//! `cargo xtask bench shutdown`: fills the memory of a gateway with open turns, then stops it.

use crate::gateway::http;
use crate::gateway::ours::{Ours, Pieces, post};
use crate::gateway::process::{self, Server};
use crate::gateway::side::Side;
use crate::idle::release_binary;
use crate::scratch::scratch;
use crate::{Bars, Results};
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Megabytes by default. The bar is for [`FULL`].
const SOME: u64 = 300;
const FULL: u64 = 3_000;
/// Pieces of text in one turn: many small ones, which take longest to free.
const PIECES: u64 = 20_000;
const SHUTDOWN: Duration = Duration::from_secs(5);
/// The last text of each turn.
const FULL_NOW: &str = "full-now";
/// How long one turn may take to play.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the benchmark. The first word is the number of megabytes.
pub fn run() -> ExitCode {
    let megabytes = std::env::args().nth(1).map_or(Ok(SOME), |word| word.parse());
    let Ok(megabytes) = megabytes else {
        eprintln!("bench shutdown: give a number of megabytes, for example {FULL}");
        return ExitCode::FAILURE;
    };
    match measure(megabytes) {
        Ok(bars) => bars.exit_code(),
        Err(problem) => {
            eprintln!("bench shutdown: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn measure(megabytes: u64) -> Result<Bars, String> {
    let directory = scratch("shutdown-")?;
    process::end_with_us(directory.path())?;
    let ours = Ours { program: release_binary(), pieces: Pieces::Merged };
    let server = ours.start(directory.path())?;
    let sessions = fill(&ours, &server, megabytes * 1_000_000)?;
    let resident = server.usage().resident;
    let stopped = server.stop()?;
    println!("{sessions} sessions with an open turn, {:.0} MB resident\n", resident as f64 / 1e6);
    if megabytes != FULL {
        println!("The bar is for {FULL} MB.");
    }
    let mut bars = Bars::default();
    bars.check("shutdown below 5 s", stopped < SHUTDOWN, &format!("{:.2} s", stopped.as_secs_f64()));
    let mut results = Results::new("shutdown", json!({ "megabytes": megabytes }));
    let seconds = stopped.as_secs_f64();
    results.cell(json!({ "sessions": sessions, "resident": resident, "shutdown_s": seconds }));
    results.write(&bars);
    Ok(bars)
}

/// Opens turns with many pieces of output until this much is resident. Returns how many sessions it took.
fn fill(ours: &Ours, server: &Server, bytes: u64) -> Result<u64, String> {
    let output: Vec<String> = (0..PIECES).map(|number| format!("line {number} of a tool")).collect();
    let (tool, last) = (json!({ "do": "tool", "output": output }), json!({ "do": "text", "text": FULL_NOW }));
    let text = json!({ "script": [tool, last, { "do": "stall" }], "pace_ms": 0 }).to_string();
    let prompt = json!({ "content": [{ "type": "text", "text": text }] });
    let mut sessions = 0;
    while server.usage().resident < bytes {
        let session = ours.session(server, 0)?;
        post(server, &session.prompts, &prompt, 202)?;
        wait_until_full(server, &session.events.replace("/events", "/items?limit=1"))?;
        sessions += 1;
    }
    Ok(sessions)
}

/// Waits for the last text of the turn.
fn wait_until_full(server: &Server, items: &str) -> Result<(), String> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let (_, page) = http::request(server.address, "GET", items, "", PATIENCE)?;
        if String::from_utf8_lossy(&page).contains(&format!("\"text\":\"{FULL_NOW}\"")) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(format!("a turn took longer than {PATIENCE:?}"))
}
