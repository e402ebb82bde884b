//! Measuring and printing for the benchmarks. Contenders take turns, the best time of each counts, and
//! every bar is printed as met or missed.

pub mod delete;
pub mod gateway;
pub mod history;
pub mod idle;
mod latencies;
pub mod llm;
pub mod log;
pub mod proxy;
mod results;
mod scratch;
pub mod search;
pub mod shutdown;

pub use latencies::Latencies;
pub use results::Results;

use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// One implementation of the work. It returns a count that must always be the same, so that nothing is
/// optimised away.
pub struct Contender<'a> {
    name: &'static str,
    bytes: usize,
    run: Box<dyn FnMut() -> usize + 'a>,
}

impl<'a> Contender<'a> {
    /// A contender with its name and its input size in bytes.
    pub fn new(name: &'static str, bytes: usize, run: impl FnMut() -> usize + 'a) -> Self {
        Self { name, bytes, run: Box::new(run) }
    }
}

/// The best time of one contender.
#[derive(Debug, Clone, Copy)]
pub struct Best {
    /// The contender's name.
    pub name: &'static str,
    /// Its input size in bytes.
    pub bytes: usize,
    /// Its shortest run.
    pub time: Duration,
}

impl Best {
    /// Megabytes per second.
    pub fn speed(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64() / 1e6
    }
}

/// Runs every contender `rounds` times in turn. On a shared machine a slow moment then affects all of them,
/// and the best run is the least disturbed one.
pub fn best_of(rounds: usize, mut contenders: Vec<Contender<'_>>) -> Vec<Best> {
    let mut bests: Vec<Best> =
        contenders.iter().map(|c| Best { name: c.name, bytes: c.bytes, time: Duration::MAX }).collect();
    let mut counts = vec![None; contenders.len()];
    for _ in 0..rounds {
        for ((contender, best), before) in contenders.iter_mut().zip(&mut bests).zip(&mut counts) {
            let start = Instant::now();
            let count = std::hint::black_box((contender.run)());
            best.time = best.time.min(start.elapsed());
            assert_eq!(*before.get_or_insert(count), count, "{} does not count the same twice", best.name);
        }
    }
    bests
}

/// Prints rows in columns: text to the left, numbers to the right.
pub fn print_table(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| {
            if cell.parse::<f64>().is_ok() { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

/// The bars of a benchmark, and whether they were met.
#[derive(Debug, Default)]
pub struct Bars {
    missed: usize,
    checked: Vec<Value>,
}

impl Bars {
    /// Prints one bar.
    pub fn check(&mut self, what: &str, met: bool, measured: &str) {
        println!("{:<7}  {what}: {measured}", if met { "met" } else { "NOT MET" });
        self.missed += usize::from(!met);
        self.checked.push(json!({ "bar": what, "met": met, "measured": measured }));
    }

    /// Every bar that was checked, in order.
    pub fn as_json(&self) -> &[Value] {
        &self.checked
    }

    /// Failure if a bar was missed.
    pub fn exit_code(self) -> ExitCode {
        if self.missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// The length of a cell: 10 seconds, for which the bars are, or `TURNSTREAM_BENCH_SECONDS`.
pub fn seconds() -> u64 {
    let said = std::env::var("TURNSTREAM_BENCH_SECONDS").ok().and_then(|text| text.parse().ok());
    said.unwrap_or(10).max(1)
}

/// A duration as milliseconds.
pub fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A file below `fixtures/`; the benchmark cannot run without it.
pub fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}
