//! A real process beside the agent, as real agents have them: a shell with a child, in a process group of their own. No
//! script can choose what runs.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Two processes, one below the other. They end by themselves, for the case that nobody can end them.
const PROGRAM: &str = "sleep 60 & wait";

/// Ends with its group when it is dropped.
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
        // It has not been waited for, so the number is still its own.
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // Refused only when all of it has ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
        // At once: it was killed.
        let _ = self.0.wait();
    }
}
