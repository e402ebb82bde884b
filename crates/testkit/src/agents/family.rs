//! The processes an agent started, whatever group they moved to, and the end of them all.
//!
//! Agents give their tools a session of their own (Codex a terminal, Claude Code a detached shell), so a signal to
//! the agent's process group alone would leave those behind.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::process::Child;

/// What SIGTERM gets before SIGKILL, and SIGKILL before we give up.
const PATIENCE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);

/// A process, told apart from a later one with the same id by its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// The process id.
    pub id: i32,
    /// Clock ticks between the start of the machine and its own.
    pub started: u64,
}

struct Row {
    process: Process,
    parent: i32,
    group: i32,
}

/// Those of these processes that still run. Zombies do not run.
pub fn living(processes: &[Process]) -> Vec<Process> {
    let running: BTreeSet<Process> = table().iter().map(|row| row.process).collect();
    processes.iter().copied().filter(|process| running.contains(process)).collect()
}

/// The group of this leader, and all that descends from it.
pub(super) fn family(leader: i32) -> Vec<Process> {
    let table = table();
    let mut ids = BTreeSet::from([leader]);
    // Every round finds a generation more; a table of n rows has at most n.
    for _ in 0..table.len() {
        let before = ids.len();
        let found = |row: &&Row| row.group == leader || ids.contains(&row.parent);
        let more: Vec<i32> = table.iter().filter(found).map(|row| row.process.id).collect();
        ids.extend(more);
        if ids.len() == before {
            break;
        }
    }
    table.iter().map(|row| row.process).filter(|process| ids.contains(&process.id)).collect()
}

/// Ends the child, its group and its descendants: SIGTERM, then SIGKILL to what is left. Blocks for at most 4 s.
pub(super) fn end(child: &mut Child, leader: i32) {
    let mut ours: BTreeSet<Process> = BTreeSet::new();
    for signal in [Signal::TERM, Signal::KILL] {
        ours.extend(family(leader));
        signal_all(leader, &ours, signal);
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            // Reaps the child; what it was has no meaning any more.
            let _ = child.try_wait();
            // Found before their parent is gone, children of the dying are still known to be ours.
            ours.extend(family(leader));
            if living(&Vec::from_iter(ours.iter().copied())).is_empty() {
                return;
            }
            std::thread::sleep(POLL);
        }
    }
}

fn signal_all(leader: i32, ours: &BTreeSet<Process>, signal: Signal) {
    let living = living(&Vec::from_iter(ours.iter().copied()));
    // A process that ended in between is what is wanted, so no signal's failure matters.
    if let Some(group) = Pid::from_raw(leader).filter(|_| !living.is_empty()) {
        let _ = kill_process_group(group, signal);
    }
    for process in living {
        if let Some(id) = Pid::from_raw(process.id) {
            let _ = kill_process(id, signal);
        }
    }
}

/// All processes that run.
fn table() -> Vec<Row> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| row(&entry.path())).collect()
}

/// Reads `/proc/ID/stat`: the id, the name in brackets, which may hold anything, then state, parent, group and, as
/// the twentieth field behind the name, the start.
fn row(folder: &Path) -> Option<Row> {
    let id = folder.file_name()?.to_str()?.parse().ok()?;
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if *fields.first()? == "Z" {
        return None;
    }
    let started = fields.get(19)?.parse().ok()?;
    let process = Process { id, started };
    Some(Row { process, parent: fields.get(1)?.parse().ok()?, group: fields.get(2)?.parse().ok()? })
}
