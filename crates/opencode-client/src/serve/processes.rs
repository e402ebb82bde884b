//! Finds and ends the processes of a server, with everything they started.
//!
//! opencode runs every command of its shell tool in a session of its own. A signal to its process group
//! does not reach them, and they go on when it dies. So a process belongs to a server if any of these
//! holds:
//!
//! - it is in the server's control group, if there is one;
//! - it is in the server's process group;
//! - it descends from the server;
//! - its environment has the server's mark, which a child keeps when its parent dies.

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use turnstream_adapter::ControlGroup;

/// The environment variable that holds the mark.
pub(super) const MARK: &str = "TURNSTREAM_OPENCODE";
/// How long to wait after SIGKILL. Only an overloaded machine takes that long.
const KILL_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
/// How often a control group that is gone is created again.
const ENTER_TRIES: u32 = 3;

/// A process. Its start time distinguishes it from a later process with the same id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Process {
    pub(super) id: i32,
    /// The start time, as text that is only compared.
    pub(super) started: String,
}

/// All processes of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerProcesses {
    /// The process that was started, if it is known.
    pub(super) leader: Option<Process>,
    /// The value of [`MARK`] in the environment of all of them.
    pub(super) mark: String,
    /// Their control group, if there is one.
    pub(super) cgroup: Option<ControlGroup>,
}

#[derive(Debug)]
struct Row {
    process: Process,
    parent: i32,
    group: i32,
}

/// How the list of processes is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// From `/proc`, on Linux.
    Proc,
    /// With `ps`, elsewhere. Environments cannot be read.
    Ps,
}

// === impl Process ===

impl Process {
    /// The running process with this id.
    pub(super) fn find(id: i32) -> Option<Self> {
        let row = match Source::here() {
            Source::Proc => proc_row(&Path::new("/proc").join(id.to_string()), &boot()),
            Source::Ps => ps_rows(&["-p", &id.to_string()]).pop(),
        };
        row.map(|row| row.process)
    }

    /// Whether it still runs. A zombie does not count.
    pub(super) fn is_alive(&self) -> bool {
        Self::find(self.id).as_ref() == Some(self)
    }

    /// Continues a stopped process (SIGCONT).
    pub(super) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = Pid::from_raw(self.id)
            && let Err(error) = kill_process(id, signal)
        {
            // Usually the process has ended in between.
            tracing::debug!(pid = self.id, ?signal, %error, "cannot signal a process");
        }
    }
}

// === impl ServerProcesses ===

impl ServerProcesses {
    /// The processes that run: those that belong to the server, those known before, and all their
    /// descendants.
    fn living(&self, known: &BTreeSet<Process>) -> BTreeSet<Process> {
        let source = Source::here();
        let table = source.table();
        let leader = self.leader.as_ref();
        // A process group has the id of its leader. If another process has that id now, so has another group.
        let group = leader
            .filter(|leader| !table.iter().any(|row| row.process.id == leader.id && row.process != **leader));
        let members = self.cgroup.as_ref().map(ControlGroup::processes).unwrap_or_default();
        let ours = |row: &&Row| {
            known.contains(&row.process)
                || members.contains(&row.process.id)
                || leader == Some(&row.process)
                || group.is_some_and(|leader| row.group == leader.id)
                || source.is_marked(row.process.id, &self.mark)
        };
        let mut found: BTreeSet<Process> = table.iter().filter(ours).map(|row| row.process.clone()).collect();
        let mut parents: BTreeSet<i32> = found.iter().map(|process| process.id).collect();
        // Each round finds one more generation, and n processes have at most n generations.
        for _ in 0..table.len() {
            let child = |row: &&Row| parents.contains(&row.parent) && !found.contains(&row.process);
            let children: Vec<Process> = table.iter().filter(child).map(|row| row.process.clone()).collect();
            if children.is_empty() {
                break;
            }
            parents.extend(children.iter().map(|process| process.id));
            found.extend(children);
        }
        found
    }

    /// The first process: the recorded one, or the marked one that no other marked process started.
    pub(super) fn find_leader(&self) -> Option<Process> {
        if let Some(leader) = &self.leader {
            return leader.is_alive().then(|| leader.clone());
        }
        let source = Source::here();
        let marked = |row: &Row| source.is_marked(row.process.id, &self.mark);
        let rows: Vec<Row> = source.table().into_iter().filter(marked).collect();
        let orphan = |row: &&Row| !rows.iter().any(|other| other.process.id == row.parent);
        let mut first = rows.iter().filter(orphan).filter(|row| row.group == row.process.id);
        first.next().map(|row| row.process.clone())
    }

    /// Moves the first process, and what it has started so far, into the control group.
    pub(super) fn enter_cgroup(&self) -> io::Result<()> {
        let (Some(cgroup), Some(leader)) = (&self.cgroup, &self.leader) else { return Ok(()) };
        // Whoever ended the previous server may still be removing the empty group.
        let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let mut entered = cgroup.add(leader.id);
        for _ in 0..ENTER_TRIES {
            if !entered.as_ref().is_err_and(gone) {
                break;
            }
            entered = cgroup.create().and_then(|()| cgroup.add(leader.id));
        }
        entered?;
        for process in self.living(&BTreeSet::new()) {
            if let Err(error) = cgroup.add(process.id) {
                // Usually the process has ended in between.
                tracing::debug!(pid = process.id, %error, "cannot move a process into the control group");
            }
        }
        Ok(())
    }

    /// Ends them all: SIGTERM, and SIGKILL after `grace`. Returns those that do not end. Blocks for a
    /// little longer than `grace`.
    pub(super) fn end(&self, grace: Duration) -> Vec<Process> {
        let mut ours = BTreeSet::new();
        for (signal, patience) in [(Signal::TERM, grace), (Signal::KILL, KILL_LIMIT)] {
            let start = Instant::now();
            let mut signalled = BTreeSet::new();
            while start.elapsed() < patience {
                if let Some(cgroup) = self.cgroup.as_ref().filter(|_| signal == Signal::KILL) {
                    cgroup.kill();
                }
                // A process stays on the list when its parent dies, and so do the processes it starts then.
                ours = self.living(&ours);
                if ours.is_empty() && !self.is_populated() {
                    self.cgroup.iter().for_each(ControlGroup::remove);
                    return Vec::new();
                }
                ours.difference(&signalled).for_each(|process| process.signal(signal));
                signalled.clone_from(&ours);
                std::thread::sleep(POLL);
            }
        }
        ours.into_iter().collect()
    }

    /// True while any process is in the control group, also one that cannot be listed.
    fn is_populated(&self) -> bool {
        self.cgroup.as_ref().is_some_and(ControlGroup::is_populated)
    }

    /// Kills them all without waiting.
    pub(super) fn kill(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
            cgroup.clone().remove_soon();
        }
        self.living(&BTreeSet::new()).iter().for_each(|process| process.signal(Signal::KILL));
    }
}

// === impl Source ===

impl Source {
    fn here() -> Self {
        if Path::new("/proc/self/stat").exists() { Self::Proc } else { Self::Ps }
    }

    /// All processes that run.
    fn table(self) -> Vec<Row> {
        match self {
            Self::Proc => {
                let boot = boot();
                let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
                entries.filter_map(|entry| proc_row(&entry.path(), &boot)).collect()
            }
            Self::Ps => ps_rows(&["-A"]),
        }
    }

    fn is_marked(self, id: i32, mark: &str) -> bool {
        match self {
            Self::Proc => {
                let wanted = format!("{MARK}={mark}");
                let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
                environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
            }
            Self::Ps => false,
        }
    }
}

/// Starts are counted from the start of the machine, so they say little without it.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Reads `/proc/ID/stat`: the id, the name in brackets, which may hold anything, then state, parent, group
/// and, as the twentieth field behind the name, the start.
fn proc_row(folder: &Path, boot: &str) -> Option<Row> {
    let id = folder.file_name()?.to_str()?.parse().ok()?;
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    let started = format!("{boot}:{}", fields.get(19)?);
    let process = Process { id, started };
    Some(Row { process, parent: fields.get(1)?.parse().ok()?, group: fields.get(2)?.parse().ok()? })
}

fn ps_rows(which: &[&str]) -> Vec<Row> {
    let output = Command::new("ps").args(which).args(["-o", "pid=,ppid=,pgid=,stat=,lstart="]).output();
    let output = match output {
        Ok(output) => output.stdout,
        Err(error) => {
            tracing::warn!(%error, "cannot run ps to find processes");
            Vec::new()
        }
    };
    String::from_utf8_lossy(&output).lines().filter_map(ps_row).collect()
}

fn ps_row(line: &str) -> Option<Row> {
    let mut fields = line.split_whitespace();
    let mut number = || fields.next()?.parse().ok();
    let (id, parent, group) = (number()?, number()?, number()?);
    if fields.next()?.starts_with('Z') {
        return None;
    }
    let started = fields.collect::<Vec<&str>>().join(" ");
    Some(Row { process: Process { id, started }, parent, group })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Stdio};

    /// A shell in a group of its own that carries the mark, once it has said that it is ready.
    fn shell(mark: &str, script: &str) -> (Child, ServerProcesses) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env(MARK, mark).process_group(0).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let leader = Process::find(child.id().try_into().unwrap());
        (child, ServerProcesses { leader, mark: mark.to_owned(), cgroup: None })
    }

    #[test]
    fn a_process_that_left_the_group_and_whose_parent_died_is_still_ended() {
        let script = "setsid sh -c 'trap \"\" TERM; sleep 300 & echo ready; wait' & wait";
        let (mut child, processes) = shell("test-left-the-group", script);
        let before = processes.living(&BTreeSet::new());
        assert!(before.len() >= 3, "two shells and a sleep, not {before:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        let after = processes.living(&BTreeSet::new());
        assert_eq!(after.len(), before.len() - 1, "{after:?}");
        assert_eq!(processes.end(Duration::from_millis(200)), []);
        assert_eq!(processes.living(&before), BTreeSet::new());
    }

    #[test]
    fn a_control_group_that_was_removed_before_its_first_process_was_in_is_made_again() {
        let groups = match turnstream_adapter::ControlGroups::find() {
            Ok(groups) => groups,
            Err(error) => return eprintln!("not tried, because no groups can be made here: {error}"),
        };
        let (mut child, processes) = shell("test-group-made-again", "echo ready; sleep 300; true");
        let cgroup = groups.group(&format!("turnstream-again-{}", std::process::id()));
        let processes = ServerProcesses { cgroup: Some(cgroup.clone()), ..processes };
        processes.enter_cgroup().unwrap();
        let id = i32::try_from(child.id()).unwrap();
        assert!(cgroup.processes().contains(&id), "{:?}", cgroup.processes());
        assert_eq!(processes.end(Duration::from_secs(60)), []);
        child.wait().unwrap();
        assert!(!cgroup.path().exists());
    }

    #[test]
    fn the_first_process_is_found_by_its_mark() {
        let (mut child, processes) = shell("test-found-by-mark", "echo ready; sleep 300; true");
        let unknown = ServerProcesses { leader: None, ..processes.clone() };
        assert_eq!(unknown.find_leader(), processes.leader);
        processes.kill();
        child.wait().unwrap();
        assert_eq!(processes.end(Duration::from_secs(2)), []);
        assert_eq!(unknown.find_leader(), None);
        assert_eq!(processes.find_leader(), None);
    }

    #[test]
    fn a_process_with_the_same_id_and_another_start_is_another_one() {
        let me = Process::find(std::process::id().try_into().unwrap()).unwrap();
        assert!(me.is_alive());
        let earlier = Process { started: "before".to_owned(), ..me };
        assert!(!earlier.is_alive());
        let processes =
            ServerProcesses { leader: Some(earlier), mark: "test-nobody".to_owned(), cgroup: None };
        assert_eq!(processes.living(&BTreeSet::new()), BTreeSet::new(), "or this test would be killed");
    }

    #[test]
    fn ps_tells_the_same_as_proc() {
        if Command::new("ps").output().is_err() {
            eprintln!("there is no ps here");
            return;
        }
        let id = i32::try_from(std::process::id()).unwrap();
        let row = ps_rows(&["-p", &id.to_string()]).pop().unwrap();
        let proc = proc_row(&Path::new("/proc").join(id.to_string()), "").unwrap();
        assert_eq!((row.process.id, row.parent, row.group), (id, proc.parent, proc.group));
        assert!(row.process.started.len() > 10, "{row:?}");
    }
}
