//! The results of a run as JSON: `benches/results/<name>.json`.

use crate::Bars;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The cells of one run, in the order in which they were measured.
#[derive(Debug)]
pub struct Results {
    bench: &'static str,
    about: Value,
    cells: Vec<Value>,
}

impl Results {
    /// Starts a run. `about` has what all cells share: seconds, sizes, versions.
    pub fn new(bench: &'static str, about: Value) -> Self {
        Self { bench, about, cells: Vec::new() }
    }

    /// Adds an object.
    pub fn cell(&mut self, cell: Value) {
        self.cells.push(cell);
    }

    /// Writes the file and prints its path. An error is printed and does not fail the run.
    pub fn write(self, bars: &Bars) {
        let name = format!("{}.json", self.bench);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let text = json!({
            "bench": self.bench,
            "time": now.as_secs(),
            "machine": machine(),
            "about": self.about,
            "cells": self.cells,
            "bars": bars.as_json(),
        });
        let written = std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(folder.join(&name), format!("{text:#}\n")));
        match written {
            Ok(()) => println!("\nresults: benches/results/{name}"),
            Err(error) => eprintln!("\ncannot write benches/results/{name}: {error}"),
        }
    }
}

/// The machine that the numbers depend on, with its load at the end of the run.
fn machine() -> Value {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let read = |path| std::fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
    json!({
        "cpus": cpus,
        "os": std::env::consts::OS,
        "arch": std::env::consts::ARCH,
        "kernel": read("/proc/sys/kernel/osrelease"),
        "load": read("/proc/loadavg"),
    })
}
