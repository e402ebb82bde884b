//! A turn with subagents over a kill of the gateway: its end has what all of them took, and nothing of them
//! follows it.

use super::{Lab, of_type};
use crate::support::{Serving, ask, is_full, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use turnstream_fake_provider::{Completion, Delivery, Ended, Part, Step, Usage};
use turnstream_testkit::agents::Opencode;
use turnstream_testkit::lawful::{Tail, assert_lawful};

const NORTH: &str = "The north is cold, says the one who went there and came back.";
const SOUTH: &str = "The south is warm, says the one who went there, stayed a little longer than the other one did, \
                     and then came back as well.";

/// When the gateway is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    /// A subagent has its session.
    SubagentsBegin,
    /// Both are talking.
    SubagentsTalk,
    /// One is back. On a busy machine the other may be, too, before anybody looks.
    OneIsBack,
    /// Both are back, and the agent talks about it.
    BothAreBack,
}

/// When another one is started.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Restart {
    AtOnce,
    /// The model has said its last word, and nobody was there to hear it.
    AfterTheTurn,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    moment: Moment,
    restart: Restart,
    /// Milliseconds before each word of the last call: the turn ends before, while or after another gateway
    /// takes it up.
    pause: u64,
}

fn usage(input: u64, output: u64) -> Usage {
    Usage { input, cached: 0, output, reasoning: 0 }
}

fn said(text: &str, took: Usage, pause: u64) -> Step {
    let slow = Delivery { before_delta_ms: pause, ..Delivery::default() };
    Step::new(Completion { usage: took, ..Completion::text(text) }).delivered(slow)
}

fn task(to: &str, round: usize) -> Part {
    let prompt = format!("You go {to} in round {round}.");
    Part::tool_call(
        "task",
        json!({"description": format!("Go {to}"), "prompt": prompt, "subagent_type": "general"}),
    )
}

/// Of round after round: one call that sends two subagents, one call of each, one call to say that they are
/// back.
fn script(rounds: &[Round]) -> Vec<Step> {
    let round = |(round, Round { pause, .. }): (usize, &Round)| {
        let sends = Completion {
            usage: usage(100, 1),
            ..Completion::of([Part::text("I send two. "), task("north", round), task("south", round)])
        };
        [
            said(NORTH, usage(2_000, 20), 40)
                .for_user_text(&format!("You go north in round {round}."))
                .always(),
            said(SOUTH, usage(3_000, 30), 60)
                .for_user_text(&format!("You go south in round {round}."))
                .always(),
            Step::new(sends).for_user_text(&format!("Send both in round {round}.")),
            said("Both are back now, and that is all there is.", usage(200, 2), *pause)
                .for_user_text(&format!("Send both in round {round}.")),
        ]
    };
    rounds.iter().enumerate().flat_map(round).collect()
}

fn post(serving: &Serving, path: &str, body: &Value) -> Value {
    let (head, answer) = ask(&serving.address, "POST", path, body);
    assert!(head.starts_with("http/1.1 2"), "{head}: {answer}");
    answer
}

fn log_of(lab: &Lab, session: &str) -> Vec<Value> {
    let tail = lab.home.run(&["tail", session, "--json", "--no-follow"]);
    assert_lawful(stdout(&tail).lines(), Tail::Live);
    stdout(&tail).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The items of subagents that are talking, and that are done.
fn subagents(log: &[Value]) -> (usize, usize) {
    let begun = of_type(log, "item.started");
    let begun: Vec<&Value> =
        begun.into_iter().filter(|item| !item["parent"].is_null() && item["kind"] == "message").collect();
    let ended = of_type(log, "item.ended");
    let is_done = |item: &&&Value| ended.iter().any(|end| end["item"] == item["item"]);
    let talking =
        |item: &&&Value| of_type(log, "item.delta").iter().any(|delta| delta["item"] == item["item"]);
    (begun.iter().filter(talking).count(), begun.iter().filter(is_done).count())
}

fn has_come(moment: Moment, log: &[Value]) -> bool {
    let (talking, done) = subagents(log);
    let named = |item: &Value| !item["tool"]["subagent_session"].is_null();
    match moment {
        Moment::SubagentsBegin => log.iter().any(named),
        Moment::SubagentsTalk => talking == 2,
        Moment::OneIsBack => done >= 1,
        Moment::BothAreBack => done == 2 && of_type(log, "attempt.started").len() == 2,
    }
}

#[test]
fn the_end_of_a_turn_with_subagents_has_all_they_took_whenever_the_gateway_is_killed() {
    let moments = [Moment::SubagentsBegin, Moment::SubagentsTalk, Moment::OneIsBack, Moment::BothAreBack];
    let of = |moment, restart, pause| Round { moment, restart, pause };
    let mut rounds: Vec<Round> = moments.map(|moment| of(moment, Restart::AtOnce, 60)).to_vec();
    rounds.extend(
        [Moment::SubagentsTalk, Moment::BothAreBack].map(|moment| of(moment, Restart::AfterTheTurn, 10)),
    );
    if is_full() {
        rounds.extend(
            [Moment::SubagentsBegin, Moment::OneIsBack].map(|moment| of(moment, Restart::AfterTheTurn, 10)),
        );
        // The turn ends before, while and after another gateway takes it up.
        rounds.extend([20, 30, 40, 50, 80, 110].map(|pause| of(Moment::BothAreBack, Restart::AtOnce, pause)));
    }
    let lab = Lab::new(script(&rounds));
    // A million tokens cost a dollar, or ten where the model writes them.
    let priced =
        json!({"provider": {"scripted": {"models": {"scripted-1": {"cost": {"input": 1, "output": 10}}}}}});
    std::fs::write(lab.home.path("work/opencode.json"), priced.to_string()).unwrap();
    let mut serving = lab.serve();
    for (round, Round { moment, restart, pause }) in rounds.into_iter().enumerate() {
        let shown = format!("{moment:?}, {restart:?}, {pause} ms");
        let new = json!({"agent": "opencode", "cwd": lab.home.path("work"), "permissions": "allow"});
        let session = post(&serving, "/v1/sessions", &new)["id"].as_str().unwrap().to_owned();
        let content = json!([{"type": "text", "text": format!("Send both in round {round}.")}]);
        post(&serving, &format!("/v1/sessions/{session}/prompts"), &json!({"content": content}));
        wait_for(|| Some(()).filter(|()| has_come(moment, &log_of(&lab, &session))));
        serving.end(Signal::KILL);
        if restart == Restart::AfterTheTurn {
            let last = format!("Send both in round {round}.");
            wait_for(|| {
                let calls = lab.provider.calls();
                // The title is asked of another model, and with the same words.
                let of_round = calls.iter().filter(|call| {
                    call.asked.model == Opencode::MODEL && call.asked.user_text.contains(&last)
                });
                let over = of_round.filter(|call| call.ended != Ended::Open).count();
                Some(()).filter(|()| over >= 2)
            });
        }
        serving = lab.serve();
        let log =
            wait_for(|| Some(log_of(&lab, &session)).filter(|log| !of_type(log, "turn.ended").is_empty()));
        let end = of_type(&log, "turn.ended")[0].clone();
        assert_eq!(end["outcome"], "completed", "{shown}: {log:#?}");
        let spent = (&end["usage"]["input"], &end["usage"]["output"], &end["usage"]["total"]);
        assert_eq!(spent, (&json!(5_300), &json!(53), &json!(5_353)), "{shown}: {log:#?}");
        let cost = end["cost"]["amount"].as_f64().unwrap();
        assert!((cost - 0.005_83).abs() < 1e-9, "{shown}: {cost}");
        // Long after its end the log is still as it was: nothing of a subagent comes late.
        let health = || ask(&serving.address, "GET", "/v1/ready", &json!({})).1["recovering"].clone();
        wait_for(|| Some(()).filter(|()| health() == 0));
        let log = log_of(&lab, &session);
        let place = log.iter().position(|event| event["type"] == "turn.ended").unwrap();
        let late: Vec<&Value> = log[place + 1..].iter().filter(|event| !event["item"].is_null()).collect();
        assert_eq!(late, [&Value::Null; 0], "{shown}");
        let snapshot =
            ask(&serving.address, "GET", &format!("/v1/sessions/{session}/snapshot"), &json!({})).1;
        let items = snapshot["items"].as_array().unwrap();
        let of_subagents: Vec<&str> = items
            .iter()
            .filter(|item| !item["parent"].is_null() && item["kind"] == "message")
            .map(|item| item["text"].as_str().unwrap())
            .collect();
        assert_eq!(of_subagents.len(), 2, "{shown}: {of_subagents:?}");
        assert!(of_subagents.contains(&NORTH) && of_subagents.contains(&SOUTH), "{shown}: {of_subagents:?}");
    }
    let (status, _) = serving.end(Signal::TERM);
    assert!(status.success());
}
