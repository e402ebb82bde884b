//! Finds and ends all processes that an agent started.
//!
//! Agents run their tools in separate sessions: Codex in a terminal, Claude Code in a detached shell. A
//! signal to the agent's process group would not reach them.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::process::Child;

/// How long processes may take after SIGTERM, and again after SIGKILL.
const SIGNALS: [(Signal, Duration); 2] =
    [(Signal::TERM, Duration::from_secs(2)), (Signal::KILL, Duration::from_secs(60))];
const POLL: Duration = Duration::from_millis(20);

/// A process. Its start time tells it apart from a later one with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// The process id.
    pub id: i32,
    /// Its start, in clock ticks since the start of the machine.
    pub started: u64,
}

struct Row {
    process: Process,
    parent: i32,
    group: i32,
}

/// The processes that still run. Zombies do not.
pub fn living(processes: &[Process]) -> Vec<Process> {
    let running: BTreeSet<Process> = table().iter().map(|row| row.process).collect();
    processes.iter().copied().filter(|process| running.contains(process)).collect()
}

/// The process group of this leader, and all descendants.
pub(super) fn family(leader: i32) -> Vec<Process> {
    relatives(leader, &BTreeSet::new()).into_iter().collect()
}

/// Ends the child, its group and its descendants: SIGTERM, then SIGKILL for the rest. Blocks for at most 62
/// s.
pub(super) fn end(child: &mut Child, leader: i32) {
    let mut ours = BTreeSet::new();
    for (signal, patience) in SIGNALS {
        let start = Instant::now();
        let mut told = BTreeSet::new();
        while start.elapsed() < patience {
            // A known process stays in the tree when its parent dies, and so does what it starts later.
            ours = relatives(leader, &ours);
            if ours.is_empty() {
                // Reaped only now, so that its id cannot be reused before. It fails only if it was reaped.
                let _ = child.try_wait();
                return;
            }
            tell(leader, ours.difference(&told), signal);
            told.clone_from(&ours);
            std::thread::sleep(POLL);
        }
    }
}

/// Signals these processes and the group. A failure means that a process has ended, which is the goal.
fn tell<'a>(leader: i32, processes: impl Iterator<Item = &'a Process>, signal: Signal) {
    for process in processes {
        if let Some(group) = Pid::from_raw(leader).filter(|_| process.id == leader) {
            let _ = kill_process_group(group, signal);
        } else if let Some(id) = Pid::from_raw(process.id) {
            let _ = kill_process(id, signal);
        }
    }
}

/// The running processes of the tree: the leader, its group, known processes, and all their descendants.
fn relatives(leader: i32, known: &BTreeSet<Process>) -> BTreeSet<Process> {
    let table = table();
    let first = |row: &&Row| row.process.id == leader || row.group == leader || known.contains(&row.process);
    let mut found: BTreeSet<Process> = table.iter().filter(first).map(|row| row.process).collect();
    let mut parents: BTreeSet<i32> = found.iter().map(|process| process.id).collect();
    // Every round finds one more generation, and n processes have at most n generations.
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

/// All running processes.
fn table() -> Vec<Row> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| row(&entry.path())).collect()
}

/// Parses `/proc/ID/stat`: the id, the name in brackets (any text), then state, parent, group and, as the
/// twentieth field after the name, the start.
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
