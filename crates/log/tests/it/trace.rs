//! The order of system calls, as the kernel saw them: no byte of an event is sent to a follower before the
//! sync that covers it has returned. Needs strace, which `cargo xtask test` installs.

use crate::crash::child;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use turnstream_testkit::crash::KillPoint;

/// The result of a trace.
#[derive(Default)]
struct Order {
    /// The line of the trace that writes the event.
    written: HashMap<u64, usize>,
    durable: HashSet<u64>,
    delivered: Vec<u64>,
    too_early: Vec<u64>,
}

/// The seqs of all events whose JSON is in a traced string, where quotes are escaped.
fn seqs(line: &str) -> Vec<u64> {
    let numbers = line.split("{\\\"seq\\\":").skip(1);
    numbers.filter_map(|rest| rest.split(',').next()?.parse().ok()).collect()
}

fn order(trace: &str) -> Order {
    let mut order = Order::default();
    // Where each thread's unfinished call began, and its events.
    let mut begun: HashMap<&str, (usize, Vec<u64>)> = HashMap::new();
    for (at, line) in trace.lines().enumerate() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        if call.starts_with("write(1,") {
            for seq in seqs(call) {
                order.delivered.push(seq);
                if !order.durable.contains(&seq) {
                    order.too_early.push(seq);
                }
            }
        }
        let unfinished = call.ends_with("<unfinished ...>");
        if call.starts_with("pwrite64(") || call.starts_with("fdatasync(") {
            begun.insert(thread, (at, seqs(call)));
        }
        let resumed =
            call.starts_with("<... pwrite64 resumed>") || call.starts_with("<... fdatasync resumed>");
        let ends =
            !unfinished && (resumed || call.starts_with("pwrite64(") || call.starts_with("fdatasync("));
        let Some((start, events)) = ends.then(|| begun.remove(thread)).flatten() else { continue };
        if call.contains("fdatasync") {
            let covered = order.written.iter().filter(|(_, written)| **written < start);
            order.durable.extend(covered.map(|(seq, _)| *seq).collect::<Vec<u64>>());
        } else {
            for seq in events {
                order.written.entry(seq).or_insert(at);
            }
        }
    }
    order
}

/// Runs a child under strace until this many frames are delivered, and returns the trace.
fn trace(options: &[&str], frames: u64) -> String {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let mut arguments: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
    arguments.extend([OsStr::new("-f"), OsStr::new("-o"), trace.as_os_str()]);
    let data = directory.path().join("data");
    let seen = child(&data).under("strace", &arguments).run(&KillPoint::line("FRAME ", frames));
    seen.unwrap_or_else(|error| panic!("{error}; this test needs strace: apt-get install strace"));
    std::fs::read_to_string(&trace).unwrap()
}

#[test]
fn no_byte_of_an_event_leaves_before_the_sync_that_covers_it() {
    let order = order(&trace(&["-s", "4000000", "-e", "trace=pwrite64,fdatasync,write"], 400));
    assert!(order.delivered.len() >= 400, "only {} deliveries were traced", order.delivered.len());
    assert!(order.too_early.is_empty(), "{:?} were delivered before they were durable", order.too_early);
}

#[test]
fn the_database_is_synced_without_the_times_of_its_files() {
    // Long enough for flushes and checkpoints.
    let trace = trace(&["-y", "-e", "trace=fsync,fdatasync"], 6_000);
    let of_database = |call: &str| {
        let calls = trace.lines().filter(|line| line.contains(call));
        calls.filter(|line| line.contains("log.db")).count()
    };
    assert!(of_database(" fdatasync(") > 2, "{}", of_database(" fdatasync("));
    assert_eq!(of_database(" fsync("), 0, "SQLite is built without HAVE_FDATASYNC: see .cargo/config.toml");
}
