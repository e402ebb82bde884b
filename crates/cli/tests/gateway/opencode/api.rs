//! opencode's own clients over the demo agent: the TUI on a terminal, `opencode run --attach`, and the SDK.

use crate::support::{Home, PATIENCE, Serving, ask, prompt, stdout};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use turnstream_testkit::agents::OpencodeHome;

/// The client asks no provider: the gateway answers.
const NO_PROVIDER: &str = "http://127.0.0.1:1/v1";
/// What the demo agent says before it asks, and after each answer.
const ASKS: &str = "May I?";
const ALLOWED: &str = "I have read it back";
const REJECTED: &str = "I have not written anything";

/// A gateway with the demo agent, and the home of a client.
struct Lab {
    home: Home,
    serving: RefCell<Serving>,
    client: OpencodeHome,
}

impl Lab {
    fn new() -> Self {
        let home = Home::new();
        let serving = RefCell::new(home.serve(&[]));
        Self { home, serving, client: OpencodeHome::new(NO_PROVIDER).unwrap() }
    }

    fn url(&self) -> String {
        format!("http://{}/opencode", self.address())
    }

    fn address(&self) -> String {
        self.serving.borrow().address.clone()
    }

    /// Kills the gateway, and starts another one at the same address.
    fn restart(&self) {
        let listen = self.address();
        let mut serving = self.serving.borrow_mut();
        serving.child.kill().unwrap();
        serving.child.wait().unwrap();
        *serving = self.home.serve(&["--listen", &listen]);
    }

    /// Sends a prompt by the gateway's own API.
    fn play(&self, script: &Value) {
        let (_, listed) = ask(&self.address(), "GET", "/v1/sessions", &Value::Null);
        let path = format!("/v1/sessions/{}/prompts", listed["sessions"][0]["id"].as_str().unwrap());
        let content = json!([{"type": "text", "text": prompt(script)}]);
        ask(&self.address(), "POST", &path, &json!({"content": content}));
    }

    fn token(&self) -> String {
        stdout(&self.home.run(&["token"])).trim().to_owned()
    }

    /// A command with the environment of the client.
    fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.client.environment()).env("TERM", "xterm-256color");
        command.env("OPENCODE_SERVER_PASSWORD", self.token());
        command.current_dir(self.home.path("work")).stdin(Stdio::null());
        command
    }
}

#[test]
fn run_prints_the_answer_of_any_agent_and_ends_with_its_turn() {
    let lab = Lab::new();
    let url = lab.url();
    // The second one continues the session, of which everything is repeated first.
    for more in [&[][..], &["--continue"]] {
        let mut run = lab.command(&lab.client.command().unwrap());
        run.args(["run", "--attach", &url]).args(more).arg("Hello");
        let output = run.output().unwrap();
        let said = stdout(&output);
        assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
        // It rejects permissions by itself.
        assert!(said.contains(ASKS) && said.contains(REJECTED), "{said}");
    }
}

#[test]
fn the_sdk_prompts_answers_and_is_told_busy_and_idle_once() {
    let lab = Lab::new();
    let folder = lab.client.command().unwrap();
    let modules = folder.ancestors().nth(2).unwrap();
    let script = lab.home.path("judge.mjs");
    std::fs::write(&script, include_str!("api_sdk.mjs")).unwrap();
    let mut node = lab.command("node".as_ref());
    node.arg(&script).env("MODULES", modules).env("URL", lab.url()).env("DIRECTORY", lab.home.path("work"));
    let output = node.output().unwrap();
    let said = stdout(&output);
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
    let want = "status busy\npermission.asked\npermission.replied once\nstatus idle\nsession.idle\n\
                answer stop\nmessages user assistant assistant\n";
    assert_eq!(said, want);
}

/// The TUI on a terminal of tmux. Its server is its own, and ends with it.
struct Tui<'a> {
    lab: &'a Lab,
    socket: std::path::PathBuf,
}

impl<'a> Tui<'a> {
    fn attach(lab: &'a Lab, name: &str, more: &str) -> Self {
        let tui = Self { lab, socket: lab.home.path(name) };
        let attach = format!("{} attach {} {more}", lab.client.command().unwrap().display(), lab.url());
        tui.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "50", &attach]);
        tui
    }

    fn tmux(&self, args: &[&str]) -> String {
        let mut command = self.lab.command("tmux".as_ref());
        command.arg("-S").arg(&self.socket).args(args);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        stdout(&output).to_owned()
    }

    fn keys(&self, keys: &[&str]) {
        for key in keys {
            self.tmux(&["send-keys", key]);
        }
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen shows all of this.
    fn until(&self, words: &[&str]) {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if words.iter().all(|words| screen.contains(words)) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{words:?} is not on the screen:\n{screen}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Types a prompt. The TUI ignores keys that come before it shows its input.
    fn say(&self, text: &str) {
        self.keys(&[text]);
        self.until(&[text]);
        self.keys(&["Enter"]);
    }
}

impl Drop for Tui<'_> {
    fn drop(&mut self) {
        // The test has its verdict: a server that is gone already is as good.
        let mut command = self.lab.command("tmux".as_ref());
        drop(command.arg("-S").arg(&self.socket).arg("kill-server").output());
    }
}

#[test]
fn the_tui_shows_a_turn_its_dialog_also_on_a_second_one_its_abort_and_the_list_of_sessions() {
    let lab = Lab::new();
    let tui = Tui::attach(&lab, "tui", "");
    tui.until(&["Scripted"]);
    tui.say("Show me a turn");
    tui.until(&["Show me a turn", ASKS, "Permission required", "Allow once"]);
    let second = Tui::attach(&lab, "second", "--continue");
    second.until(&["Show me a turn", ASKS, "Permission required"]);
    tui.keys(&["Enter"]);
    tui.until(&[ALLOWED]);
    second.until(&[ALLOWED]);
    assert!(!second.screen().contains("Permission required"), "{}", second.screen());
    // A turn that goes on until it is stopped.
    lab.play(&json!([{"do": "text", "text": "Stop me."}, {"do": "sleep", "ms": 900_000}]));
    tui.until(&["Stop me.", "esc interrupt"]);
    // Two at once would be another key.
    tui.keys(&["Escape"]);
    tui.until(&["again to interrupt"]);
    tui.keys(&["Escape"]);
    tui.until(&["interrupted"]);
    second.until(&["interrupted"]);
    tui.keys(&["C-x", "l"]);
    tui.until(&["Sessions", "Today"]);
}

#[test]
fn the_tui_comes_back_to_a_correct_screen_when_the_gateway_is_killed_in_a_turn() {
    let lab = Lab::new();
    let tui = Tui::attach(&lab, "tui", "");
    tui.until(&["Scripted"]);
    tui.say("Survive this");
    tui.until(&["“Survive this”"]);
    lab.restart();
    tui.until(&["Survive this", ASKS, "Permission required"]);
    tui.keys(&["Right", "Right", "Enter"]);
    tui.until(&[REJECTED]);
}
