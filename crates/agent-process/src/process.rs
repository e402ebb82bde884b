//! The processes of this machine: which run, who started them, and which carry a mark.

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The environment variable that holds the mark of an agent's processes.
pub const MARK: &str = "TURNSTREAM_AGENT";

/// A process. Its start time distinguishes it from a later process with the same id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    /// The id.
    pub id: i32,
    /// The start time, as text that is only compared.
    pub started: String,
}

/// One line of the list of processes.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) process: Process,
    pub(crate) parent: i32,
    pub(crate) group: i32,
}

/// How the list of processes is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// From `/proc`, on Linux.
    Proc,
    /// With `ps`, elsewhere. Environments cannot be read.
    Ps,
}

// === impl Process ===

impl Process {
    /// The running process with this id.
    pub fn find(id: i32) -> Option<Self> {
        let row = match Source::here() {
            Source::Proc => proc_row(&Path::new("/proc").join(id.to_string()), &boot()),
            Source::Ps => ps_rows(&["-p", &id.to_string()]).pop(),
        };
        row.map(|row| row.process)
    }

    /// Whether it still runs. A zombie does not count.
    pub fn is_alive(&self) -> bool {
        Self::find(self.id).as_ref() == Some(self)
    }

    /// Continues a stopped process (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(id) = Pid::from_raw(self.id)
            && let Err(error) = kill_process(id, signal)
        {
            // Usually the process has ended in between.
            tracing::debug!(pid = self.id, ?signal, %error, "cannot signal a process");
        }
    }
}

// === impl Source ===

impl Source {
    pub(crate) fn here() -> Self {
        if Path::new("/proc/self/stat").exists() { Self::Proc } else { Self::Ps }
    }

    /// All processes that run.
    pub(crate) fn table(self) -> Vec<Row> {
        match self {
            Self::Proc => {
                let boot = boot();
                let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
                entries.filter_map(|entry| proc_row(&entry.path(), &boot)).collect()
            }
            Self::Ps => ps_rows(&["-A"]),
        }
    }

    pub(crate) fn is_marked(self, id: i32, mark: &str) -> bool {
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
