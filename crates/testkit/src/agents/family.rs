//! The processes an agent started, whatever group they moved to, and the end of them all.
//!
//! Agents give their tools a session of their own (Codex a terminal, Claude Code a detached shell), so a signal to
//! the agent's process group alone would leave those behind.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::process::Child;

/// What each signal gets: SIGTERM before SIGKILL, and SIGKILL before we give up, which only a machine that is busy
/// beyond use makes happen.
const SIGNALS: [(Signal, Duration); 2] =
    [(Signal::TERM, Duration::from_secs(2)), (Signal::KILL, Duration::from_secs(10))];
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
    relatives(leader, &BTreeSet::new()).into_iter().collect()
}

/// Ends the child, its group and its descendants: SIGTERM, then SIGKILL to what is left. Blocks for at most 12 s.
pub(super) fn end(child: &mut Child, leader: i32) {
    let mut ours = BTreeSet::new();
    for (signal, patience) in SIGNALS {
        let start = Instant::now();
        let mut told = BTreeSet::new();
        while start.elapsed() < patience {
            // What is known to be ours stays so when its parent dies, and so does what it starts then.
            ours = relatives(leader, &ours);
            if ours.is_empty() {
                // Reaped only now: until then no other process can be given its id, or a group of that id.
                let _ = child.try_wait();
                return;
            }
            tell(leader, ours.difference(&told), signal);
            told.clone_from(&ours);
            std::thread::sleep(POLL);
        }
    }
}

/// Signals these processes and the group. One that ended in between is what is wanted, so no failure matters.
fn tell<'a>(leader: i32, processes: impl Iterator<Item = &'a Process>, signal: Signal) {
    for process in processes {
        if let Some(group) = Pid::from_raw(leader).filter(|_| process.id == leader) {
            let _ = kill_process_group(group, signal);
        } else if let Some(id) = Pid::from_raw(process.id) {
            let _ = kill_process(id, signal);
        }
    }
}

/// The running processes among: the leader, its group, those known before, and all their descendants.
fn relatives(leader: i32, known: &BTreeSet<Process>) -> BTreeSet<Process> {
    let table = table();
    let first = |row: &&Row| row.process.id == leader || row.group == leader || known.contains(&row.process);
    let mut found: BTreeSet<Process> = table.iter().filter(first).map(|row| row.process).collect();
    let mut parents: BTreeSet<i32> = found.iter().map(|process| process.id).collect();
    // Every round finds a generation more; a table of n rows has at most n.
    for _ in 0..table.len() {
        let child = |row: &&Row| parents.contains(&row.parent) && !found.contains(&row.process);
        let children: Vec<Process> = table.iter().filter(child).map(|row| row.process).collect();
        if children.is_empty() {
            break;
        }
        parents.extend(children.iter().map(|process| process.id));
        found.extend(children);
    }
    found
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
