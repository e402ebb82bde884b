//! opencode's own clients over the demo agent: the TUI on a terminal, `opencode run --attach`, and the SDK.

use crate::opencode_clients::{Clients, Tui};
use crate::opencode_scenes::Scene;
use crate::support::{Home, Serving, ask, is_full, prompt, stdout};
use serde_json::{Value, json};
use std::cell::RefCell;
use turnstream_fake_provider::{Completion, Part, Step};

/// What the demo agent says before it asks, and after each answer.
const ASKS: &str = "May I?";
const ALLOWED: &str = "I have read it back";
const REJECTED: &str = "I have not written anything";

/// A gateway with the demo agent, and clients of it.
struct Lab {
    home: Home,
    serving: RefCell<Serving>,
    clients: Clients,
}

impl Lab {
    fn new() -> Self {
        Self::with_page("127.0.0.1:1")
    }

    /// One that shows the web page of the server at this address.
    fn with_page(page: &str) -> Self {
        let home = Home::new();
        let serving = home.serve_armed(&[], |command| {
            command.env("TURNSTREAM_OPENCODE_LISTEN", "127.0.0.1:0").env("TURNSTREAM_OPENCODE_UI", page);
        });
        let clients = Clients::new(&home, &serving.token());
        Self { home, serving: RefCell::new(serving), clients }
    }

    fn url(&self) -> String {
        format!("http://{}/opencode", self.address())
    }

    /// The address of opencode's API alone, without a path.
    fn own_url(&self) -> String {
        let screen = self.serving.borrow().screen();
        let line = screen.lines().find_map(|line| line.trim().strip_prefix("opencode "));
        line.and_then(|line| line.split(' ').next()).unwrap().to_owned()
    }

    fn address(&self) -> String {
        self.serving.borrow().address.clone()
    }

    fn token(&self) -> String {
        self.serving.borrow().token()
    }

    fn attach(&self, more: &str) -> Tui<'_> {
        self.clients.attach(&self.url(), more)
    }

    /// Kills the gateway, and starts another one at the same address.
    fn restart(&self) {
        let listen = self.address();
        let mut serving = self.serving.borrow_mut();
        serving.child.kill().unwrap();
        serving.child.wait().unwrap();
        *serving = self.home.serve(&["--listen", &listen]);
    }

    /// Sends a prompt by the gateway's own API, to the only session.
    fn play(&self, script: &Value) {
        let (_, listed) = ask(&self.address(), "GET", "/v1/sessions", &Value::Null);
        let path = format!("/v1/sessions/{}/prompts", listed["sessions"][0]["id"].as_str().unwrap());
        let content = json!([{"type": "text", "text": prompt(script)}]);
        ask(&self.address(), "POST", &path, &json!({"content": content}));
    }
}

#[test]
fn run_prints_the_answer_of_any_agent_and_ends_with_its_turn() {
    let lab = Lab::new();
    // The second one continues the session, of which everything is repeated first.
    for (url, more) in [(lab.url(), &[][..]), (lab.own_url(), &["--continue"])] {
        let mut run = lab.clients.command(&lab.clients.program());
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
    let folder = lab.clients.program();
    let modules = folder.ancestors().nth(2).unwrap();
    let script = lab.home.path("judge.mjs");
    std::fs::write(&script, include_str!("api_sdk.mjs")).unwrap();
    let mut node = lab.clients.command("node".as_ref());
    node.arg(&script).env("MODULES", modules).env("URL", lab.url()).env("DIRECTORY", lab.home.path("work"));
    let output = node.output().unwrap();
    let said = stdout(&output);
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
    let want = "status busy\npermission.asked\npermission.replied once\nstatus idle\nsession.idle\n\
                answer stop\nmessages user assistant assistant\n";
    assert_eq!(said, want);
}

/// Chromium and its driver are those of the tests of the gateway's own page.
#[test]
fn the_web_page_of_a_real_server_shows_a_session_and_drives_it() {
    if !is_full() {
        return;
    }
    let place = Home::new();
    let server = Clients::new(&place, "").serve();
    let lab = Lab::with_page(&server.address);
    let (url, directory) = (lab.own_url(), lab.home.path("work"));
    let create = format!("/opencode/session?directory={}", directory.display());
    let (_, session) = ask(&lab.address(), "POST", &create, &json!({"agent": "scripted"}));
    lab.play(&json!([{"do": "text", "text": "Written before the page."}]));
    let tools = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/node_modules");
    let script = lab.home.path("judge.mjs");
    std::fs::write(&script, include_str!("web_page.mjs")).unwrap();
    let mut node = lab.clients.command("node".as_ref());
    let chromium = std::env::var("TURNSTREAM_CHROMIUM").unwrap_or("/usr/bin/chromium".to_owned());
    node.arg(&script).env("MODULES", tools).env("CHROMIUM", chromium).env("URL", &url);
    node.env("TOKEN", lab.token()).env("DIRECTORY", &directory);
    node.env("SESSION", session["id"].as_str().unwrap());
    let output = node.output().unwrap();
    let said = (stdout(&output), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said:?}; `cargo xtask page` installs the driver of Chromium");
}

#[test]
fn the_tui_shows_a_turn_its_dialog_also_on_a_second_one_its_abort_and_the_list_of_sessions() {
    let lab = Lab::new();
    std::fs::create_dir(lab.home.path("work/notes")).unwrap();
    std::fs::write(lab.home.path("work/notes/complete-me.txt"), "x").unwrap();
    let tui = lab.attach("");
    tui.until(&["Scripted"]);
    // Part of a file's name becomes its path.
    tui.keys(&["@comp"]);
    tui.until(&["notes/complete-me.txt"]);
    tui.keys(&["Enter"]);
    tui.until(&["@notes/complete-me.txt"]);
    tui.keys(&["C-c"]);
    tui.until_without("complete-me");
    tui.say("Show me a turn");
    tui.until(&["Show me a turn", ASKS, "Permission required", "Allow once"]);
    let second = lab.attach("--continue");
    second.until(&["Show me a turn", ASKS, "Permission required"]);
    tui.keys(&["Enter"]);
    tui.until(&[ALLOWED]);
    second.until(&[ALLOWED]);
    second.until_without("Permission required");
    // A turn that goes on until it is stopped.
    lab.play(&json!([{"do": "text", "text": "Stop me."}, {"do": "sleep", "ms": 900_000}]));
    tui.until(&["Stop me.", "esc interrupt"]);
    tui.interrupt();
    second.until(&["interrupted"]);
    let told = ["Show me a turn", ASKS, ALLOWED, "Stop me.", "interrupted"];
    second.until_same(&tui, &told);
    // A second session, and back to the first one.
    tui.chord(&["C-x", "n"]);
    tui.until_without("Stop me.");
    tui.until(&["Scripted"]);
    tui.say("Something else");
    tui.until(&["Something else", "Permission required"]);
    tui.keys(&["Right", "Right", "Enter"]);
    tui.until(&[REJECTED]);
    tui.chord(&["C-x", "l"]);
    tui.until(&["Sessions", "Today"]);
    tui.keys(&["Down", "Enter"]);
    tui.until(&["Stop me.", "interrupted"]);
}

#[test]
fn the_tui_comes_back_to_a_correct_screen_when_the_gateway_is_killed_in_a_turn() {
    let lab = Lab::new();
    let tui = lab.attach("");
    tui.until(&["Scripted"]);
    tui.say("Survive this");
    tui.until(&["“Survive this”"]);
    lab.restart();
    tui.until(&["Survive this", ASKS, "Permission required"]);
    tui.keys(&["Right", "Right", "Enter"]);
    tui.until(&[REJECTED]);
}

#[test]
fn the_tui_drives_a_real_opencode_behind_the_gateway_and_opens_its_subagent() {
    if !is_full() {
        return;
    }
    let task = json!({"description": "Look around", "prompt": "GO-AND-LOOK", "subagent_type": "general"});
    let lab = super::Lab::new([
        Step::text("I saw it.").for_user_text("GO-AND-LOOK").always(),
        Step::text("Hello from behind."),
        Step::new(Completion::of([Part::tool_call("task", task)])),
        Step::text("My subagent is back."),
        Step::text("Once more.").always(),
    ]);
    let serving = lab.serve();
    let scene = Scene { home: &lab.home, serving: &serving, agent: "Opencode", mark: "" };
    let clients = scene.clients();
    let tui = scene.attach(&clients, "");
    tui.until(&["Opencode"]);
    tui.say("Who is there");
    tui.until(&["Who is there", "Hello from behind."]);
    tui.until_without("esc interrupt");
    tui.say("Send somebody");
    tui.until(&["Look around", "My subagent is back."]);
    // The first child of the session.
    tui.chord(&["C-x", "Down"]);
    tui.until(&["GO-AND-LOOK", "I saw it."]);
    scene.run("And again", "Once more.");
}

#[test]
fn the_tui_answers_a_question_of_the_demo_agent() {
    let lab = Lab::new();
    let (home, serving) = (&lab.home, lab.serving.borrow());
    let scene = Scene { home, serving: &serving, agent: "Scripted", mark: "" };
    let clients = scene.clients();
    let create = format!("/opencode/session?directory={}", home.path("work").display());
    ask(&lab.address(), "POST", &create, &json!({"agent": "scripted"}));
    let tui = scene.attach(&clients, "--continue");
    tui.until(&["Scripted"]);
    let options = json!([{"label": "Tea"}, {"label": "Coffee"}]);
    let question = json!([{"id": "0", "text": "Tea or coffee?", "options": options}]);
    lab.play(
        &json!([{"do": "question", "questions": question}, {"do": "text", "text": "Then it is that one."}]),
    );
    tui.until(&["Tea or coffee?", "Tea", "Coffee"]);
    tui.keys(&["Down", "Enter"]);
    tui.until(&["Then it is that one."]);
}
