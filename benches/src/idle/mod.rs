//! `cargo xtask bench idle`: creates sessions in a running gateway, then restarts it.

use crate::gateway::http;
use crate::gateway::ours::{Ours, Pieces};
use crate::gateway::process::{self, Server, Usage};
use crate::gateway::side::Side;
use crate::scratch::scratch;
use crate::{Bars, Results, print_table};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Sessions by default. The bars are for [`FULL`].
const SOME: usize = 10_000;
const FULL: usize = 100_000;
/// Clients that create sessions at the same time.
const CLIENTS: usize = 16;
/// Resident memory with that many sessions.
const MEMORY: u64 = 600_000_000;
/// From the start of the process to its first answer.
const RESTART: Duration = Duration::from_secs(4);
const SHUTDOWN: Duration = Duration::from_secs(5);
/// How long the gateway is left alone before its memory is measured again.
const QUIET: Duration = Duration::from_secs(20);
/// How often the list is asked for.
const LISTS: usize = 5;
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the benchmark. The first word is the number of sessions.
pub fn run() -> ExitCode {
    let sessions = std::env::args().nth(1).map_or(Ok(SOME), |word| word.parse());
    let Ok(sessions) = sessions else {
        eprintln!("bench idle: give a number of sessions, for example {FULL}");
        return ExitCode::FAILURE;
    };
    match measure(sessions) {
        Ok(bars) => bars.exit_code(),
        Err(problem) => {
            eprintln!("bench idle: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn measure(sessions: usize) -> Result<Bars, String> {
    let directory = scratch("idle-")?;
    process::end_with_us(directory.path())?;
    let ours = Ours { program: release_binary(), pieces: Pieces::Merged };
    let server = ours.start(directory.path())?;
    let begun = Instant::now();
    create(&ours, &server, sessions)?;
    let created = begun.elapsed();
    let busy = server.usage();
    std::thread::sleep(QUIET);
    let (live, awake) = (server.usage(), metric(&server, "turnstream_sessions_awake")?);
    let stopped = server.stop()?;
    let server = ours.start(directory.path())?;
    let (restart, started) = (server.start, server.usage());
    let found = metric(&server, "turnstream_sessions{agent=\"scripted\",status=\"idle\"}")?;
    let (all, page) = (list(&server, "/v1/sessions")?, list(&server, "/v1/sessions?limit=50")?);
    let opencode = opencode(&server)?;
    drop(server);
    if found != sessions as f64 {
        return Err(format!("{sessions} sessions were created, and {found} are there after the restart"));
    }
    println!("{sessions} sessions, created in {:.0} s; {awake} keepers are left\n", created.as_secs_f64());
    let mut table = vec![["moment", "resident MB", "peak MB"].map(str::to_owned).to_vec()];
    let mut results = Results::new("idle", json!({ "sessions": sessions }));
    for (moment, Usage { resident, peak, .. }) in
        [("all are created", busy), ("20 s later", live), ("after the restart", started)]
    {
        let megabytes = |bytes: u64| format!("{:.0}", bytes as f64 / 1e6);
        table.push(vec![moment.to_owned(), megabytes(resident), megabytes(peak)]);
        results.cell(json!({ "moment": moment, "resident": resident, "peak": peak }));
    }
    print_table(&table);
    let (all, page) = (all.as_secs_f64() * 1e3, page.as_secs_f64() * 1e3);
    println!("\nGET /v1/sessions: {all:.1} ms for all, {page:.1} ms for the 50 that were active last\n");
    results.cell(json!({ "moment": "list", "all_ms": all, "page_ms": page }));
    let mut table = vec![["opencode's API", "ms"].map(str::to_owned).to_vec()];
    for (what, took) in opencode {
        let milliseconds = took.as_secs_f64() * 1e3;
        table.push(vec![what.to_owned(), format!("{milliseconds:.1}")]);
        results.cell(json!({ "moment": "opencode", "what": what, "ms": milliseconds }));
    }
    print_table(&table);
    println!();
    if sessions != FULL {
        println!("The bars are for {FULL} sessions.");
    }
    let mut bars = Bars::default();
    let memory = format!("{:.0} MB", live.peak as f64 / 1e6);
    bars.check("peak of resident memory below 600 MB", live.peak < MEMORY, &memory);
    let took = |duration: Duration| format!("{:.2} s", duration.as_secs_f64());
    bars.check("restart below 4 s", restart < RESTART, &took(restart));
    bars.check("shutdown below 5 s", stopped < SHUTDOWN, &took(stopped));
    results.write(&bars);
    Ok(bars)
}

/// Creates sessions with several clients.
fn create(ours: &Ours, server: &Server, sessions: usize) -> Result<(), String> {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let client = || {
            while next.fetch_add(1, Ordering::Relaxed) < sessions {
                ours.session(server, 0)?;
            }
            Ok(())
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        let mut ended = clients.into_iter().map(|client| client.join());
        ended.try_for_each(|ended| ended.unwrap_or_else(|_| Err("a client panicked".to_owned())))
    })
}

/// How long a list of sessions takes, the best of a few.
fn list(server: &Server, path: &str) -> Result<Duration, String> {
    let page = |_| {
        let begun = Instant::now();
        let (status, _) = http::request(server.address, "GET", path, "", PATIENCE)?;
        if status == 200 { Ok(begun.elapsed()) } else { Err(format!("GET {path}: status {status}")) }
    };
    let times: Vec<Duration> = (0..LISTS).map(page).collect::<Result<_, String>>()?;
    Ok(times.into_iter().min().unwrap_or_default())
}

/// How long requests of opencode's clients take.
fn opencode(server: &Server) -> Result<Vec<(&'static str, Duration)>, String> {
    let newest = "/opencode/session?limit=1";
    let (_, listed) = http::request(server.address, "GET", newest, "", PATIENCE)?;
    let listed: Value = serde_json::from_slice(&listed).map_err(|error| format!("{newest}: {error}"))?;
    let one = format!("/opencode/session/{}", listed[0]["id"].as_str().unwrap_or_default());
    Ok(vec![
        ("GET /session, 100 that were active last", list(server, "/opencode/session")?),
        ("the same without subagents", list(server, "/opencode/session?roots=true")?),
        ("GET /session/{id}", list(server, &one)?),
        ("GET /session/status", list(server, "/opencode/session/status")?),
        ("GET /permission", list(server, "/opencode/permission")?),
        ("GET /provider", list(server, "/opencode/provider")?),
    ])
}

/// One sample of the metrics page.
fn metric(server: &Server, name: &str) -> Result<f64, String> {
    let (_, page) = http::request(server.address, "GET", "/metrics", "", PATIENCE)?;
    let page = String::from_utf8_lossy(&page);
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.ok_or_else(|| format!("the metrics have no {name}"))
}

/// The binary that `cargo xtask bench` has built.
pub(crate) fn release_binary() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/turnstream")
}
