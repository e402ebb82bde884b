//! An opencode that runs already and that others use too.

use super::{PATIENT, ended, of_type, outcomes, prompt, session};
use crate::support::{Home, Serving, ask, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use turnstream_fake_provider::{Provider, Script, Step};
use turnstream_opencode_client::{Client, ClientInfo, Directory, Secret, SessionRef, Timeouts, TurnSettings};
use turnstream_testkit::agents::Opencode;
use turnstream_testkit::lawful::{Tail, assert_lawful};

/// The variable that the gateway has the password from.
const VARIABLE: &str = "PASSWORD_OF_THE_TEAM";

/// A gateway's home that names an opencode which runs. In this order: it ends before the provider.
struct Team {
    home: Home,
    opencode: Opencode,
    _provider: Provider,
    runtime: tokio::runtime::Runtime,
}

impl Team {
    fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let titles = Step::text("A title").for_model(Opencode::TITLE_MODEL).always();
        let script = Script::new([titles].into_iter().chain(steps));
        let provider = runtime.block_on(Provider::start(script)).unwrap();
        let opencode = runtime.block_on(Opencode::start(&provider.openai_base_url())).unwrap();
        let home = Home::new();
        let file = format!(
            "{PATIENT}[agents.opencode]\nkind = \"opencode\"\nurl = {:?}\npassword_env = {VARIABLE:?}\n",
            opencode.base_url()
        );
        std::fs::write(home.path("turnstream.toml"), file).unwrap();
        // The model of the server is configured where it works; sessions here work there too.
        Self { home, opencode, _provider: provider, runtime }
    }

    fn serve(&self, password: &str) -> Serving {
        let config = self.home.path("turnstream.toml").display().to_string();
        let root = self.opencode.work().display().to_string();
        self.home.serve_armed(&["--config", &config, "--root", &root], |command| {
            // Soon after a turn its agent is put away.
            command.env(VARIABLE, password).env("TURNSTREAM_TIMEOUTS_IDLE", "500ms");
        })
    }

    fn session(&self, serving: &Serving) -> String {
        session(serving, &self.opencode.work())
    }

    fn log(&self, session: &str) -> Vec<Value> {
        let tail = self.home.run(&["tail", session, "--json", "--no-follow"]);
        assert_lawful(stdout(&tail).lines(), Tail::Live);
        stdout(&tail).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What opencode calls the session.
    fn native(&self, session: &str) -> SessionRef {
        let log = self.log(session);
        let named = |event: &&Value| event["native_id"].is_string();
        let updated = of_type(&log, "session.updated");
        let native = updated.into_iter().rev().find(named).unwrap()["native_id"].as_str().unwrap();
        SessionRef::new(native, Directory::new(self.opencode.work()).unwrap()).unwrap()
    }

    /// Another client of the same server.
    fn other(&self) -> Client {
        let password = Secret::new(Opencode::PASSWORD);
        Client::new(self.opencode.base_url(), password, Timeouts::default(), ClientInfo::default()).unwrap()
    }

    /// That client has a turn in the session.
    fn other_says(&self, session: &SessionRef, text: &str) {
        self.runtime.block_on(async {
            let mut turn = self.other().send_message(session, text, TurnSettings::default());
            while turn.next().await.is_some() {}
        });
    }

    /// Waits until no agent is linked.
    fn until_put_away(&self, serving: &Serving) {
        wait_for(|| {
            let metrics = self.runtime.block_on(async {
                let url = format!("http://{}/metrics", serving.address);
                let request = reqwest::Client::new().get(url).bearer_auth(serving.token());
                request.send().await.unwrap().text().await.unwrap()
            });
            Some(()).filter(|()| metrics.contains("turnstream_sessions_awake 0"))
        });
    }
}

/// What people and the model said, in the order of the log.
fn said(log: &[Value]) -> Vec<String> {
    let mut texts: Vec<(String, String)> = Vec::new();
    for event in log {
        let item = event["item"].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap() {
            "prompt.accepted" => {
                texts.push((String::new(), event["content"][0]["text"].as_str().unwrap().into()))
            }
            "item.started" if event["kind"] == "message" => texts.push((item, String::new())),
            "item.delta" | "item.replaced" => {
                let text = event["text"].as_str().unwrap();
                if let Some((_, known)) = texts.iter_mut().find(|(id, _)| *id == item) {
                    if event["type"] == "item.replaced" {
                        known.clear();
                    }
                    known.push_str(text);
                }
            }
            _ => {}
        }
    }
    texts.into_iter().map(|(_, text)| text).collect()
}

#[test]
fn a_wrong_password_is_an_error_of_authentication_that_names_the_configured_variable() {
    let team = Team::new([Step::text("It answers.").always()]);
    let serving = team.serve("wrong");
    let session = team.session(&serving);
    prompt(&serving, &session, "First");
    let log = ended(|| team.log(&session), 1);
    let error = &of_type(&log, "turn.ended")[0]["error"];
    assert_eq!((&error["class"], &error["status"]), (&json!("auth"), &json!(401)), "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&format!("set the environment variable {VARIABLE} ")), "{message}");
    serving.end(Signal::TERM);
}

#[test]
fn a_session_that_another_client_deletes_is_told_of_and_goes_on_in_a_new_one() {
    let team = Team::new([Step::text("It answers.").always()]);
    let serving = team.serve(Opencode::PASSWORD);
    let forgotten = |log: &[Value]| {
        let notices = of_type(log, "notice");
        notices.into_iter().filter(|notice| notice["code"] == "forgotten").count()
    };
    // While its agent is put away: the next prompt finds out.
    let session = team.session(&serving);
    prompt(&serving, &session, "First");
    ended(|| team.log(&session), 1);
    team.until_put_away(&serving);
    let before = team.native(&session);
    team.runtime.block_on(team.other().delete_session(&before)).unwrap();
    prompt(&serving, &session, "Second");
    let log = ended(|| team.log(&session), 2);
    assert_eq!(outcomes(&log), ["completed", "completed"], "{log:#?}");
    assert_eq!(forgotten(&log), 1, "{log:#?}");
    assert_ne!(team.native(&session), before);
    serving.end(Signal::TERM);

    // While it is linked: that is heard at once.
    let config = team.home.path("turnstream.toml").display().to_string();
    let root = team.opencode.work().display().to_string();
    let serving = team.home.serve_armed(&["--config", &config, "--root", &root], |command| {
        command.env(VARIABLE, Opencode::PASSWORD);
    });
    prompt(&serving, &session, "Third");
    ended(|| team.log(&session), 3);
    team.runtime.block_on(team.other().delete_session(&team.native(&session))).unwrap();
    wait_for(|| Some(()).filter(|()| forgotten(&team.log(&session)) == 2));
    let (_, shown) = ask(&serving.address, "GET", &format!("/v1/sessions/{session}"), &Value::Null);
    assert_eq!(shown["status"], "idle", "{shown}");
    serving.end(Signal::TERM);
}

#[test]
fn turns_of_other_clients_while_the_agent_was_put_away_are_in_the_log_before_the_next_prompt() {
    let echo = |word: &str| Step::text(&format!("You said {word}.")).for_user_text(word).always();
    let team = Team::new([echo("apple"), echo("pear"), echo("plum"), echo("fig")]);
    let serving = team.serve(Opencode::PASSWORD);
    let session = team.session(&serving);
    prompt(&serving, &session, "apple");
    ended(|| team.log(&session), 1);
    team.until_put_away(&serving);
    let native = team.native(&session);
    team.other_says(&native, "pear");
    team.other_says(&native, "plum");
    assert_eq!(of_type(&team.log(&session), "turn.started").len(), 1, "nobody listens meanwhile");
    prompt(&serving, &session, "fig");
    let log = ended(|| team.log(&session), 4);
    let origins: Vec<&Value> =
        of_type(&log, "turn.started").into_iter().map(|start| &start["origin"]).collect();
    assert_eq!(origins, ["prompt", "foreign", "foreign", "prompt"], "{log:#?}");
    assert_eq!(outcomes(&log), ["completed"; 4], "{log:#?}");
    let told = ["pear", "You said pear.", "plum", "You said plum.", "You said fig."];
    let texts = said(&log);
    assert_eq!(texts[..2], ["apple", "You said apple."], "{log:#?}");
    let of_others: Vec<&String> = texts[2..].iter().filter(|text| *text != "fig").collect();
    assert_eq!(of_others, told, "{log:#?}");
    // Once they are in the log they stay known.
    team.until_put_away(&serving);
    prompt(&serving, &session, "apple");
    let log = ended(|| team.log(&session), 5);
    assert_eq!(of_type(&log, "turn.started").len(), 5, "{log:#?}");
    serving.end(Signal::TERM);
}
