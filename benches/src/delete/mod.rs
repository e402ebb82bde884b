//! Builds a large log, then deletes and trims sessions while others write.

mod build;
mod live;

use crate::scratch::scratch;
use crate::{Bars, Latencies, Results, millis, print_table};
use build::{Built, Extent, build, large, usual};
use live::Crowd;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use turnstream_log::{Keep, Log, Options};
use turnstream_model::id::SessionId;

/// About a million events, and 1.5 GB of database.
const FULL: Extent = Extent { sessions: 1_000, turns: 10, large: 300 };
const QUICK: Extent = Extent { sessions: 60, turns: 10, large: 100 };
/// How long the live sessions write alone.
const ALONE: Duration = Duration::from_secs(20);
/// Sessions that one round of retention trims.
const TRIMMED: u64 = 5;
/// How long the gateway waits for the removal before it answers.
const ANSWER: Duration = Duration::from_secs(5);
/// By how much the 99th percentile of appends may rise during a removal.
const SLOWER: f64 = 3.0;

/// What is removed.
enum Removal {
    Nothing,
    Delete(SessionId),
    /// All turns but one of these sessions.
    Trim(std::ops::Range<u64>),
}

/// The result of a removal.
struct Cell {
    name: &'static str,
    /// Until no reader finds it.
    answered: Duration,
    /// Until no file contains it.
    gone: Duration,
    appends: Latencies,
}

/// Runs the benchmark.
pub fn run() -> ExitCode {
    let extent = if std::env::args().any(|word| word == "--quick") { QUICK } else { FULL };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.to_string()),
    };
    match runtime.block_on(measure(extent)) {
        Ok(bars) => bars.exit_code(),
        Err(problem) => failed(&problem),
    }
}

fn failed(problem: &str) -> ExitCode {
    eprintln!("bench delete: {problem}");
    ExitCode::FAILURE
}

async fn measure(extent: Extent) -> Result<Bars, String> {
    let directory = scratch("delete-")?;
    let begun = Instant::now();
    let Built { events, bytes } = build(directory.path(), extent).await?;
    let before = size(directory.path())?;
    println!(
        "{events} events in {} sessions, {} MB of text: log.db has {} MB, built in {:.0} s\n",
        extent.sessions + 1,
        bytes / 1_000_000,
        before / 1_000_000,
        begun.elapsed().as_secs_f64()
    );
    let log = Log::open(directory.path(), &Options::default()).map_err(|error| error.to_string())?.log;
    let mut crowd = Crowd::new(&log).await?;
    let mut cells = Vec::new();
    let steps = [
        ("nothing", Removal::Nothing),
        ("a session, the first since the start", Removal::Delete(usual(3))),
        ("a session", Removal::Delete(usual(extent.sessions - 7))),
        ("a large session", Removal::Delete(large())),
        ("a session after it", Removal::Delete(usual(5))),
        ("9 of 10 turns of 5 sessions", Removal::Trim(10..10 + TRIMMED)),
        ("nothing, again", Removal::Nothing),
    ];
    for (name, removal) in steps {
        let cell;
        (crowd, cell) = cell_of(&log, crowd, name, &removal).await?;
        cells.push(cell);
    }
    let after = size(directory.path())?;
    log.close().await;
    let about = json!({"events": events, "text_bytes": bytes, "bytes_before": before, "bytes_after": after});
    Ok(report(&cells, Results::new("delete", about), before, after))
}

async fn cell_of(
    log: &Log,
    crowd: Crowd,
    name: &'static str,
    removal: &Removal,
) -> Result<(Crowd, Cell), String> {
    let talking = crowd.talk();
    let begun = Instant::now();
    match removal {
        Removal::Nothing => tokio::time::sleep(ALONE).await,
        Removal::Delete(id) => log.delete(id).await.map_err(|error| error.to_string())?,
        Removal::Trim(sessions) => {
            for number in sessions.clone() {
                let keep = Keep { turns: Some(1), ..Keep::default() };
                log.trim(&usual(number), &keep).await.map_err(|error| error.to_string())?;
            }
        }
    }
    let answered = begun.elapsed();
    log.erased().await.map_err(|error| error.to_string())?;
    let gone = begun.elapsed();
    let (crowd, appends) = talking.end().await?;
    println!("{name}: {:.2} s", gone.as_secs_f64());
    Ok((crowd, Cell { name, answered, gone, appends }))
}

fn report(cells: &[Cell], mut results: Results, before: u64, after: u64) -> Bars {
    let heading = ["removed", "answered ms", "gone s", "appends p50 ms", "p99 ms", "max ms"];
    let mut table = vec![heading.map(str::to_owned).to_vec()];
    for Cell { name, answered, gone, appends } in cells {
        table.push(vec![
            (*name).to_owned(),
            format!("{:.1}", millis(*answered)),
            format!("{:.2}", gone.as_secs_f64()),
            format!("{:.2}", millis(appends.p50())),
            format!("{:.2}", millis(appends.p99())),
            format!("{:.2}", millis(appends.max())),
        ]);
        results.cell(json!({
            "removed": name,
            "answered_ms": millis(*answered),
            "gone_ms": millis(*gone),
            "p50_ms": millis(appends.p50()),
            "p99_ms": millis(appends.p99()),
            "max_ms": millis(appends.max()),
        }));
    }
    println!();
    print_table(&table);
    println!("\nlog.db: {before} bytes before, {after} after: free pages are used again\n");
    let mut bars = Bars::default();
    let alone = cells.iter().filter(|cell| cell.name.starts_with("nothing")).map(|cell| cell.appends.p99());
    let alone = alone.max().unwrap_or_default();
    let removing = cells.iter().filter(|cell| !cell.name.starts_with("nothing"));
    let usual = removing.clone().find(|cell| cell.name == "a session").map(|cell| cell.gone);
    let usual = usual.unwrap_or_default();
    let measured = format!("{:.2} s", usual.as_secs_f64());
    bars.check("a deleted session is out of all files before the answer, in 5 s", usual < ANSWER, &measured);
    let slowest = removing.map(|cell| cell.appends.p99()).max().unwrap_or_default();
    let ratio = slowest.as_secs_f64() / alone.as_secs_f64().max(1e-6);
    let measured = format!("{ratio:.2} ({:.2} ms, {:.2} ms alone)", millis(slowest), millis(alone));
    bars.check("p99 of appends beside a removal is at most 3 times that without", ratio <= SLOWER, &measured);
    results.write(&bars);
    bars
}

fn size(path: &Path) -> Result<u64, String> {
    std::fs::metadata(path.join("log.db")).map(|file| file.len()).map_err(|error| error.to_string())
}
