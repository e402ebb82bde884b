//! A disk that is really full: a small file system in memory, mounted for these tests alone.

use crate::support::{Home, ask, read, set_token, wait_for};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The beginning of the line that says what is wrong.
const FULL: &str = "the disk is full: events wait";
const TOKEN: &str = "a-token-for-the-tests-of-a-full-disk";

/// A shell in a mount namespace of its own, where the data directory is a file system of 160 MiB. The gateway
/// is its child.
struct SmallDisk {
    home: Home,
    shell: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    address: String,
}

impl SmallDisk {
    /// `None` where a user may not mount anything.
    fn mount() -> Option<Self> {
        let home = Home::new();
        let mut shell = Command::new("unshare");
        shell.args(["--map-root-user", "--mount", "sh"]).current_dir(home.path("work"));
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = shell.spawn().ok()?;
        let (commands, answers) = (shell.stdin.take()?, BufReader::new(shell.stdout.take()?));
        let mut disk = Self { home, shell, commands, answers, address: String::new() };
        let data = disk.data();
        std::fs::create_dir(&data).unwrap();
        let mount = format!("mount -t tmpfs -o size=160m,mode=700 tmpfs '{}' && echo done", data.display());
        (disk.ask_shell(&mount)? == "done").then_some(disk)
    }

    fn data(&self) -> PathBuf {
        self.home.path("data")
    }

    /// The first line that a command prints.
    fn ask_shell(&mut self, command: &str) -> Option<String> {
        writeln!(self.commands, "{command}").ok()?;
        let mut line = String::new();
        self.answers.read_line(&mut line).ok()?;
        (!line.is_empty()).then(|| line.trim().to_owned())
    }

    /// Uses up all the space there is.
    fn fill(&mut self, name: &str) {
        let file = self.data().join(name);
        let fill = format!("dd if=/dev/zero of='{}' bs=4k; echo full", file.display());
        assert_eq!(self.ask_shell(&fill).as_deref(), Some("full"));
    }

    fn remove(&mut self, name: &str) {
        let file = self.data().join(name);
        assert_eq!(self.ask_shell(&format!("rm '{}' && echo gone", file.display())).as_deref(), Some("gone"));
    }

    /// Starts a gateway, and waits until it answers.
    fn serve(&mut self) {
        let serve = format!(
            "TURNSTREAM_TOKEN={TOKEN} '{}' serve --data '{}' --listen 127.0.0.1:0 >'{}' 2>&1 & echo $!",
            env!("CARGO_BIN_EXE_turnstream"),
            self.data().display(),
            self.lines().display()
        );
        let pid: u64 = self.ask_shell(&serve).unwrap().parse().unwrap();
        self.address = wait_for(|| {
            let running = self.ask_shell(&format!("kill -0 {pid} && echo yes || echo no"));
            assert_eq!(running.as_deref(), Some("yes"), "it ended: {}", read(&self.lines()));
            // Only the shell sees the file.
            let file = self.data().join("gateway.json");
            let note = self.ask_shell(&format!("cat '{}' || echo none", file.display()))?;
            let note: Value = serde_json::from_str(&note).ok()?;
            (note["pid"] == pid).then(|| note["address"].as_str().unwrap().to_owned())
        });
        set_token(&self.address, TOKEN);
    }

    fn lines(&self) -> PathBuf {
        self.home.path("serve.err")
    }

    fn stop(&mut self) {
        assert_eq!(self.ask_shell("kill $!; wait $!; echo ended").as_deref(), Some("ended"));
    }

    /// Whether the space in reserve is allocated.
    fn has_reserve(&mut self) -> Option<()> {
        let file = self.data().join("reserve");
        let size = self.ask_shell(&format!("stat -c %s '{}' || echo 0", file.display()))?;
        (size == (32 << 20).to_string()).then_some(())
    }

    fn status(&self) -> Value {
        ask(&self.address, "GET", "/v1/health", &json!({})).1["status"].clone()
    }

    /// One clear line for each part that cannot write, and not one for every failed write. The line comes
    /// after the status.
    fn assert_told(&self) {
        let told = wait_for(|| Some(read(&self.lines())).filter(|told| told.contains(FULL)));
        assert!(told.lines().filter(|line| line.contains(FULL)).count() <= 3, "{told}");
    }

    fn until_degraded(&self) {
        wait_for(|| (self.status() == "degraded").then_some(()));
    }

    fn until_sound(&self) {
        wait_for(|| (self.status() != "degraded").then_some(()));
    }

    fn session(&self) -> String {
        let new = json!({"agent": "scripted", "cwd": self.home.path("work")});
        let (head, session) = ask(&self.address, "POST", "/v1/sessions", &new);
        assert!(head.starts_with("http/1.1 201 "), "{head}: {session}");
        session["id"].as_str().unwrap().to_owned()
    }

    /// Sends a prompt whose answer has so many bytes, and returns the head of the answer.
    fn prompt(&self, session: &str, bytes: usize) -> String {
        let text = "lorem ".repeat(bytes / 6 + 1);
        let script = json!({"script": [{"do": "text", "text": text, "chunks": 1}], "pace_ms": 0});
        let body = json!({"content": [{"type": "text", "text": script.to_string()}]});
        ask(&self.address, "POST", &format!("/v1/sessions/{session}/prompts"), &body).0
    }

    /// Every turn has at least eight events.
    fn until_turns_ended(&self, session: &str, turns: u64) {
        let path = format!("/v1/sessions/{session}");
        wait_for(|| {
            let session = ask(&self.address, "GET", &path, &json!({})).1;
            (session["head"].as_u64().unwrap() > 8 * turns && session["status"] == "idle").then_some(())
        });
    }

    fn until_idle(&self, session: &str) {
        let path = format!("/v1/sessions/{session}");
        wait_for(|| (ask(&self.address, "GET", &path, &json!({})).1["status"] == "idle").then_some(()));
    }

    /// Deletes a session, and waits until its bytes are gone.
    fn delete(&self, session: &str) {
        wait_for(|| {
            let (head, body) = ask(&self.address, "DELETE", &format!("/v1/sessions/{session}"), &json!({}));
            assert!(head.starts_with("http/1.1 20"), "{head}: {body}\n{}", read(&self.lines()));
            (body["removed"] == true).then_some(())
        });
        let (head, _) = ask(&self.address, "GET", &format!("/v1/sessions/{session}"), &json!({}));
        assert!(head.starts_with("http/1.1 404 "), "{head}");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The shell ends its gateway before it ends itself.
        drop(writeln!(self.commands, "kill $!; wait $!; exit"));
        drop(self.shell.wait());
    }
}

#[test]
fn on_a_full_disk_a_session_can_be_deleted_and_the_gateway_started() {
    let Some(mut disk) = SmallDisk::mount() else {
        assert!(std::env::var_os("CI").is_none(), "this user may not mount a file system");
        eprintln!("skipped: this user may not mount a file system");
        return;
    };
    disk.serve();
    let (large, small) = (disk.session(), disk.session());
    for turns in 1..=3 {
        assert!(disk.prompt(&large, 1 << 20).starts_with("http/1.1 202 "));
        disk.until_turns_ended(&large, turns);
    }
    wait_for(|| disk.has_reserve());
    disk.fill("filler");
    // They are accepted as long as there is room in a segment, and those are kept in any case.
    wait_for(|| {
        disk.prompt(&small, 1);
        (disk.status() == "degraded").then_some(())
    });
    assert!(disk.prompt(&small, 1).starts_with("http/1.1 503 "));
    disk.assert_told();

    disk.stop();
    disk.fill("what-was-freed-by-the-stop");
    disk.serve();
    disk.fill("what-was-freed-by-the-start");
    disk.until_degraded();
    disk.assert_told();
    disk.delete(&large);
    disk.until_sound();
    disk.until_idle(&small);
    assert!(disk.prompt(&small, 1).starts_with("http/1.1 202 "), "there is room again");
    disk.until_idle(&small);
    for file in ["filler", "what-was-freed-by-the-stop", "what-was-freed-by-the-start"] {
        disk.remove(file);
    }
    wait_for(|| disk.has_reserve());
}
