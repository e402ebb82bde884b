//! How a server is started: command, environment, port, and the wait until it answers.

use super::output::Output;
use super::processes::{MARK, Process};
use super::record::Record;
use super::{Launch, ServeError, pipe};
use crate::counts::Counted;
use crate::opencode::client::Client;
use crate::process::{ProcessGroup, ProcessGroups};
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};

/// What it says when it is ready. Between its bind and this line it accepts requests and never answers them.
const READY: &str = "listening on ";
/// What every server gets of the environment of this process; nothing else.
const PASSED: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];
const POLL: Duration = Duration::from_millis(50);

/// A process that was started here.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) process: Process,
}

/// Starts the server of this record and waits until it answers. What it started is ended again if it does not, also
/// when the caller gives up waiting.
pub(super) async fn launch(
    launch: &Launch,
    record: &mut Record,
    client: &Client,
    output: &Output,
) -> Result<Started, ServeError> {
    let stdout = output.begin(&record.mark)?;
    let stderr = stdout.try_clone().map_err(ServeError::Pipe)?;
    record.process = None;
    record.cgroup = ProcessGroups::find().ok().map(|groups| group(&groups, &record.mark));
    record.write(&launch.state)?;
    // A limit of the system; the other ways of finding its processes have to do.
    record.cgroup.take_if(|path| ProcessGroup::at(path.clone()).make().is_err());
    let mut command = Command::new(&launch.command);
    command.args(["serve", "--hostname", "127.0.0.1", "--port", &record.port.to_string()]);
    command.env_clear().current_dir(&launch.cwd);
    for name in PASSED {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(launch.env.iter().map(|(name, value)| (name, value)));
    command.env("OPENCODE_SERVER_PASSWORD", &record.password).env(MARK, &record.mark);
    command.env_remove("OPENCODE_SERVER_USERNAME");
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0);
    let not_started = |error: io::Error| ServeError::Command { command: launch.command.clone(), error };
    let mut child = command.spawn().map_err(not_started)?;
    // It has ends of the pipe too, and as long as anybody has, the output does not end.
    drop(command);
    client.counters().count(Counted::ServerStart);
    let mut unready = Unready { family: Some(record.family()) };
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    // A child that is not waited for keeps its id. It is not found only if it has ended already.
    let Some(process) = id.and_then(Process::find) else {
        let status = child.wait().await.map_err(not_started)?;
        client.counters().count(Counted::ServerExit);
        return Err(ended(status, output));
    };
    record.process = Some(process.clone());
    unready.family = Some(record.family());
    // Before it can have a session, and so before any tool. Where groups can be made this does not fail; if
    // it does, the other ways of finding its processes have to do.
    let _ = record.family().take_in();
    record.write(&launch.state)?;
    let mut started = Started { child, process };
    let waited = wait(&mut started, output, launch.ready).await;
    if let Err(error) = waited {
        client.counters().count(Counted::ServerExit);
        return Err(error);
    }
    client
        .health_check()
        .await
        .map_err(|error| ServeError::NotReady { reason: error.to_string(), output: output.tail() })?;
    unready.family = None;
    Ok(started)
}

/// Nobody else has a group of this name: nobody can guess the mark.
fn group(groups: &ProcessGroups, mark: &str) -> PathBuf {
    groups.group(&format!("turnstream-{mark}")).path().to_owned()
}

/// Kills what does not become ready.
struct Unready {
    family: Option<super::processes::Family>,
}

impl Drop for Unready {
    fn drop(&mut self) {
        if let Some(family) = &self.family {
            family.kill();
            pipe::remove(&family.mark);
        }
    }
}

async fn wait(started: &mut Started, output: &Output, ready: Duration) -> Result<(), ServeError> {
    let start = Instant::now();
    loop {
        if output.tail().contains(READY) {
            return Ok(());
        }
        if let Ok(Some(status)) = started.child.try_wait() {
            return Err(ended(status, output));
        }
        if start.elapsed() > ready {
            let reason = format!("it did not say so within {ready:?}");
            return Err(ServeError::NotReady { reason, output: output.tail() });
        }
        tokio::time::sleep(POLL).await;
    }
}

fn ended(status: ExitStatus, output: &Output) -> ServeError {
    ServeError::NotReady { reason: format!("it ended with {status}"), output: output.tail() }
}

/// A port nobody listens on at this moment.
pub(super) fn free_port() -> Result<u16, ServeError> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(ServeError::Port)
}

/// Whether somebody else has the port.
pub(super) fn is_taken(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err()
}

/// Letters nobody can guess.
pub(super) fn random() -> Result<String, ServeError> {
    let mut bytes = [0; 24];
    let filled = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    filled.map_err(ServeError::Random)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
