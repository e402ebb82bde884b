//! A session of an opencode that runs on while the gateway is started again and again: the log has
//! everything once, and what others take back meanwhile is taken back.

use crate::support::{Home, Serving, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use turnstream_fake_provider::{Completion, Part, Provider, Script, Step};
use turnstream_testkit::agents::Opencode;
use turnstream_testkit::lawful::{Tail, assert_lawful};

/// An opencode that runs, and a home whose gateway uses it. Dropped in this order.
struct Lab {
    home: Home,
    opencode: Opencode,
    _provider: Provider,
    runtime: tokio::runtime::Runtime,
}

impl Lab {
    fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let titles = Step::text("A title").for_model(Opencode::TITLE_MODEL).always();
        let script = Script::new([titles].into_iter().chain(steps));
        let provider = runtime.block_on(Provider::start(script)).unwrap();
        let opencode = runtime.block_on(Opencode::start(&provider.openai_base_url())).unwrap();
        let home = Home::new();
        std::fs::write(home.path("password"), Opencode::PASSWORD).unwrap();
        let file = format!(
            "[agents.opencode]\nkind = \"opencode\"\nurl = {:?}\npassword_file = {:?}\n",
            opencode.base_url(),
            home.path("password")
        );
        std::fs::write(home.path("turnstream.toml"), file).unwrap();
        Self { home, opencode, _provider: provider, runtime }
    }

    fn serve(&self) -> Serving {
        let config = self.home.path("turnstream.toml").display().to_string();
        self.home.serve(&["--config", &config])
    }

    /// The only session, as it is listed.
    fn session(&self) -> Option<Value> {
        let listed = self.home.run(&["sessions", "--json"]);
        serde_json::from_str(stdout(&listed).lines().next()?).ok()
    }

    /// Asks in the only session, and makes it the first time.
    fn ask(&self, words: &str) {
        let session = self.session().map(|session| session["id"].as_str().unwrap().to_owned());
        let place = match &session {
            Some(session) => ["--session", session.as_str()],
            None => ["--agent", "opencode"],
        };
        let output = self.home.run(&[["run", words].as_slice(), &place].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }

    fn log(&self) -> Vec<Value> {
        let session = self.session().unwrap();
        let tail = self.home.run(&["tail", session["id"].as_str().unwrap(), "--json", "--no-follow"]);
        assert_lawful(stdout(&tail).lines(), Tail::Live);
        stdout(&tail).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What another client of opencode asks of the session.
    fn other(&self, method: reqwest::Method, path: &str, body: &Value) -> Value {
        let native = self.log().iter().find_map(native_session).unwrap();
        let work = self.home.path("work").display().to_string();
        let url = format!("{}/session/{native}/{path}?directory={work}", self.opencode.base_url());
        self.runtime.block_on(async {
            let request = reqwest::Client::new().request(method, url);
            let request = request.basic_auth("opencode", Some(Opencode::PASSWORD));
            let request = request.header("content-type", "application/json").body(body.to_string());
            let response = request.send().await.unwrap();
            assert!(response.status().is_success(), "{response:?}");
            serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
        })
    }
}

/// The session's name in opencode, where an event says it.
fn native_session(event: &Value) -> Option<String> {
    event["native_id"].as_str().filter(|name| name.starts_with("ses_")).map(str::to_owned)
}

/// How often each type of event is in a log.
fn types(log: &[Value]) -> BTreeMap<&str, usize> {
    let mut types = BTreeMap::new();
    for event in log {
        *types.entry(event["type"].as_str().unwrap()).or_default() += 1;
    }
    types
}

/// The texts that are there in the end, in their order.
fn texts(log: &[Value]) -> Vec<String> {
    let mut items: Vec<(String, String)> = Vec::new();
    for event in log {
        let item = event["item"].as_str().unwrap_or_default().to_owned();
        let place = items.iter().position(|(known, _)| *known == item);
        match (event["type"].as_str().unwrap(), place) {
            ("item.started", None) => items.push((item, String::new())),
            ("item.started", Some(_)) => panic!("{item} started twice"),
            ("item.delta", Some(place)) => items[place].1.push_str(event["text"].as_str().unwrap()),
            ("item.replaced" | "item.revised", Some(place)) => {
                items[place].1 = event["text"].as_str().unwrap().to_owned();
            }
            ("item.removed", Some(place)) => drop(items.remove(place)),
            _ => {}
        }
    }
    items.into_iter().map(|(_, text)| text).collect()
}

#[test]
fn a_session_over_many_starts_of_the_gateway_has_everything_once() {
    let tool = Part::tool_call("bash", json!({"command": "echo made", "description": "Say it"}));
    let lab = Lab::new([
        Step::new(Completion::of([Part::text("Making it."), tool])).for_user_text("tool"),
        Step::text("It is said.").always(),
    ]);
    const STARTS: usize = 5;
    for start in 0..STARTS {
        let serving = lab.serve();
        lab.ask("Once");
        lab.ask("And again");
        // In good order and by force.
        serving.end(if start % 2 == 0 { Signal::TERM } else { Signal::KILL });
    }
    let serving = lab.serve();
    lab.ask("Use a tool");
    let log = lab.log();
    let (types, turns) = (types(&log), 2 * STARTS + 1);
    assert_eq!((types["turn.started"], types["turn.ended"]), (turns, turns), "{types:?}");
    assert_eq!(types["item.started"], turns + 2, "{types:?}");
    assert_eq!((types.get("item.removed"), types.get("item.revised")), (None, None), "{types:?}");
    let mut expected = vec!["It is said.".to_owned(); turns];
    expected.splice(turns - 1..turns - 1, ["Making it.".to_owned(), "made\n".to_owned()]);
    assert_eq!(texts(&log), expected);
    serving.end(Signal::TERM);
}

/// A revert in opencode takes effect with the next prompt, which may be the first thing that a gateway does
/// there.
#[test]
fn what_another_client_takes_back_while_no_gateway_runs_is_taken_back_with_the_next_prompt() {
    let answer = |number: usize| {
        let words = format!("Ask {number}");
        Step::text(&format!("Answer {number}.")).for_user_text(&words)
    };
    let lab = Lab::new((1..=3).map(answer));
    let serving = lab.serve();
    lab.ask("Ask 1");
    lab.ask("Ask 2");
    assert_eq!(texts(&lab.log()), ["Answer 1.", "Answer 2."]);
    let second = of_prompt(&lab, 2);
    serving.end(Signal::TERM);

    let serving = lab.serve();
    lab.other(reqwest::Method::POST, "revert", &json!({"messageID": second}));
    lab.ask("Ask 3");
    let texts = wait_for(|| Some(texts(&lab.log())).filter(|texts| texts.len() < 3));
    assert_eq!(texts, ["Answer 1.", "Answer 3."]);
    serving.end(Signal::TERM);
}

/// The name that a prompt has in opencode.
fn of_prompt(lab: &Lab, number: usize) -> String {
    let words = format!("Ask {number}");
    let messages = lab.other(reqwest::Method::GET, "message", &json!({}));
    let is_it =
        |message: &&Value| message["info"]["role"] == "user" && message["parts"][0]["text"] == words.as_str();
    messages.as_array().unwrap().iter().find(is_it).unwrap()["info"]["id"].as_str().unwrap().to_owned()
}
