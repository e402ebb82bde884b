//! A control group (cgroup v2) per agent. A process leaves its process group, its session, its parent and its
//! environment with ordinary calls. To leave its control group it must have the right to write to another.
//! So what an agent starts is found in the group, and ended with one write.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Where the kernel lists what is mounted, and which group this process is in.
const MOUNTS: &str = "/proc/self/mountinfo";
const OWN: &str = "/proc/self/cgroup";
/// The processes of a group; writing an id moves that process here.
const PROCESSES: &str = "cgroup.procs";
/// Writing 1 kills all of a group and of the groups below it, those included that are being started.
const KILL: &str = "cgroup.kill";
/// How often and how long apart a group is tried to be removed whose processes were just killed. One that is
/// left all the same is empty, and goes with the next start of its agent.
const REMOVE_TRIES: u32 = 200;
const REMOVE_PAUSE: Duration = Duration::from_millis(25);

/// The place where groups can be made: below the group of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessGroups {
    own: PathBuf,
}

/// The group of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessGroup {
    path: PathBuf,
}

/// Why no groups can be made.
#[derive(Debug, Error)]
pub enum NoProcessGroups {
    /// This is no Linux, or one without cgroup v2.
    #[error("there is no cgroup v2 mount that shows the group of this process")]
    NotMounted,
    /// They are there, and this process may not make any.
    #[error("cannot make a group in {}: {error}", path.display())]
    NotAllowed {
        /// The group of this process.
        path: PathBuf,
        /// What the kernel answered.
        error: io::Error,
    },
    /// Groups can be made, and are of no use.
    #[error("a group in {} {problem}", path.display())]
    Useless {
        /// The group of this process.
        path: PathBuf,
        /// What it cannot do.
        problem: &'static str,
    },
}

// === impl ProcessGroups ===

impl ProcessGroups {
    /// Finds the mount and the group of this process, and tries whether a group can be made there.
    pub fn find() -> Result<Self, NoProcessGroups> {
        let text = |file| fs::read_to_string(file).map_err(|_| NoProcessGroups::NotMounted);
        let candidates = own_groups(&text(MOUNTS)?, &text(OWN)?);
        let own = candidates.into_iter().find(|path| path.join(PROCESSES).is_file());
        let groups = Self { own: own.ok_or(NoProcessGroups::NotMounted)? };
        groups.check()?;
        Ok(groups)
    }

    /// The group with this name; it is not made yet. Names must not be used twice.
    pub fn group(&self, name: &str) -> ProcessGroup {
        ProcessGroup { path: self.own.join(name) }
    }

    /// Moving a process needs the right to write to the group it goes to and to the one above both.
    fn check(&self) -> Result<(), NoProcessGroups> {
        let path = self.own.clone();
        let refused = |error| NoProcessGroups::NotAllowed { path: path.clone(), error };
        let useless = |problem| NoProcessGroups::Useless { path: path.clone(), problem };
        let probe = self.group(&format!("turnstream-probe-{}-{}", std::process::id(), unique()));
        probe.make().map_err(refused)?;
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

// === impl ProcessGroup ===

impl ProcessGroup {
    /// The group that was made at this path, perhaps by a process before this one.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Its directory below the cgroup mount.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it.
    pub fn make(&self) -> io::Result<()> {
        match fs::create_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    /// Moves a process here. What it starts from then on is here too; what it started before is not.
    pub fn take_in(&self, process: i32) -> io::Result<()> {
        self.write(PROCESSES, &process.to_string())
    }

    /// The processes in it and in the groups below it. Those of another namespace are not named.
    pub fn processes(&self) -> Vec<i32> {
        let listed = |group: PathBuf| fs::read_to_string(group.join(PROCESSES)).unwrap_or_default();
        let texts: Vec<String> = self.with_below().into_iter().map(listed).collect();
        texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.parse().ok()).collect()
    }

    /// True while any process is in it or below it, named or not.
    pub fn is_populated(&self) -> bool {
        let events = fs::read_to_string(self.path.join("cgroup.events")).unwrap_or_default();
        events.lines().any(|line| line == "populated 1")
    }

    /// Kills all that is in it and below it. They are gone a moment later.
    pub fn kill(&self) {
        // A group that is not there holds nothing.
        let _ = self.write(KILL, "1");
    }

    /// Removes it, if nothing is in it any more.
    pub fn remove(&self) {
        for group in self.with_below().iter().rev() {
            let _ = fs::remove_dir(group);
        }
    }

    /// Removes it as soon as what was killed in it is gone, without making the caller wait.
    pub fn remove_soon(self) {
        std::thread::spawn(move || {
            for _ in 0..REMOVE_TRIES {
                self.remove();
                if !self.path.exists() {
                    return;
                }
                std::thread::sleep(REMOVE_PAUSE);
            }
        });
    }

    /// It and the groups below it, each before those below it.
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

    /// Never makes the file: outside of a control group there is none.
    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(self.path.join(file))?;
        io::Write::write_all(&mut file, text.as_bytes())
    }
}

/// Tells apart the probes of threads of one process.
fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Where the group of this process may be, by each mount of cgroup v2. A mount may show a part of the tree
/// only.
fn own_groups(mounts: &str, own: &str) -> Vec<PathBuf> {
    let Some(own) = own.lines().find_map(|line| line.strip_prefix("0::")) else { return Vec::new() };
    // A group outside of what this process may see.
    if Path::new(own).components().any(|part| part == std::path::Component::ParentDir) {
        return Vec::new();
    }
    mounts.lines().filter_map(cgroup2_mount).filter_map(|(root, at)| below(own, &root, &at)).collect()
}

fn below(own: &str, root: &str, at: &str) -> Option<PathBuf> {
    let rest = Path::new(own).strip_prefix(root).ok()?;
    Some(Path::new(at).join(rest))
}

/// The root and the place of a mount, if it is one of cgroup v2: the fourth and fifth field, and the type
/// behind a dash.
fn cgroup2_mount(line: &str) -> Option<(String, String)> {
    let (fields, kind) = line.split_once(" - ")?;
    let mut fields = fields.split(' ').skip(3);
    let (root, at) = (fields.next()?, fields.next()?);
    kind.starts_with("cgroup2 ").then(|| (unescaped(root), unescaped(at)))
}

/// Spaces, tabs, line ends and backslashes are written as `\040` and so on.
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
        let groups = match ProcessGroups::find() {
            Ok(groups) => groups,
            Err(error) => return eprintln!("not tried, because no groups can be made here: {error}"),
        };
        let group = groups.group(&format!("turnstream-test-{}", std::process::id()));
        group.make().unwrap();
        // It waits for a line until it is in the group, and then starts a process that leaves it in every
        // other way.
        let mut command = Command::new("sh");
        command.args(["-c", "read line; setsid env -i sh -c 'sleep 300 & wait' &\nwait"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        group.take_in(child.id().try_into().unwrap()).unwrap();
        drop(child.stdin.take());
        let begun = Instant::now();
        while group.processes().len() < 3 {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", group.processes());
            std::thread::sleep(Duration::from_millis(5));
        }
        group.remove();
        assert!(group.is_populated(), "a group with processes is not removed");
        group.kill();
        child.wait().unwrap();
        while group.is_populated() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", group.processes());
            std::thread::sleep(Duration::from_millis(5));
        }
        group.remove();
        assert!(!group.path().exists());
        group.kill();
        assert_eq!(group.processes(), [0; 0], "of a group that is gone nothing is left");
    }
}
