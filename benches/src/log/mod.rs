//! `cargo xtask bench log`: appends to durable, appends to follower, fan-out.

mod load;
mod naive;
mod ours;
mod raw;

use crate::scratch::scratch;
use crate::{Bars, Latencies, Results, millis, print_table};
use load::Load;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The result of one cell.
pub(crate) struct Cell {
    pub(crate) sent: u64,
    pub(crate) elapsed: Duration,
    pub(crate) durable: Latencies,
    pub(crate) followed: Option<Latencies>,
    /// The time from the last append until everything was durable. A long time means that the log fell
    /// behind.
    pub(crate) drain: Duration,
}

impl Cell {
    fn rate(&self) -> f64 {
        self.sent as f64 / self.elapsed.as_secs_f64()
    }
}

/// Runs every cell and prints the bars, which are for cells of 10 s. `TURNSTREAM_BENCH_SECONDS` shortens
/// the cells.
pub fn run() -> ExitCode {
    let seconds = crate::seconds();
    let length = Duration::from_secs(seconds);
    let directory = match scratch("bench-log") {
        Ok(directory) => directory,
        Err(problem) => {
            eprintln!("bench log: {problem}");
            return ExitCode::FAILURE;
        }
    };
    println!(
        "{seconds} s per cell, deltas of 200 bytes, merging off, files below {}.\n",
        directory.path().display()
    );

    let mut rows = vec![header()];
    let mut bars = Bars::default();
    let mut results = Results::new("log", json!({ "seconds": seconds, "bytes": 200, "merging": false }));
    let offered = [(1, 2_000), (100, 20_000), (1_000, 50_000), (1_000, 100_000)];
    let mut at_50k = None;
    let mut at_100k = None;
    for (sessions, rate) in offered {
        let load = Load { sessions, rate, length };
        let raw = raw::run(&load, &cell_path(directory.path(), "raw", sessions, rate));
        let ours = ours::run(&load, &cell_path(directory.path(), "log", sessions, rate));
        rows.push(row("raw file", &load, &raw));
        rows.push(row("turnstream-log", &load, &ours));
        results.cell(as_json("raw file", &load, &raw));
        results.cell(as_json("turnstream-log", &load, &ours));
        match rate {
            50_000 => at_50k = Some((raw, ours)),
            100_000 => at_100k = Some(ours),
            _ => {}
        }
    }
    let naive = naive::run(length, &cell_path(directory.path(), "naive", 1, 0));
    let flat_out = ours::flat_out(length, &cell_path(directory.path(), "flat", 1_000, 0));
    rows.push(vec!["one row per commit".into(), "1".into(), "all it can".into(), format!("{:.0}", naive)]);
    rows.push(vec!["turnstream-log".into(), "1000".into(), "all it can".into(), format!("{:.0}", flat_out)]);
    results.cell(json!({ "what": "one row per commit", "sessions": 1, "durable_per_second": naive }));
    results.cell(json!({ "what": "turnstream-log", "sessions": 1_000, "durable_per_second": flat_out }));
    print_table(&rows);
    println!();

    if let Some((raw, ours)) = at_50k {
        bars.check("50,000 deltas/s over 1,000 sessions sustained", keeps_up(&ours, 50_000.0), &kept(&ours));
        let ratio = ours.durable.p99().as_secs_f64() / raw.durable.p99().as_secs_f64();
        bars.check("p99 to durable at most 5x the raw file's", ratio <= 5.0, &format!("{ratio:.1}x"));
    }
    if let Some(ours) = at_100k {
        bars.check("100,000 deltas/s without falling behind", keeps_up(&ours, 100_000.0), &kept(&ours));
    }
    let over = flat_out / naive;
    bars.check("at least 30x one row per commit", over >= 30.0, &format!("{over:.0}x"));
    fan_out(directory.path(), &mut bars, &mut results);
    let (warm, cold) = ours::snapshots(100_000, &directory.path().join("snapshots"));
    results.cell(json!({ "what": "snapshot", "warm_ms": millis(warm), "cold_ms": millis(cold) }));
    let millis = |duration: Duration| format!("{:.1} ms", millis(duration));
    bars.check(
        "snapshot of 100,000 events under 50 ms warm",
        warm < Duration::from_millis(50),
        &millis(warm),
    );
    bars.check("and under 500 ms after a restart", cold < Duration::from_millis(500), &millis(cold));
    results.write(&bars);
    bars.exit_code()
}

/// Deliveries to many followers of one session: none missing, none twice.
fn fan_out(directory: &Path, bars: &mut Bars, results: &mut Results) {
    println!();
    let mut rows =
        vec![["followers", "events", "deliveries/s", "missing", "twice"].map(str::to_owned).to_vec()];
    let mut total = 0;
    let mut wrong = 0;
    for (followers, events) in [(1, 400_000), (50, 10_000), (1_000, 600)] {
        let path = directory.join(format!("fan-{followers}"));
        let result = ours::fan_out(followers, events, &path);
        total += result.delivered;
        wrong += result.missing + result.twice;
        let per_second = result.delivered as f64 / result.elapsed.as_secs_f64();
        results.cell(json!({
            "what": "fan-out", "followers": followers, "events": events, "deliveries_per_second": per_second,
            "missing": result.missing, "twice": result.twice,
        }));
        rows.push(
            [followers as u64, events, per_second as u64, result.missing, result.twice]
                .map(|number| number.to_string())
                .to_vec(),
        );
    }
    print_table(&rows);
    println!();
    let paced = ours::paced_fan_out(50, 1_000, Duration::from_secs(5), &directory.join("paced"));
    bars.check(
        "50 followers of 1,000 events/s with zero loss",
        paced.missing + paced.twice == 0,
        &format!("{} delivered", paced.delivered),
    );
    bars.check(
        "1,000,000 deliveries, none missing, none twice",
        total >= 1_000_000 && wrong == 0,
        &format!("{total} delivered, {wrong} wrong"),
    );
}

fn keeps_up(cell: &Cell, rate: f64) -> bool {
    cell.rate() >= 0.99 * rate && cell.drain < Duration::from_millis(500)
}

fn kept(cell: &Cell) -> String {
    format!("{:.0}/s, the last durable {:.0} ms after it came", cell.rate(), cell.drain.as_secs_f64() * 1e3)
}

fn header() -> Vec<String> {
    let columns = [
        "what",
        "sessions",
        "offered/s",
        "durable/s",
        "durable p50 ms",
        "p99",
        "p99.9",
        "follower p50 ms",
        "p99",
    ];
    columns.map(str::to_owned).to_vec()
}

fn row(what: &str, load: &Load, cell: &Cell) -> Vec<String> {
    let millis = |duration: Duration| format!("{:.2}", duration.as_secs_f64() * 1e3);
    let mut row = vec![
        what.to_owned(),
        load.sessions.to_string(),
        load.rate.to_string(),
        format!("{:.0}", cell.rate()),
        millis(cell.durable.p50()),
        millis(cell.durable.p99()),
        millis(cell.durable.p999()),
    ];
    if let Some(followed) = &cell.followed {
        row.extend([millis(followed.p50()), millis(followed.p99())]);
    }
    row
}

fn as_json(what: &str, load: &Load, cell: &Cell) -> Value {
    json!({
        "what": what,
        "sessions": load.sessions,
        "offered_per_second": load.rate,
        "durable_per_second": cell.rate(),
        "durable_p50_ms": millis(cell.durable.p50()),
        "durable_p99_ms": millis(cell.durable.p99()),
        "durable_p999_ms": millis(cell.durable.p999()),
        "follower_p50_ms": cell.followed.as_ref().map(|followed| millis(followed.p50())),
        "follower_p99_ms": cell.followed.as_ref().map(|followed| millis(followed.p99())),
        "drain_ms": millis(cell.drain),
    })
}

fn cell_path(directory: &Path, what: &str, sessions: usize, rate: u64) -> PathBuf {
    directory.join(format!("{what}-{sessions}-{rate}"))
}
