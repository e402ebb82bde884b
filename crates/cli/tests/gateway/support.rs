//! A home directory, and commands that run in it.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long anything may take here before the test fails; nothing should come near it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(400);

/// What the end of a gateway may take here: less than five seconds, and more on a machine that has other
/// work to do. What keeps it from ending in these tests would do so for ever.
pub(crate) const ENDED: Duration = Duration::from_secs(60);

/// A directory for everything a command could touch.
pub(crate) struct Home(tempfile::TempDir);

/// The tokens of the gateways that run, by address.
static TOKENS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// A gateway that runs. Killed with the test.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) address: String,
    out: PathBuf,
}

impl Home {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("work")).unwrap();
        Self(home)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes the data directory before a gateway does.
    pub(crate) fn make_data(&self) {
        private_directory(&self.path("data"));
    }

    /// A command in the working directory, with nothing of the surrounding environment that could decide
    /// something. Without a `PATH` no agent is found.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_turnstream"));
        command.args(args).current_dir(self.path("work")).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).env_clear();
        command.env("HOME", self.0.path()).env("TURNSTREAM_DATA", self.path("data")).env("TERM", "xterm");
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// What a command says that found no gateway.
    pub(crate) fn hosted(&self) -> String {
        let data = self.path("data");
        format!("no gateway serves {}: this command hosts its own while it runs", data.display())
    }

    /// Plays a script.
    pub(crate) fn play(&self, script: &Value, more: &[&str]) -> Output {
        let prompt = prompt(script);
        self.run(&[&["run", prompt.as_str()], more].concat())
    }

    /// Starts a gateway and waits until it answers.
    pub(crate) fn serve(&self, args: &[&str]) -> Serving {
        self.serve_armed(args, |_| {})
    }

    /// The same, with something done to the command first.
    pub(crate) fn serve_armed(&self, args: &[&str], arm: impl FnOnce(&mut Command)) -> Serving {
        let out = self.path("serve.out");
        let mut command = self.command(&[&["serve"], args].concat());
        if !args.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.stdout(File::create(&out).unwrap()).stderr(File::create(self.path("serve.err")).unwrap());
        arm(&mut command);
        let mut child = command.spawn().unwrap();
        let note = self.path("data/gateway.json");
        let begun = Instant::now();
        let pid = child.id();
        loop {
            let running: Value = std::fs::read(&note)
                .ok()
                .and_then(|text| serde_json::from_slice(&text).ok())
                .unwrap_or_default();
            if running["pid"] == pid {
                let address = running["address"].as_str().unwrap().to_owned();
                let token = self.token(&command, args);
                TOKENS.lock().unwrap().insert(address.clone(), token);
                return Serving { child, address, out };
            }
            if let Some(status) = child.try_wait().unwrap() {
                panic!("it ended with {status}: {}", read(&self.path("serve.err")));
            }
            assert!(begun.elapsed() < PATIENCE, "it does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Home {
    /// The token of a gateway that was started like this, as a person gets it. Empty if it needs none.
    fn token(&self, started: &Command, args: &[&str]) -> String {
        let mut command = self.command(&["token"]);
        for (at, flag) in args.iter().enumerate() {
            if ["--config", "--data", "--token"].contains(flag) {
                command.args(&args[at..at + 2]);
            }
        }
        for (name, value) in started.get_envs() {
            match (name.to_str(), value) {
                (
                    Some("TURNSTREAM_TOKEN" | "TURNSTREAM_DATA" | "TURNSTREAM_CONFIG" | "TURNSTREAM_AUTH"),
                    Some(value),
                ) => command.env(name, value),
                (Some("TURNSTREAM_DATA"), None) => command.env_remove(name),
                _ => &mut command,
            };
        }
        let token = command.output().unwrap();
        assert!(matches!(token.status.code(), Some(0 | 1)), "{token:?}");
        stdout(&token).trim().to_owned()
    }
}

/// Requests to this address have this token from now on.
pub(crate) fn set_token(address: &str, token: &str) {
    TOKENS.lock().unwrap().insert(address.to_owned(), token.to_owned());
}

/// The token of the gateway at an address.
pub(crate) fn token_of(address: &str) -> String {
    TOKENS.lock().unwrap().get(address).cloned().unwrap_or_default()
}

impl Serving {
    /// Its token.
    pub(crate) fn token(&self) -> String {
        token_of(&self.address)
    }

    /// What it printed.
    pub(crate) fn screen(&self) -> String {
        // The note is written before the screen is.
        wait_for(|| Some(read(&self.out)).filter(|screen| screen.contains("Ctrl-C")))
    }

    /// Tells it to end, and waits.
    pub(crate) fn end(mut self, signal: Signal) -> (std::process::ExitStatus, Duration) {
        let begun = Instant::now();
        send(&self.child, signal);
        (self.child.wait().unwrap(), begun.elapsed())
    }
}

impl Drop for Serving {
    /// A gateway that is killed leaves its agents running, so it is asked first.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            send(&self.child, Signal::TERM);
        }
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begun.elapsed() < ENDED {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program in the directory `bin` of a home. It is written under another name first, as installers do.
pub(crate) fn install(home: &Home, name: &str, body: &str) -> PathBuf {
    let bin = home.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let (new, path) = (bin.join(".new"), bin.join(name));
    std::fs::write(&new, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&new, &path).unwrap();
    path
}

/// A directory that only this user can enter, as a gateway needs it.
pub(crate) fn private_directory(path: &Path) {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).unwrap();
}

pub(crate) fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id().try_into().unwrap()).unwrap(), signal).unwrap();
}

pub(crate) fn prompt(script: &Value) -> String {
    serde_json::json!({"script": script, "pace_ms": 0}).to_string()
}

pub(crate) fn read(path: &Path) -> String {
    let mut text = String::new();
    File::open(path).unwrap().read_to_string(&mut text).unwrap();
    text
}

/// Whether this is a run with the long matrices.
pub(crate) fn is_full() -> bool {
    std::env::var_os("TURNSTREAM_FULL").is_some()
}

/// Waits until there is something.
pub(crate) fn wait_for<T>(mut there: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = there() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "it does not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

pub(crate) fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// The head of the answer, and its body.
pub(crate) fn ask(address: &str, method: &str, path: &str, body: &Value) -> (String, Value) {
    let body = body.to_string();
    let mut socket = TcpStream::connect(address).unwrap();
    let (length, token) = (body.len(), token_of(address));
    write!(
        socket,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), serde_json::from_str(body).unwrap())
}
