//! Finds and ends the processes of an agent, with everything they started.
//!
//! opencode, Claude Code and Codex run every command of their shell tools in a session of its own. A signal
//! to the agent's process group does not reach them, and they go on when it dies. So a process belongs to an
//! agent if any of these holds:
//!
//! - it is in the agent's control group, if there is one;
//! - it is in the agent's process group, or in that of a command that was started for the agent;
//! - it descends from the agent;
//! - its environment has the agent's mark, which a child keeps when its parent dies.

use crate::cgroup::ControlGroup;
use crate::process::{Process, Row, Source};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

/// How long to wait after SIGKILL. Only an overloaded machine takes that long.
const KILL_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
/// How often a control group that is gone is created again.
const ENTER_TRIES: u32 = 3;

/// All processes of one agent process: itself, and what it started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessFamily {
    /// The process that was started, if it is known.
    pub leader: Option<Process>,
    /// Processes that its owner has started for it, each with a group of its own. A command of an agent may
    /// clear its environment, and with it the mark.
    pub others: Vec<Process>,
    /// The value of [`MARK`](crate::MARK) in the environment of all of them.
    pub mark: String,
    /// Their control group, if there is one.
    pub cgroup: Option<ControlGroup>,
}

// === impl ProcessFamily ===

impl ProcessFamily {
    /// The processes that run: those that belong to the agent, those known before, and all their
    /// descendants.
    fn living(&self, known: &BTreeSet<Process>) -> BTreeSet<Process> {
        let source = Source::here();
        let table = source.table();
        // A process group has the id of its leader. If another process has that id now, so has another group.
        let is_free = |leader: &&Process| {
            !table.iter().any(|row| row.process.id == leader.id && row.process != **leader)
        };
        let leaders = self.leader.iter().chain(&self.others);
        let groups: BTreeSet<i32> = leaders.clone().filter(is_free).map(|leader| leader.id).collect();
        let leaders: BTreeSet<&Process> = leaders.collect();
        let members = self.cgroup.as_ref().map(ControlGroup::processes).unwrap_or_default();
        let ours = |row: &&Row| {
            known.contains(&row.process)
                || members.contains(&row.process.id)
                || leaders.contains(&row.process)
                || groups.contains(&row.group)
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

    /// The ids of the processes that run, for a look at what they use.
    pub fn ids(&self) -> Vec<u32> {
        let ids: Vec<i32> = match &self.cgroup {
            // A group is one small file. Without it, every process of the machine is looked at.
            Some(cgroup) => cgroup.processes(),
            None => self.living(&BTreeSet::new()).iter().map(|process| process.id).collect(),
        };
        ids.into_iter().filter_map(|id| u32::try_from(id).ok()).collect()
    }

    /// The first process: the recorded one, or the marked one that no other marked process started.
    pub fn find_leader(&self) -> Option<Process> {
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

    /// Continues all that are stopped (SIGCONT).
    pub fn resume(&self) {
        self.living(&BTreeSet::new()).iter().for_each(Process::resume);
    }

    /// Moves the first process, and what it has started so far, into the control group.
    pub(crate) fn enter_cgroup(&self) -> io::Result<()> {
        let (Some(cgroup), Some(leader)) = (&self.cgroup, &self.leader) else { return Ok(()) };
        // Whoever ended the previous process may still be removing the empty group.
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
    pub fn end(&self, grace: Duration) -> Vec<Process> {
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
    pub fn kill(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
            cgroup.clone().remove_soon();
        }
        self.living(&BTreeSet::new()).iter().for_each(|process| process.signal(Signal::KILL));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::MARK;
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    /// A shell in a group of its own that carries the mark, once it has said that it is ready.
    fn shell(mark: &str, script: &str) -> (Child, ProcessFamily) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env(MARK, mark).process_group(0).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let leader = Process::find(child.id().try_into().unwrap());
        (child, ProcessFamily { leader, others: Vec::new(), mark: mark.to_owned(), cgroup: None })
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

    /// Its parent is the owner that was killed, so it descends from nobody.
    #[test]
    fn a_command_that_was_started_for_the_agent_is_ended_also_without_the_mark() {
        let script = "env -i sh -c 'sleep 300 & echo ready; wait' & wait";
        let (mut child, processes) = shell("test-no-mark", script);
        let other = ProcessFamily {
            leader: None,
            others: processes.leader.into_iter().collect(),
            mark: "test-another-mark".to_owned(),
            cgroup: None,
        };
        child.kill().unwrap();
        child.wait().unwrap();
        let left = other.living(&BTreeSet::new());
        assert!(left.len() >= 2, "a shell and a sleep, not {left:?}");
        assert_eq!(other.end(Duration::from_millis(200)), []);
        assert_eq!(other.living(&left), BTreeSet::new());
    }

    #[test]
    fn a_control_group_that_was_removed_before_its_first_process_was_in_is_made_again() {
        let groups = match crate::ControlGroups::find() {
            Ok(groups) => groups,
            Err(error) => return eprintln!("not tried, because no groups can be made here: {error}"),
        };
        let (mut child, processes) = shell("test-group-made-again", "echo ready; sleep 300; true");
        let cgroup = groups.group(&format!("turnstream-again-{}", std::process::id()));
        let processes = ProcessFamily { cgroup: Some(cgroup.clone()), ..processes };
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
        let unknown = ProcessFamily { leader: None, ..processes.clone() };
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
        let (mark, others) = ("test-nobody".to_owned(), vec![earlier.clone()]);
        let processes = ProcessFamily { leader: Some(earlier), others, mark, cgroup: None };
        assert_eq!(processes.living(&BTreeSet::new()), BTreeSet::new(), "or this test would be killed");
    }
}
