//! A prompt is cancelled after it was sent and before the real server has begun with it: the server is
//! stopped meanwhile.

use super::{Lab, of_type};
use crate::support::{Serving, ask, send, stdout, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use turnstream_fake_provider::{Delivery, Ended, Step};
use turnstream_testkit::lawful::{Tail, assert_lawful};

const ENDLESS: &str =
    "This goes on and on, one word after the other, for much longer than anybody would wait for it.";

/// Answers to a greeting, and to a prompt that nobody is to answer.
fn script() -> Vec<Step> {
    // A whole answer takes longer than any test waits: it ends early, or the test fails.
    let slow = Delivery { before_delta_ms: 120_000, ..Delivery::default() };
    vec![
        // A message before, which has no answer, comes with it.
        Step::text("Hello.").for_user_text("Say hello").always(),
        Step::text(ENDLESS).delivered(slow).for_user_text("Go on").always(),
    ]
}

/// The server of a lab, and a session in it that has answered once.
struct Window {
    lab: Lab,
    serving: Serving,
    session: String,
    server: Pid,
}

impl Window {
    /// With so long for a cancelled prompt to stop.
    fn open(cancel: &str) -> Self {
        let lab = Lab::new(script());
        let file = lab.home.path("turnstream.toml");
        let config = std::fs::read_to_string(&file).unwrap();
        let timeouts = format!("[timeouts]\ncancel = \"{cancel}\"\n");
        std::fs::write(&file, config.replace("[timeouts]\n", &timeouts)).unwrap();
        let serving = lab.serve();
        let new = json!({"agent": "opencode", "cwd": lab.home.path("work")});
        let session =
            ask(&serving.address, "POST", "/v1/sessions", &new).1["id"].as_str().unwrap().to_owned();
        let server = Pid::from_raw(1).unwrap();
        let mut window = Self { lab, serving, session, server };
        window.prompt("Say hello");
        window.ended(1);
        let left_over = window.lab.left_over();
        let line = left_over.iter().find(|line| line.contains(" serve")).unwrap();
        window.server = Pid::from_raw(line.split(':').next().unwrap().parse().unwrap()).unwrap();
        window
    }

    fn post(&self, path: &str, body: &Value) -> (String, Value) {
        ask(&self.serving.address, "POST", &format!("/v1/sessions/{}/{path}", self.session), body)
    }

    fn prompt(&self, text: &str) -> String {
        let content = json!([{"type": "text", "text": text}]);
        let (head, answer) = self.post("prompts", &json!({"content": content}));
        assert!(head.starts_with("http/1.1 202"), "{head}: {answer}");
        answer["prompt"].as_str().unwrap().to_owned()
    }

    fn snapshot(&self) -> Value {
        let path = format!("/v1/sessions/{}/snapshot", self.session);
        ask(&self.serving.address, "GET", &path, &json!({})).1
    }

    /// Waits until so many turns have ended and nothing is open.
    fn ended(&self, turns: usize) -> Value {
        wait_for(|| {
            let snapshot = self.snapshot();
            let ended =
                snapshot["turns"].as_array()?.iter().filter(|turn| !turn["outcome"].is_null()).count();
            Some(snapshot).filter(|snapshot| ended == turns && snapshot["session"]["status"] == "idle")
        })
    }

    /// Waits until so many prompts after the first one have their turns, and nothing is open.
    fn settled(&self, prompts: usize) -> Value {
        wait_for(|| {
            let snapshot = self.snapshot();
            let turns = snapshot["turns"].as_array()?;
            let ended = turns.iter().filter(|turn| turn["origin"] == "prompt" && !turn["outcome"].is_null());
            let is_settled = ended.count() == prompts + 1 && snapshot["session"]["status"] == "idle";
            Some(snapshot).filter(|_| is_settled)
        })
    }

    /// Sends a prompt to a server that does not listen.
    fn sent(&self, text: &str) -> String {
        kill_process(self.server, Signal::STOP).unwrap();
        let prompt = self.prompt(text);
        let snapshot =
            wait_for(|| Some(self.snapshot()).filter(|snapshot| snapshot["queue"][0]["state"] == "sent"));
        assert_eq!(snapshot["session"]["status"], "busy", "it is at the agent");
        prompt
    }

    fn go_on(&self) {
        kill_process(self.server, Signal::CONT).unwrap();
    }

    fn log(&self) -> Vec<Value> {
        let tail = self.lab.home.run(&["tail", &self.session, "--json", "--no-follow"]);
        assert_lawful(stdout(&tail).lines(), Tail::Live);
        stdout(&tail).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The prompt has one turn, which is cancelled; the model was never asked, or left alone.
    fn is_cancelled(&self, prompt: &str) {
        let log = self.log();
        let started: Vec<&Value> = of_type(&log, "turn.started")
            .into_iter()
            .filter(|turn| turn["prompts"] == json!([prompt]))
            .collect();
        assert_eq!(started.len(), 1, "{log:#?}");
        let ends: Vec<&Value> =
            of_type(&log, "turn.ended").into_iter().filter(|end| end["turn"] == started[0]["turn"]).collect();
        assert_eq!((ends.len(), &ends[0]["outcome"]), (1, &json!("cancelled")), "{log:#?}");
        let said: Vec<&Value> = of_type(&log, "prompt.cancelling")
            .into_iter()
            .filter(|said| said["prompt"] == prompt && said["by"] == "client")
            .collect();
        assert_eq!(said.len(), 1, "{log:#?}");
    }

    fn nothing_goes_on(&self) {
        wait_for(|| {
            let calls = self.lab.provider.calls();
            let open = calls.iter().any(|call| call.ended == Ended::Open);
            Some(()).filter(|()| !open)
        });
        let calls = self.lab.provider.calls();
        let is_unwanted = |text: &str| text.contains("Go on") && !text.contains("Say hello");
        let answered =
            calls.iter().filter(|call| is_unwanted(&call.asked.user_text) && call.ended == Ended::Complete);
        assert_eq!(answered.count(), 0, "nobody was to answer it");
    }
}

/// The gateway ends its server.
impl Drop for Window {
    fn drop(&mut self) {
        if let Ok(None) = self.serving.child.try_wait() {
            send(&self.serving.child, Signal::TERM);
            let _ = self.serving.child.wait();
        }
    }
}

#[test]
fn a_prompt_at_a_server_that_does_not_listen_is_cancelled_and_the_queue_goes_on() {
    let window = Window::open("10s");
    let (head, problem) = window.post("cancel", &json!({}));
    assert!(head.starts_with("http/1.1 409"), "nothing is open or sent: {head}: {problem}");
    let prompt = window.sent("Go on");
    let waiting = window.prompt("Say hello again");
    let (head, problem) = window.post("cancel", &json!({"prompt": waiting}));
    assert!(head.starts_with("http/1.1 409"), "it still waits: {head}: {problem}");
    let path = format!("/v1/sessions/{}/prompts/{prompt}", window.session);
    let (head, problem) = ask(&window.serving.address, "DELETE", &path, &json!({}));
    assert!(head.starts_with("http/1.1 409"), "{head}");
    assert!(problem["detail"].as_str().unwrap().contains("/cancel"), "{problem}");
    for body in [json!({"prompt": prompt}), json!({}), json!({"prompt": prompt})] {
        let (head, answer) = window.post("cancel", &body);
        assert!(head.starts_with("http/1.1 202"), "{head}: {answer}");
        assert_eq!(answer, json!({"prompt": prompt}));
    }
    window.go_on();
    let snapshot = window.ended(3);
    window.is_cancelled(&prompt);
    let outcomes: Vec<&Value> =
        snapshot["turns"].as_array().unwrap().iter().map(|turn| &turn["outcome"]).collect();
    assert_eq!(outcomes, ["completed", "cancelled", "completed"]);
    window.nothing_goes_on();
}

#[test]
fn a_cancel_of_a_sent_prompt_outlives_a_kill_of_the_gateway() {
    let mut window = Window::open("10s");
    let prompt = window.sent("Go on");
    let (head, answer) = window.post("cancel", &json!({}));
    assert!(head.starts_with("http/1.1 202"), "{head}: {answer}");
    // A data directory has one gateway: this one is gone before the next one starts.
    send(&window.serving.child, Signal::KILL);
    window.serving.child.wait().unwrap();
    window.go_on();
    window.serving = window.lab.serve();
    window.ended(2);
    window.is_cancelled(&prompt);
    window.prompt("Say hello again");
    window.ended(3);
    window.nothing_goes_on();
}

/// The turns after the first one, without what opencode did late of a prompt that was given up. That is
/// never a success.
fn outcomes(snapshot: &Value) -> Vec<String> {
    let turns = snapshot["turns"].as_array().unwrap();
    let (late, others): (Vec<&Value>, Vec<&Value>) =
        turns.iter().skip(1).partition(|turn| turn["origin"] == "foreign");
    assert!(late.iter().all(|turn| turn["outcome"] == "cancelled"), "{snapshot:#}");
    others.iter().map(|turn| turn["outcome"].as_str().unwrap_or("open").to_owned()).collect()
}

/// A prompt was cancelled and is over in the log, and the server still does not listen.
fn given_up() -> (Window, String) {
    let window = Window::open("1s");
    let prompt = window.sent("Go on");
    window.post("cancel", &json!({}));
    window.ended(2);
    window.is_cancelled(&prompt);
    (window, prompt)
}

#[test]
fn a_prompt_that_its_server_takes_up_after_it_was_given_up_is_stopped_before_the_next_one() {
    let (window, prompt) = given_up();
    window.prompt("Say hello again");
    window.go_on();
    let snapshot = window.settled(2);
    assert_eq!(outcomes(&snapshot), ["cancelled", "completed"], "{snapshot:#}");
    window.is_cancelled(&prompt);
    window.nothing_goes_on();
}

#[test]
fn a_prompt_that_was_given_up_is_stopped_also_when_its_gateway_was_killed() {
    let (mut window, prompt) = given_up();
    send(&window.serving.child, Signal::KILL);
    window.serving.child.wait().unwrap();
    window.go_on();
    window.serving = window.lab.serve();
    window.prompt("Say hello again");
    let snapshot = window.settled(2);
    assert_eq!(outcomes(&snapshot), ["cancelled", "completed"], "{snapshot:#}");
    window.is_cancelled(&prompt);
    window.nothing_goes_on();
}
