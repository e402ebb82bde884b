//! What the demo runs on: a temporary directory, a provider, a gateway, and the client's connection to it.

use super::cable::Cable;
use super::gateway::Gateway;
use super::script::{self, Answer, MODEL};
use crate::client::{Client, ClientError};
use crate::config::TokenText;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use tempfile::TempDir;
use turnstream_fake_provider::{Provider, Request, StartError};
use turnstream_server::{TokenFile, TokenFileError};

/// The files in the directory of the agent.
const FILES: [(&str, &str); 3] =
    [("hello.txt", "Helo, world!\n"), ("drafts/keep.txt", "keep\n"), ("drafts/old/one.txt", "old\n")];

/// The files as they are after what the user asked for.
const WANTED: [(&str, Option<&str>); 3] = [
    ("hello.txt", Some("Hello, world!\n")),
    ("drafts/keep.txt", Some("keep\n")),
    ("drafts/old/one.txt", None),
];

/// Lines of the gateway's log that are shown when the demo fails.
const LOG_LINES: usize = 20;

/// Everything that the demo has started and made.
pub(super) struct Stage {
    home: TempDir,
    pub(super) answers: Vec<Answer>,
    provider: Provider,
    /// None after a kill.
    gateway: Option<Gateway>,
    pub(super) cable: Cable,
}

/// What the demo could not remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) processes: usize,
    pub(super) files: usize,
}

/// Why there is nothing to show the demo on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StageError {
    #[error("cannot {what}: {error}")]
    Io {
        what: &'static str,
        #[source]
        error: io::Error,
    },
    #[error(transparent)]
    Provider(#[from] StartError),
    #[error("the gateway did not start: it ended with {0}")]
    Ended(ExitStatus),
    #[error("the gateway does not start")]
    Slow,
    #[error("the gateway is not running")]
    Killed,
    #[error(transparent)]
    Token(#[from] TokenFileError),
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl Stage {
    /// Sets everything up. What was started is ended again if something fails.
    pub(super) async fn set(answers: Vec<Answer>) -> Result<Self, StageError> {
        let cannot = |error| StageError::Io { what: "make a temporary directory", error };
        let home = tempfile::Builder::new().prefix("turnstream-demo-").tempdir().map_err(cannot)?;
        for (name, content) in FILES {
            let path = home.path().join("work").join(name);
            let folder = path.parent().unwrap_or(&path);
            std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, content)).map_err(cannot)?;
        }
        let provider = Provider::start(script::script(&answers)).await?;
        let config = config(&provider.openai_base_url(), &home.path().join("work"));
        std::fs::write(home.path().join("turnstream.toml"), config).map_err(cannot)?;
        let gateway = Gateway::start(home.path()).await?;
        let cable = Cable::lay(gateway.address);
        let cable = cable.await.map_err(|error| StageError::Io { what: "open a connection", error })?;
        Ok(Self { home, answers, provider, gateway: Some(gateway), cable })
    }

    /// The directory of the agent.
    pub(super) fn work(&self) -> PathBuf {
        self.home.path().join("work")
    }

    pub(super) fn gateway(&self) -> Result<&Gateway, StageError> {
        self.gateway.as_ref().ok_or(StageError::Killed)
    }

    pub(super) fn provider_url(&self) -> String {
        self.provider.base_url()
    }

    /// The calls to the model so far.
    pub(super) fn model_calls(&self) -> Vec<Request> {
        self.provider.calls()
    }

    /// A client that asks the gateway directly.
    pub(super) fn client(&self) -> Result<Client, StageError> {
        self.client_at(&format!("http://{}", self.gateway()?.address))
    }

    /// A client behind the connection that is cut.
    pub(super) fn client_behind_cable(&self) -> Result<Client, StageError> {
        self.client_at(&format!("http://{}", self.cable.address()))
    }

    fn client_at(&self, url: &str) -> Result<Client, StageError> {
        let token = TokenFile::open(&self.home.path().join("data"))?.token()?;
        Ok(Client::new(url, Some(TokenText::from(token.expose().to_owned())))?)
    }

    /// Kills the gateway with SIGKILL.
    pub(super) async fn kill_gateway(&mut self) -> Result<(), StageError> {
        self.gateway.take().ok_or(StageError::Killed)?.kill().await
    }

    /// Starts the gateway again, on the same data.
    pub(super) async fn restart_gateway(&mut self) -> Result<(), StageError> {
        let gateway = Gateway::start(self.home.path()).await?;
        self.cable.lead_to(gateway.address);
        self.gateway = Some(gateway);
        Ok(())
    }

    /// How many files are not what the user asked for.
    pub(super) fn wrong_files(&self) -> usize {
        let content = |name: &str| std::fs::read_to_string(self.work().join(name)).ok();
        WANTED.iter().filter(|(name, wanted)| content(name).as_deref() != *wanted).count()
    }

    /// The end of the gateway's log.
    pub(super) fn gateway_log(&self) -> String {
        let log = std::fs::read_to_string(self.home.path().join("gateway.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    /// Ends every process, removes every file, and looks for what is left.
    pub(super) async fn clear(self) -> Left {
        let Self { home, provider, gateway, cable, answers: _ } = self;
        drop(cable);
        let pid = gateway.as_ref().map(|gateway| gateway.pid);
        if let Some(gateway) = gateway {
            gateway.end().await;
        }
        provider.shutdown().await;
        let path = home.path().to_owned();
        // What could not be removed is counted below.
        let _removed = home.close();
        Left { processes: pid.into_iter().filter(|pid| is_running(*pid)).count(), files: count_files(&path) }
    }
}

/// The configuration of the gateway: a route to the provider, and the agent.
fn config(provider: &str, work: &Path) -> String {
    let work = work.display().to_string();
    format!(
        "roots = [{work:?}]\ndiscover = false\n\n[llm.routes.main]\nurl = {provider:?}\nformat = \"chat\"\nmodel = \
         {MODEL:?}\n\n[agents.builtin]\nkind = \"builtin\"\nroute = \"main\"\n"
    )
}

/// Whether a process of this number runs that can be signalled.
fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

/// The files and directories at a path.
fn count_files(path: &Path) -> usize {
    if !path.exists() {
        return 0;
    }
    let inner = std::fs::read_dir(path).into_iter().flatten().flatten();
    1 + inner.map(|entry| count_files(&entry.path())).sum::<usize>()
}
