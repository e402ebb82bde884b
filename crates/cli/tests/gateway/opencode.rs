//! The real opencode behind the real binary: started, asked, killed over, adopted and ended.

mod api;
mod attached;
mod away;
mod budget;
mod cancels;
mod commands;
mod discovered;
mod halves;
mod kills;
mod leftovers;
mod subagents;
mod unattended;

use crate::pty::Terminal;
use crate::support::{Home, Serving, ask, stdout, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Child;
use turnstream_fake_provider::{Completion, Delivery, Part, Provider, Script, Step};
use turnstream_testkit::agents::{Opencode, OpencodeHome};
use turnstream_testkit::lawful::{Tail, assert_lawful};
use turnstream_testkit::leaks::leaks_below;

const LONG: &str = "This answer takes its time, word by word, so that a gateway can be killed in the middle of it and \
                    another one can take it up where the first one left off, without losing or repeating a byte.";

/// On a busy machine an opencode takes its time to start and to begin.
const PATIENT: &str = "[timeouts]\nconnect = \"5m\"\nstart = \"5m\"\nrecovery = \"5m\"\n";

/// A home with an opencode in its configuration, and the provider that opencode asks.
struct Lab {
    home: Home,
    provider: Provider,
    opencode: OpencodeHome,
    runtime: tokio::runtime::Runtime,
}

impl Lab {
    fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let titles = Step::text("A title").for_model(Opencode::TITLE_MODEL).always();
        let script = Script::new([titles].into_iter().chain(steps)).created(Opencode::QUIET_TIME);
        let provider = runtime.block_on(Provider::start(script)).unwrap();
        let opencode = OpencodeHome::new(&provider.openai_base_url()).unwrap();
        let home = Home::new();
        let env: Vec<String> = opencode
            .environment()
            .into_iter()
            .map(|(name, value)| format!("{} = {:?}", name.display(), value.into_string().unwrap()))
            .collect();
        let file = format!(
            "{PATIENT}[agents.opencode]\nkind = \"opencode\"\ncommand = {:?}\nenv = {{ {} }}\n",
            opencode.command().unwrap(),
            env.join(", ")
        );
        std::fs::write(home.path("turnstream.toml"), file).unwrap();
        Self { home, provider, opencode, runtime }
    }

    fn serve(&self) -> Serving {
        let config = self.home.path("turnstream.toml").display().to_string();
        self.home.serve(&["--config", &config])
    }

    fn run(&self, args: &[&str]) -> Child {
        self.home.command(&[&["run", "--agent", "opencode"], args].concat()).spawn().unwrap()
    }

    /// The log of the only session.
    fn log(&self) -> Vec<Value> {
        let listed = self.home.run(&["sessions", "--json"]);
        let session: Value = serde_json::from_str(stdout(&listed).lines().next().unwrap()).unwrap();
        self.log_of(session["id"].as_str().unwrap())
    }

    /// The log of a session.
    fn log_of(&self, session: &str) -> Vec<Value> {
        let tail = self.home.run(&["tail", session, "--json", "--no-follow"]);
        assert_lawful(stdout(&tail).lines(), Tail::Live);
        stdout(&tail).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// How often the model was asked, titles left out.
    fn calls(&self) -> usize {
        self.provider.calls().iter().filter(|call| call.asked.model == Opencode::MODEL).count()
    }

    /// Processes of this lab's opencode.
    fn left_over(&self) -> Vec<String> {
        let place = self.home.path("data").display().to_string();
        let work = self.opencode.work().display().to_string();
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter_map(|entry| {
                let id: u32 = entry.file_name().to_str()?.parse().ok()?;
                let environment = std::fs::read(format!("/proc/{id}/environ")).ok()?;
                let text = String::from_utf8_lossy(&environment).into_owned();
                let ours = text.contains(&place) || text.contains(work.trim_end_matches("/work"));
                (ours && id != std::process::id()).then(|| format!("{id}: {}", command_line(id)))
            })
            .filter(|line| line.contains("opencode"))
            .collect()
    }
}

fn command_line(id: u32) -> String {
    let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

fn of_type<'a>(log: &'a [Value], name: &str) -> Vec<&'a Value> {
    log.iter().filter(|event| event["type"] == name).collect()
}

fn signal(process: i32, signal: Signal) {
    kill_process(Pid::from_raw(process).unwrap(), signal).unwrap();
}

/// Puts a prompt into the queue of a session.
fn prompt(serving: &Serving, session: &str, text: &str) {
    let body = json!({"content": [{"type": "text", "text": text}]});
    let (head, answer) = ask(&serving.address, "POST", &format!("/v1/sessions/{session}/prompts"), &body);
    assert!(head.starts_with("http/1.1 2"), "{head} {answer}");
}

/// A new session.
fn session(serving: &Serving, cwd: &Path) -> String {
    let body = json!({"agent": "opencode", "cwd": cwd, "permissions": "allow"});
    let (head, answer) = ask(&serving.address, "POST", "/v1/sessions", &body);
    assert!(head.starts_with("http/1.1 2"), "{head} {answer}");
    answer["id"].as_str().unwrap().to_owned()
}

/// The log of a session with so many turns that have ended.
fn ended(mut log: impl FnMut() -> Vec<Value>, turns: usize) -> Vec<Value> {
    wait_for(|| Some(log()).filter(|log| of_type(log, "turn.ended").len() >= turns))
}

fn outcomes(log: &[Value]) -> Vec<&Value> {
    of_type(log, "turn.ended").into_iter().map(|end| &end["outcome"]).collect()
}

/// The text of an item as a client adds it up.
fn text(log: &[Value]) -> String {
    let mut text = String::new();
    for event in log {
        match event["type"].as_str().unwrap() {
            "item.delta" => text.push_str(event["text"].as_str().unwrap()),
            "item.replaced" => text = event["text"].as_str().unwrap().to_owned(),
            _ => {}
        }
    }
    text
}

#[test]
fn a_prompt_is_answered_by_an_opencode_that_is_started_and_ended_with_the_gateway() {
    let tool =
        Part::tool_call("bash", json!({"command": "echo made > made.txt", "description": "Make a file"}));
    let lab = Lab::new([
        Step::new(Completion::of([Part::text("Making it."), tool])),
        Step::text("It is made.").always(),
    ]);
    let serving = lab.serve();
    let output = lab.run(&["Make a file", "--permissions", "allow"]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stdout(&output).contains("It is made."), "{output:?}");
    assert_eq!(std::fs::read_to_string(lab.home.path("work/made.txt")).unwrap(), "made\n");
    assert!(!lab.left_over().is_empty(), "it runs");

    let log = lab.log();
    let ends = of_type(&log, "turn.ended");
    assert_eq!(ends.len(), 1);
    assert_eq!((&ends[0]["outcome"], &ends[0]["stop_reason"]), (&json!("completed"), &json!("end_turn")));
    assert!(ends[0]["usage"]["total"].as_u64().is_some_and(|tokens| tokens > 0), "{}", ends[0]);
    let (status, _) = serving.end(Signal::TERM);
    assert!(status.success());
    assert_eq!(lab.left_over(), [""; 0], "nothing of it runs any more");
}

#[test]
fn a_turn_goes_on_over_a_kill_of_the_gateway_and_runs_once() {
    let slow = Delivery { before_delta_ms: 150, ..Delivery::default() };
    let lab = Lab::new([Step::text(LONG).delivered(slow)]);
    let serving = lab.serve();
    let mut run = lab.run(&["Take your time", "--json"]);
    // Some of it is in the log. One delta is enough: on a busy machine neighbouring deltas come as one.
    wait_for(|| {
        let listed = lab.home.run(&["sessions", "--json"]);
        let session: Value = serde_json::from_str(stdout(&listed).lines().next()?).ok()?;
        let tail = lab.home.run(&["tail", session["id"].as_str()?, "--json", "--no-follow"]);
        Some(()).filter(|()| stdout(&tail).contains("item.delta"))
    });
    let (status, _) = serving.end(Signal::KILL);
    assert!(!status.success());
    run.kill().unwrap();
    run.wait().unwrap();

    let serving = lab.serve();
    let log = wait_for(|| Some(lab.log()).filter(|log| !of_type(log, "turn.ended").is_empty()));
    let ends = of_type(&log, "turn.ended");
    assert_eq!(ends.len(), 1, "{log:#?}");
    assert_eq!(ends[0]["outcome"], "completed", "{log:#?}");
    assert_eq!(text(&log), LONG);
    assert_eq!(lab.calls(), 1, "the model was asked once");

    let output = lab.run(&["And again"]).wait_with_output().unwrap();
    assert!(output.status.code().is_some());
    let (status, _) = serving.end(Signal::INT);
    assert!(status.success());
    assert_eq!(lab.left_over(), [""; 0]);
    drop(lab.runtime);
}

#[test]
fn an_approval_waits_over_a_kill_of_the_gateway_and_is_answered_after_it() {
    let tool =
        Part::tool_call("bash", json!({"command": "echo asked > asked.txt", "description": "Make a file"}));
    let lab = Lab::new([Step::new(Completion::of([tool])), Step::text("It was allowed.").always()]);
    let guarded = json!({"permission": {"bash": "ask"}}).to_string();
    std::fs::write(lab.home.path("work/opencode.json"), guarded).unwrap();
    let serving = lab.serve();
    let mut run = lab.run(&["Make a file", "--permissions", "ask", "--json"]);
    let asked = |lab: &Lab| {
        let listed = lab.home.run(&["sessions", "--json"]);
        let session: Value = serde_json::from_str(stdout(&listed).lines().next()?).ok()?;
        let log = lab.log();
        let ask = of_type(&log, "approval.requested").first().map(|ask| (*ask).clone())?;
        Some((session["id"].as_str()?.to_owned(), ask["approval"].as_str()?.to_owned()))
    };
    let (session, approval) = wait_for(|| asked(&lab));
    serving.end(Signal::KILL);
    run.kill().unwrap();
    run.wait().unwrap();

    let serving = lab.serve();
    wait_for(|| {
        let listed = lab.home.run(&["sessions", "--json"]);
        Some(()).filter(|()| stdout(&listed).contains("\"waiting\""))
    });
    assert!(!lab.home.path("work/asked.txt").exists());
    let token = serving.token();
    let url = format!("http://{}/v1/sessions/{session}/approvals/{approval}", serving.address);
    let answered = lab.runtime.block_on(async {
        let body = json!({"outcome": "allow_once"}).to_string();
        let request = reqwest::Client::new()
            .post(url)
            .bearer_auth(&token)
            .header("content-type", "application/json")
            .body(body);
        request.send().await.unwrap().status()
    });
    assert_eq!(answered, 200);
    let log = wait_for(|| Some(lab.log()).filter(|log| !of_type(log, "turn.ended").is_empty()));
    let ends = of_type(&log, "turn.ended");
    assert_eq!((ends.len(), &ends[0]["outcome"]), (1, &json!("completed")), "{log:#?}");
    assert_eq!(of_type(&log, "approval.requested").len(), 1, "it was asked once");
    assert_eq!(std::fs::read_to_string(lab.home.path("work/asked.txt")).unwrap(), "asked\n");
    assert_eq!(lab.calls(), 2, "one call asked, one went on");
    let (status, _) = serving.end(Signal::TERM);
    assert!(status.success());
    assert_eq!(lab.left_over(), [""; 0]);
}

/// opencode says that a call runs before it asks whether it may.
#[test]
fn an_ask_of_opencode_shows_the_command_and_what_always_covers_before_anything_is_said_to_run() {
    let command = "echo asked > asked.txt";
    let tool = Part::tool_call("bash", json!({"command": command, "description": "Make a file"}));
    let lab = Lab::new([Step::new(Completion::of([tool])), Step::text("It was allowed.").always()]);
    let guarded = json!({"permission": {"bash": "ask"}}).to_string();
    std::fs::write(lab.home.path("work/opencode.json"), guarded).unwrap();
    let serving = lab.serve();
    let mut terminal = Terminal::run(&lab.home, &["run", "--agent", "opencode", "Make a file"]);
    terminal.until("[y]es, [a]lways, [n]o, [s]top: ", 1);
    let shown = terminal.shown();
    assert!(
        shown.contains(&format!("| command: {command}")) && shown.contains("| description: Make"),
        "{shown}"
    );
    assert!(shown.contains("always: Always allow echo *") && !shown.contains("[run]"), "{shown}");
    terminal.types("y");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("[run] ") && shown.contains("It was allowed."), "{shown}");
    assert_eq!(std::fs::read_to_string(lab.home.path("work/asked.txt")).unwrap(), "asked\n");
    serving.end(Signal::TERM);
}

#[test]
fn a_secret_in_prompt_answer_and_tool_is_nowhere_in_the_data_directory_after_a_kill() {
    let mut rng = fastrand::Rng::with_seed(11);
    let body: String = (0..90).map(|_| rng.alphanumeric()).collect();
    let secret = format!("sk-ant-api03-{body}AA");
    let slow = Delivery { before_delta_ms: 40, ..Delivery::default() };
    let command = format!("echo {secret}");
    let tool = Part::tool_call("bash", json!({"command": command, "description": "Show the key"}));
    let lab = Lab::new([
        Step::new(Completion::of([Part::text(&format!("The key {secret} is used.")), tool])).delivered(slow),
        Step::text(&format!("It printed {secret} and {LONG}")).delivered(slow).always(),
    ]);
    let serving = lab.serve();
    let mut run = lab.run(&[&format!("Use {secret}"), "--permissions", "allow", "--json"]);
    // The tool has run, and the answer after it has begun.
    wait_for(|| {
        let listed = lab.home.run(&["sessions", "--json"]);
        let session: Value = serde_json::from_str(stdout(&listed).lines().next()?).ok()?;
        let tail = lab.home.run(&["tail", session["id"].as_str()?, "--json", "--no-follow"]);
        Some(()).filter(|()| stdout(&tail).contains("It printed"))
    });
    serving.end(Signal::KILL);
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(leaks_below(&lab.home.path("data"), &[&secret]), [""; 0], "after the kill");

    let serving = lab.serve();
    let log = wait_for(|| Some(lab.log()).filter(|log| !of_type(log, "turn.ended").is_empty()));
    assert_eq!(of_type(&log, "turn.ended")[0]["outcome"], "completed", "{log:#?}");
    let texts = serde_json::to_string(&log).unwrap();
    assert!(texts.contains("[redacted:"), "{texts}");
    assert!(text(&log).ends_with(LONG), "{log:#?}");
    serving.end(Signal::TERM);
    assert_eq!(leaks_below(&lab.home.path("data"), &[&secret]), [""; 0], "in the end");
}

#[test]
fn a_model_that_opencode_does_not_have_is_refused_at_the_door_while_its_server_runs() {
    let lab = Lab::new([Step::text("Done.").always()]);
    let serving = lab.serve();
    let known = format!("scripted/{}", Opencode::MODEL);
    let new = |model: &str| json!({"agent": "opencode", "cwd": lab.home.path("work"), "model": model});
    // Nobody is started for it, so nobody knows.
    let (head, made) = ask(&serving.address, "POST", "/v1/sessions", &new("scripted/later"));
    assert!(head.starts_with("http/1.1 201"), "{head} {made}");

    let turn = lab.run(&["Hello"]).wait_with_output().unwrap();
    assert_eq!((turn.status.code(), stdout(&turn)), (Some(0), "Done.\n"), "{turn:?}");
    // A busy server that does not answer at once refuses nothing.
    let refused = |method: &str, path: &str, body: &Value| {
        wait_for(|| {
            let (head, problem) = ask(&serving.address, method, path, body);
            assert!(head.starts_with("http/1.1 400") || head.starts_with("http/1.1 20"), "{head} {problem}");
            head.starts_with("http/1.1 400").then_some(problem)
        })
    };
    let problem = refused("POST", "/v1/sessions", &new("scripted/nope"));
    assert_eq!(problem["type"], "urn:turnstream:problem:unknown-model");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("no model \"scripted/nope\"") && detail.contains(&known), "{detail}");
    assert!(problem["known"].as_array().unwrap().contains(&json!(known)), "{problem}");
    let (head, session) = ask(&serving.address, "POST", "/v1/sessions", &new(&known));
    assert!(head.starts_with("http/1.1 201"), "{head} {session}");
    let path = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
    let problem = refused("PATCH", &path, &json!({"model": "nobody/nope"}));
    assert_eq!(problem["type"], "urn:turnstream:problem:unknown-model");

    // The same server as somebody finds it who attaches to it: asked without a session.
    let record = std::fs::read_dir(lab.home.path("data/agents/opencode")).unwrap().flatten();
    let names: Vec<_> = record.map(|entry| entry.file_name()).collect();
    let note = std::fs::read(lab.home.path("data/agents/opencode/opencode.json"))
        .unwrap_or_else(|_| panic!("{names:?}"));
    let server: Value = serde_json::from_slice(&note).unwrap();
    let there = Home::new();
    let config = there.path("turnstream.toml");
    let file = format!(
        "[agents.remote]\nkind = \"opencode\"\nurl = \"http://127.0.0.1:{}\"\npassword_env = \"PASSWORD\"\n",
        server["port"]
    );
    std::fs::write(&config, file).unwrap();
    let agents = |password: &str| {
        let mut command = there.command(&["agents", "--json", "--config", config.to_str().unwrap()]);
        let listed = command.env("PASSWORD", password).output().unwrap();
        serde_json::from_str::<Value>(stdout(&listed).lines().next().unwrap()).unwrap()
    };
    wait_for(|| {
        let remote = agents(server["password"].as_str().unwrap());
        (remote["problem"].is_null() && remote["version"].is_string()).then_some(())
    });
    wait_for(|| {
        let locked = agents("another-password");
        locked["problem"].as_str().unwrap().contains("cannot be used").then_some(())
    });
}
