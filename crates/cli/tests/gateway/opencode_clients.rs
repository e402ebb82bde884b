//! opencode's own clients: its commands, and its TUI on a terminal of tmux.

use crate::support::{Home, PATIENCE, stdout};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use turnstream_testkit::agents::OpencodeHome;

/// The clients ask no provider: the gateway answers.
const NO_PROVIDER: &str = "http://127.0.0.1:1/v1";

/// The home of clients, beside that of a gateway.
pub(crate) struct Clients {
    opencode: OpencodeHome,
    /// Where the clients and the sockets of terminals are.
    place: PathBuf,
    token: String,
}

impl Clients {
    /// Clients of the gateway in this home, which has a token.
    pub(crate) fn new(home: &Home, token: &str) -> Self {
        let opencode = OpencodeHome::new(NO_PROVIDER).unwrap();
        Self { opencode, place: home.path("work"), token: token.to_owned() }
    }

    /// opencode itself.
    pub(crate) fn program(&self) -> PathBuf {
        self.opencode.command().unwrap()
    }

    /// A command with the environment of the clients.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.opencode.environment()).env("TERM", "xterm-256color");
        command.env("OPENCODE_SERVER_PASSWORD", &self.token);
        command.current_dir(&self.place).stdin(Stdio::null());
        command
    }

    /// A server of opencode without a password, for its web page.
    pub(crate) fn serve(&self) -> WebServer {
        let mut command = self.command(&self.program());
        command
            .args(["serve", "--hostname", "127.0.0.1", "--port", "0"])
            .env_remove("OPENCODE_SERVER_PASSWORD");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut addresses = lines.filter_map(|line| Some(line.split_once("http://")?.1.trim().to_owned()));
        let address = addresses.next().unwrap();
        WebServer { child, address }
    }

    /// A TUI at this URL.
    pub(crate) fn attach(&self, url: &str, more: &str) -> Tui<'_> {
        let directory = tempfile::tempdir().unwrap();
        let tui = Tui { clients: self, socket: directory.path().join("tmux"), _directory: directory };
        let attach = format!("{} attach {url} {more}", self.program().display());
        tui.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "50", &attach]);
        tui
    }
}

/// A server of opencode.
pub(crate) struct WebServer {
    child: Child,
    pub(crate) address: String,
}

impl Drop for WebServer {
    fn drop(&mut self) {
        // The test has its verdict: one that is gone already is as good.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A TUI. Its tmux is its own, and ends with it.
pub(crate) struct Tui<'a> {
    clients: &'a Clients,
    socket: PathBuf,
    _directory: tempfile::TempDir,
}

impl Tui<'_> {
    fn tmux(&self, args: &[&str]) -> String {
        let mut command = self.clients.command("tmux".as_ref());
        command.arg("-S").arg(&self.socket).args(args);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        stdout(&output).to_owned()
    }

    /// Keys that belong together: the TUI waits only a moment for the next one.
    pub(crate) fn chord(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    pub(crate) fn keys(&self, keys: &[&str]) {
        for key in keys {
            self.tmux(&["send-keys", key]);
        }
    }

    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen shows all of this.
    pub(crate) fn until(&self, words: &[&str]) {
        self.until_screen(&format!("{words:?}"), |screen| words.iter().all(|words| screen.contains(words)));
    }

    /// Waits until the screen does not show this.
    pub(crate) fn until_without(&self, words: &str) {
        self.until_screen(&format!("no {words:?}"), |screen| !screen.contains(words));
    }

    fn until_screen(&self, what: &str, is_right: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if is_right(&screen) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{what} is not on the screen:\n{screen}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Types a prompt. The TUI ignores keys that come before it shows its input.
    pub(crate) fn say(&self, text: &str) {
        self.keys(&[text]);
        self.until(&[text]);
        self.keys(&["Enter"]);
    }

    /// Goes through the agents until this one is shown. The TUI writes its name in its own way.
    pub(crate) fn choose_agent(&self, name: &str) {
        let begun = Instant::now();
        while !self.screen().to_lowercase().contains(name) {
            assert!(begun.elapsed() < PATIENCE, "there is no agent {name}:\n{}", self.screen());
            self.keys(&["Tab"]);
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Stops the open turn. That takes two keys: at once they would be another key, and a late second one
    /// counts as the first.
    pub(crate) fn interrupt(&self) {
        let begun = Instant::now();
        while !self.screen().contains("interrupted") {
            assert!(begun.elapsed() < PATIENCE, "the turn is not interrupted:\n{}", self.screen());
            self.keys(&["Escape"]);
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// Waits until both screens show the same of these lines, in the same order. A TUI paints in steps.
    pub(crate) fn until_same(&self, other: &Self, words: &[&str]) {
        let lines = |screen: &str| -> Vec<String> {
            let shown = |line: &str| words.iter().find(|words| line.contains(**words)).copied();
            screen.lines().filter_map(shown).map(str::to_owned).collect()
        };
        let what = format!("what the other one shows:\n{}", other.screen());
        self.until_screen(&what, |screen| lines(screen) == lines(&other.screen()));
    }
}

impl Drop for Tui<'_> {
    fn drop(&mut self) {
        // The test has its verdict: a server that is gone already is as good.
        let mut command = self.clients.command("tmux".as_ref());
        drop(command.arg("-S").arg(&self.socket).arg("kill-server").output());
    }
}
