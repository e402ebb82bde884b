//! The gateway of the demo: this program, as a process of its own that can be killed.

use super::stage::StageError;
use crate::gateway_file;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

/// How long a gateway may take to start.
const START: Duration = Duration::from_secs(60);
/// How long it may take to end. It takes at most 5 seconds by itself.
const END: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// A running gateway. Dropping it kills it.
pub(super) struct Gateway {
    child: Child,
    pub(super) pid: u32,
    pub(super) address: SocketAddr,
}

impl Gateway {
    /// Starts a gateway on the data directory `data` of this home, and waits until it can be reached.
    pub(super) async fn start(home: &Path) -> Result<Self, StageError> {
        let cannot = |error| StageError::Io { what: "start the gateway", error };
        let program = std::env::current_exe().map_err(cannot)?;
        let log = File::options().create(true).append(true).open(home.join("gateway.log")).map_err(cannot)?;
        let data = home.join("data");
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--end-with"]).arg(std::process::id().to_string());
        command.arg("--config").arg(home.join("turnstream.toml")).arg("--data").arg(&data);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        // Nothing of this user's settings decides anything here.
        command.env_clear().env("HOME", home).current_dir(home.join("work"));
        command.envs(["PATH", "TMPDIR"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        let mut child = command.spawn().map_err(cannot)?;
        let pid = child.id().unwrap_or_default();
        let begun = Instant::now();
        loop {
            if let Some(running) = gateway_file::read(&data).filter(|running| running.pid == pid) {
                return Ok(Self { child, pid, address: running.address });
            }
            if let Some(status) = child.try_wait().map_err(cannot)? {
                return Err(StageError::Ended(status));
            }
            if begun.elapsed() > START {
                return Err(StageError::Slow);
            }
            sleep(POLL).await;
        }
    }

    /// Kills it with SIGKILL, and waits until it is dead.
    pub(super) async fn kill(mut self) -> Result<(), StageError> {
        self.child.kill().await.map_err(|error| StageError::Io { what: "kill the gateway", error })
    }

    /// Asks it to end, and kills it if it does not.
    pub(super) async fn end(mut self) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        // The process is a child that was not waited for, so its number is still its own.
        if let Some(pid) = pid.filter(|_| self.child.id().is_some()) {
            let _is_gone = kill_process(pid, Signal::TERM);
        }
        if timeout(END, self.child.wait()).await.is_err() {
            let _is_gone = self.child.kill().await;
        }
    }
}
