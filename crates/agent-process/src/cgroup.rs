//! A control group (cgroup v2) per agent process.
//!
//! A process can leave its process group, its session, its parent and its environment with ordinary system
//! calls. To leave its control group it needs write access to another one. So everything an agent starts is
//! found in its group, and one write ends all of it.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// The kernel's list of mounts.
const MOUNTS: &str = "/proc/self/mountinfo";
/// The control group of this process.
const OWN: &str = "/proc/self/cgroup";
/// The processes of a group. Writing an id moves that process into the group.
const PROCESSES: &str = "cgroup.procs";
/// Writing 1 kills all processes of a group and of the groups below it, also those being forked.
const KILL: &str = "cgroup.kill";
/// Attempts to remove a group after its processes were killed. A group that remains is empty, and is
/// removed when its agent is next started.
const REMOVE_TRIES: u32 = 200;
const REMOVE_PAUSE: Duration = Duration::from_millis(25);

/// The control group of this process, below which groups can be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroups {
    own: PathBuf,
}

/// The control group of one agent process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroup {
    path: PathBuf,
}

/// Why control groups cannot be used.
#[derive(Debug, Error)]
pub enum NoControlGroups {
    /// This is not Linux, or it has no cgroup v2.
    #[error("there is no cgroup v2 mount that shows the group of this process")]
    NotMounted,
    /// This process may not create groups.
    #[error("cannot make a group in {}: {error}", path.display())]
    NotAllowed {
        /// The group of this process.
        path: PathBuf,
        /// The error of the kernel.
        #[source]
        error: io::Error,
    },
    /// Groups can be created, but cannot hold or kill processes.
    #[error("a group in {} {problem}", path.display())]
    Useless {
        /// The group of this process.
        path: PathBuf,
        /// What it cannot do.
        problem: &'static str,
    },
}

// === impl ControlGroups ===

impl ControlGroups {
    /// Finds the control group of this process, and checks that groups can be created below it.
    pub fn find() -> Result<Self, NoControlGroups> {
        let text = |file| fs::read_to_string(file).map_err(|_| NoControlGroups::NotMounted);
        let candidates = own_groups(&text(MOUNTS)?, &text(OWN)?);
        let own = candidates.into_iter().find(|path| path.join(PROCESSES).is_file());
        let groups = Self { own: own.ok_or(NoControlGroups::NotMounted)? };
        groups.check()?;
        Ok(groups)
    }

    /// The group with this name. It is not created yet. A name must not be used twice.
    pub fn group(&self, name: &str) -> ControlGroup {
        ControlGroup { path: self.own.join(name) }
    }

    /// Moving a process needs write access to its new group and to the common parent of both groups.
    fn check(&self) -> Result<(), NoControlGroups> {
        let path = self.own.clone();
        let refused = |error| NoControlGroups::NotAllowed { path: path.clone(), error };
        let useless = |problem| NoControlGroups::Useless { path: path.clone(), problem };
        let probe = self.group(&format!("turnstream-probe-{}-{}", std::process::id(), unique()));
        probe.create().map_err(refused)?;
        let writable = |file: PathBuf| OpenOptions::new().write(true).open(file).map(drop);
        let kind = fs::read_to_string(probe.path.join("cgroup.type"));
        let checked = match kind.as_deref().map(str::trim) {
            _ if !probe.path.join(KILL).is_file() => Err(useless("cannot be killed; that takes Linux 5.14")),
            Ok("domain") => writable(self.own.join(PROCESSES))
                .and_then(|()| writable(probe.path.join(PROCESSES)))
                .map_err(refused),
            _ => Err(useless("takes no processes, because the one above it takes threads only")),
        };
        probe.remove();
        checked
    }
}

// === impl ControlGroup ===

impl ControlGroup {
    /// The group at this path, which an earlier process may have created.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The directory of the group.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the group. An existing one is no error.
    pub fn create(&self) -> io::Result<()> {
        match fs::create_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    /// Moves a process into the group. Processes that it starts later are in the group too; earlier ones
    /// are not.
    pub fn add(&self, process: i32) -> io::Result<()> {
        self.write(PROCESSES, &process.to_string())
    }

    /// The processes in the group and in the groups below it. Those of another PID namespace are not listed.
    pub fn processes(&self) -> Vec<i32> {
        let listed = |group: PathBuf| fs::read_to_string(group.join(PROCESSES)).unwrap_or_default();
        let texts: Vec<String> = self.with_below().into_iter().map(listed).collect();
        texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.parse().ok()).collect()
    }

    /// True while any process is in the group or below it, also one that is not listed.
    pub fn is_populated(&self) -> bool {
        let events = fs::read_to_string(self.path.join("cgroup.events")).unwrap_or_default();
        events.lines().any(|line| line == "populated 1")
    }

    /// Kills all processes in the group and below it. They end a moment later.
    pub fn kill(&self) {
        match self.write(KILL, "1") {
            Ok(()) => {}
            // A group that does not exist holds nothing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(path = %self.path.display(), %error, "cannot kill a control group"),
        }
    }

    /// Removes the group if it is empty.
    pub fn remove(&self) {
        for group in self.with_below().iter().rev() {
            match fs::remove_dir(group) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // Usually it still holds a process that is ending; the caller tries again.
                Err(error) => tracing::debug!(path = %group.display(), %error, "control group not removed"),
            }
        }
    }

    /// Removes the group on another thread, as soon as the killed processes have ended.
    pub fn remove_soon(self) {
        std::thread::spawn(move || {
            for _ in 0..REMOVE_TRIES {
                self.remove();
                if !self.path.exists() {
                    return;
                }
                std::thread::sleep(REMOVE_PAUSE);
            }
            tracing::warn!(path = %self.path.display(), "control group cannot be removed");
        });
    }

    /// The group and those below it, parents first.
    fn with_below(&self) -> Vec<PathBuf> {
        let mut groups = vec![self.path.clone()];
        let mut next = 0;
        while let Some(group) = groups.get(next) {
            let entries = fs::read_dir(group).into_iter().flatten().flatten();
            let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            let below: Vec<PathBuf> = below.map(|entry| entry.path()).collect();
            groups.extend(below);
            next += 1;
        }
        groups
    }

    /// Writes to a file of the group. Does not create it: outside of a cgroup mount there is none.
    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(self.path.join(file))?;
        io::Write::write_all(&mut file, text.as_bytes())
    }
}

/// A number that distinguishes the probes of concurrent threads.
fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Where the group of this process may be, for each cgroup v2 mount. A mount may show only a part of the
/// tree.
fn own_groups(mounts: &str, own: &str) -> Vec<PathBuf> {
    let Some(own) = own.lines().find_map(|line| line.strip_prefix("0::")) else { return Vec::new() };
    // The group is outside of what this process may see.
    if Path::new(own).components().any(|part| part == std::path::Component::ParentDir) {
        return Vec::new();
    }
    mounts.lines().filter_map(cgroup2_mount).filter_map(|(root, at)| below(own, &root, &at)).collect()
}

fn below(own: &str, root: &str, at: &str) -> Option<PathBuf> {
    let rest = Path::new(own).strip_prefix(root).ok()?;
    Some(Path::new(at).join(rest))
}

/// The root and the mount point of a cgroup v2 mount: the fourth and fifth field. The type follows a dash.
fn cgroup2_mount(line: &str) -> Option<(String, String)> {
    let (fields, kind) = line.split_once(" - ")?;
    let mut fields = fields.split(' ').skip(3);
    let (root, at) = (fields.next()?, fields.next()?);
    kind.starts_with("cgroup2 ").then(|| (unescaped(root), unescaped(at)))
}

/// Undoes the octal escapes of spaces, tabs, line ends and backslashes.
fn unescaped(field: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(field.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::Instant;

    #[test]
    fn the_own_group_is_found_in_every_layout() {
        let unified = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
        let own = "0::/user.slice/user-1000.slice/session-2.scope\n";
        let path = "/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope";
        assert_eq!(own_groups(unified, own), [PathBuf::from(path)]);
        // The old tree beside the new one.
        let hybrid = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
        let own = "4:memory:/a\n0::/\n";
        assert_eq!(own_groups(hybrid, own), [PathBuf::from("/sys/fs/cgroup/unified")]);
        // A container that sees its own part of the tree under its full name.
        let part = "35 24 0:30 /docker/abc /sys/fs/cgroup\\040x ro - cgroup2 cgroup rw";
        let own = "0::/docker/abc/below\n";
        assert_eq!(own_groups(part, own), [PathBuf::from("/sys/fs/cgroup x/below")]);
        assert_eq!(own_groups(part, "0::/docker/other\n"), Vec::<PathBuf>::new());
        assert_eq!(own_groups(unified, "0::/../outside\n"), Vec::<PathBuf>::new());
        assert_eq!(
            own_groups("35 24 0:30 / /x rw - cgroup cgroup rw", "4:memory:/\n"),
            Vec::<PathBuf>::new()
        );
    }

    #[test]
    fn a_process_that_left_everything_else_is_killed_with_its_group() {
        let groups = match ControlGroups::find() {
            Ok(groups) => groups,
            Err(error) => return eprintln!("not tried, because no groups can be made here: {error}"),
        };
        let group = groups.group(&format!("turnstream-test-{}", std::process::id()));
        group.create().unwrap();
        // It waits for a line until it is in the group, and then starts a process that leaves it in every
        // other way.
        let mut command = Command::new("sh");
        command.args(["-c", "read line; setsid env -i sh -c 'sleep 300 & wait' &\nwait"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        group.add(child.id().try_into().unwrap()).unwrap();
        drop(child.stdin.take());
        let begun = Instant::now();
        while group.processes().len() < 3 {
            assert!(begun.elapsed() < Duration::from_secs(300), "{:?}", group.processes());
            std::thread::sleep(Duration::from_millis(5));
        }
        group.remove();
        assert!(group.is_populated(), "a group with processes is not removed");
        group.kill();
        child.wait().unwrap();
        while group.is_populated() {
            assert!(begun.elapsed() < Duration::from_secs(300), "{:?}", group.processes());
            std::thread::sleep(Duration::from_millis(5));
        }
        group.remove();
        assert!(!group.path().exists());
        group.kill();
        assert_eq!(group.processes(), [0; 0], "of a group that is gone nothing is left");
    }
}
