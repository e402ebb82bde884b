//! A server under test: a process group that ends on drop, and its resource use.

use super::http;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getrlimit, kill_process, kill_process_group, setrlimit,
};
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The discard port, on which nothing listens. Requests beyond loopback fail at once.
const NOWHERE: &str = "http://127.0.0.1:9";
/// The longest start of a server.
const PATIENCE: Duration = Duration::from_secs(20);
/// Linux counts CPU time in hundredths of a second.
const TICKS: f64 = 100.0;

/// Running groups, to end them when this process is told to stop.
static ALIVE: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    group: Pid,
    pub(crate) address: SocketAddr,
    /// Its working directory, which the sessions use too.
    pub(crate) work: PathBuf,
    /// From the start of the process to the first 200 of its health.
    pub(crate) start: Duration,
}

/// The resource use of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Resident memory in bytes, now and at most.
    pub(crate) resident: u64,
    pub(crate) peak: u64,
    /// CPU time so far.
    pub(crate) cpu: Duration,
}

impl Server {
    /// Starts the program as the leader of a new group, and waits until it is healthy.
    pub(crate) fn start(command: Command, address: SocketAddr, said: &Path) -> Result<Self, String> {
        Self::start_at(command, address, said, "/v1/health", PATIENCE)
    }

    /// The same for a server with another path for its health, which may take this long.
    pub(crate) fn start_at(
        mut command: Command,
        address: SocketAddr,
        said: &Path,
        health: &str,
        patience: Duration,
    ) -> Result<Self, String> {
        let work = command.get_current_dir().unwrap_or(Path::new(".")).to_owned();
        let program = PathBuf::from(command.get_program());
        let failed =
            |what: &str, error: &dyn std::fmt::Display| format!("{}: {what}: {error}", program.display());
        let log = File::create(said).map_err(|error| failed("a file for what it says", &error))?;
        let also = log.try_clone().map_err(|error| failed("a file for what it says", &error))?;
        command.stdin(Stdio::null()).stdout(log).stderr(also).process_group(0);
        let begun = Instant::now();
        let child = command.spawn().map_err(|error| failed("cannot start", &error))?;
        let group = Pid::from_child(&child);
        alive(|groups| groups.push(group));
        let mut server = Self { child, group, address, work, start: Duration::ZERO };
        while begun.elapsed() < patience {
            if let Ok((200, _)) = http::request(address, "GET", health, "", Duration::from_secs(1)) {
                server.start = begun.elapsed();
                return Ok(server);
            }
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(failed("ended", &format!("{status}\n{}", last_words(said))));
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        Err(failed("no good health", &last_words(said)))
    }

    /// Stops the server as an operator does, and returns how long that took.
    pub(crate) fn stop(mut self) -> Result<Duration, String> {
        let begun = Instant::now();
        kill_process(self.group, Signal::TERM).map_err(|error| format!("cannot stop the server: {error}"))?;
        let status = self.child.wait().map_err(|error| format!("cannot wait for the server: {error}"))?;
        let took = begun.elapsed();
        if status.success() {
            Ok(took)
        } else {
            Err(format!("the server ended with {status} after {took:.1?}"))
        }
    }

    /// The resource use of the server's own process, without its agents.
    pub(crate) fn usage(&self) -> Usage {
        let id = self.group.as_raw_nonzero();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let kilobytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().split(' ').next()?.parse::<u64>().ok()
        };
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // After the name, which may have spaces, the times are words 12 and 13.
        let words = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        let ticks: f64 = words.skip(11).take(2).filter_map(|word| word.parse::<f64>().ok()).sum();
        Usage {
            resident: kilobytes("VmRSS:").unwrap_or(0) * 1024,
            peak: kilobytes("VmHWM:").unwrap_or(0) * 1024,
            cpu: Duration::from_secs_f64(ticks / TICKS),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The measurement is over, so SIGKILL is enough.
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.child.wait();
        alive(|groups| groups.retain(|group| *group != self.group));
    }
}

/// A command with a new home and a clean environment, except PATH.
pub(crate) fn command(program: &Path, home: &Path) -> Result<Command, String> {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let places = [
        ("HOME", "home"),
        ("TMPDIR", "tmp"),
        ("XDG_DATA_HOME", "data"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_STATE_HOME", "state"),
    ];
    for (name, folder) in places {
        let path = home.join(folder);
        std::fs::create_dir_all(&path).map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        command.env(name, path);
    }
    for name in ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"] {
        command.env(name, NOWHERE);
    }
    command.env("NO_PROXY", "127.0.0.1,localhost").env("LANG", "C.UTF-8").current_dir(home.join("home"));
    Ok(command)
}

/// A port that was free a moment ago.
pub(crate) fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    listener.and_then(|listener| listener.local_addr()).map_err(|error| format!("no free port: {error}"))
}

/// Raises the limit of open files for this process and its children.
pub(crate) fn raise_open_files(wanted: u64) -> Result<(), String> {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX).max(limit.current.unwrap_or(u64::MAX));
    let raised = Rlimit { current: Some(most.max(wanted)), maximum: Some(most.max(wanted)) };
    if limit.current.is_none_or(|current| current >= wanted) || setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(());
    }
    Err(format!(
        "{wanted} open files are needed and {most} are allowed; raise `ulimit -n` and run this again"
    ))
}

/// Ends every server and removes the files when this process is told to stop. The servers have their own
/// process groups, so Ctrl-C does not reach them.
pub(crate) fn end_with_us(files: &Path) -> Result<(), String> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start a runtime: {error}"))?;
    let files = files.to_owned();
    std::thread::spawn(move || {
        runtime.block_on(async {
            let (Ok(mut interrupt), Ok(mut terminate)) =
                (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
            else {
                return;
            };
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            alive(|groups| {
                for group in groups.iter() {
                    let _ = kill_process_group(*group, Signal::KILL);
                }
            });
            let _ = std::fs::remove_dir_all(&files);
            std::process::exit(130);
        });
    });
    Ok(())
}

fn alive<T>(with: impl FnOnce(&mut Vec<Pid>) -> T) -> T {
    with(&mut ALIVE.lock().unwrap_or_else(PoisonError::into_inner))
}

fn last_words(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}
