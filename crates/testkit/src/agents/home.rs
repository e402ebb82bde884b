//! A temporary home, working directory and folder for temporary files.

use super::{Agent, AgentError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::process::Command;

/// The discard port, on which nothing listens.
const NOWHERE: &str = "http://127.0.0.1:9";
/// The variables of [`Home::keep_on_loopback`].
pub(super) const LOOPBACK_ONLY: [(&str, &str); 3] =
    [("HTTPS_PROXY", NOWHERE), ("HTTP_PROXY", NOWHERE), ("NO_PROXY", "127.0.0.1,localhost")];

#[derive(Debug)]
pub(super) struct Home {
    agent: Agent,
    dir: TempDir,
}

impl Home {
    pub(super) fn new(agent: Agent) -> Result<Self, AgentError> {
        let dir = tempfile::Builder::new().prefix("turnstream-agent-").tempdir();
        let home = Self { agent, dir: dir.map_err(agent.io("make a temporary home"))? };
        for part in [home.home(), home.work(), home.tmp()] {
            std::fs::create_dir(&part).map_err(agent.io(format!("make {}", part.display())))?;
        }
        Ok(home)
    }

    pub(super) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// The working directory of the agent.
    pub(super) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn tmp(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    /// Writes a file in the home.
    pub(super) fn write(&self, file: impl AsRef<Path>, text: &str) -> Result<(), AgentError> {
        let path = self.home().join(file);
        let folder = path.parent().unwrap_or(&path).to_owned();
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
        written.map_err(self.agent.io(format!("write {}", path.display())))
    }

    /// The installed agent as a command with a clean environment.
    pub(super) fn command(&self) -> Result<Command, AgentError> {
        let mut command = Command::new(self.agent.find()?);
        command.current_dir(self.work()).env_clear().envs(self.environment());
        Ok(command)
    }

    /// A clean environment, with only PATH of the caller.
    pub(super) fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("PATH", std::env::var_os("PATH").unwrap_or_default()),
            ("HOME", self.home().into()),
            ("TMPDIR", self.tmp().into()),
            ("LANG", "C.UTF-8".into()),
            ("SHELL", "/bin/bash".into()),
        ]
    }

    /// Makes all requests beyond loopback fail at once, for agents without a setting for that.
    ///
    /// Without it, Codex 0.166.0 asks chatgpt.com, github.com and api.github.com, and opencode 1.18.33 asks
    /// the npm registry. Claude Code 2.1.197 asks nobody, and with a proxy omits its `HEAD /`.
    pub(super) fn keep_on_loopback(command: &mut Command) {
        command.envs(LOOPBACK_ONLY);
    }
}
