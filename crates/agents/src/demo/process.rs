//! A real process of the agent, as real agents have them: a shell with a child, in a process group of their
//! own. The program is fixed: a script cannot choose it.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A shell and its child. They end by themselves if nobody ends them.
const PROGRAM: &str = "sleep 60 & wait";

/// A process group that is killed when this is dropped.
pub(super) struct Process(Child);

impl Process {
    pub(super) fn start() -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", PROGRAM]).env_clear().process_group(0);
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        shell.spawn().map(Self)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It was not waited for, so the id is still its own.
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw)
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            // The whole group has ended already.
            tracing::debug!(pid = self.0.id(), %error, "cannot kill a process group");
        }
        // Returns at once: the process was killed.
        if let Err(error) = self.0.wait() {
            tracing::warn!(pid = self.0.id(), %error, "cannot wait for a process of the demo agent");
        }
    }
}
