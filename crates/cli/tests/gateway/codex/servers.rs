//! The app-server of Codex dies, does not start, is stopped, is started many times at once, or has lost its
//! threads.

use super::{Lab, accepted, answers, of_type, outcomes, prompt, shell, signal};
use crate::support::{ask, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use turnstream_fake_provider::{Delivery, Step};

/// A command that runs until it is ended, and a child that has left its session.
const STUBBORN: &str = "echo $$ > pid.txt; setsid sleep 300 & echo $! > child.txt; sleep 300";

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[test]
fn a_killed_server_loses_its_turn_once_leaves_no_command_behind_and_the_next_turn_goes_on() {
    let lab = Lab::new([shell(STUBBORN), Step::text("I am back.").always()]);
    let serving = lab.serve();
    let session = lab.session(&serving);
    accepted(&serving, &session, "Run it");
    wait_for(|| (!lab.work("child.txt").is_empty()).then_some(()));
    let (shell, child) = (lab.work("pid.txt"), lab.work("child.txt"));
    assert!(is_alive(&shell) && is_alive(&child));

    signal(lab.codex_process().unwrap(), Signal::KILL);
    let log = lab.ended(&session, 1);
    assert_eq!(outcomes(&log), ["lost"]);
    assert_eq!(of_type(&log, "turn.ended")[0]["error"]["class"], "agent_exited");
    let tool = of_type(&log, "item.started").into_iter().find(|item| item["kind"] == "tool").unwrap();
    let ended = of_type(&log, "item.ended").into_iter().find(|item| item["item"] == tool["item"]).unwrap();
    assert_eq!(ended["state"], "unknown", "a command that may have run");
    wait_for(|| (!is_alive(&shell) && !is_alive(&child)).then_some(()));

    accepted(&serving, &session, "Are you there?");
    let log = lab.ended(&session, 2);
    assert_eq!(outcomes(&log), ["lost", "completed"], "{log:#?}");
    let asked = lab.provider.calls().last().unwrap().asked.user_texts.join("\n");
    assert!(asked.contains("Run it"), "it remembers: {asked}");
    serving.end(Signal::TERM);
    wait_for(|| lab.processes().is_empty().then_some(()));
}

#[test]
fn a_start_that_dies_before_its_first_answer_is_tried_again() {
    let lab = Lab::new([Step::text("Here I am.").always()]);
    let real = lab.codex.command().unwrap();
    let (wrapper, tries) = (lab.home.path("codex"), lab.home.path("tries"));
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] || echo try >> '{tries}'\n\
         [ \"$1\" = --version ] || [ $(wc -l < '{tries}') -gt 2 ] || exit 7\nexec '{}' \"$@\"\n",
        real.display(),
        tries = tries.display(),
    );
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    lab.configure(&wrapper);
    let serving = lab.serve();
    let session = lab.session(&serving);
    accepted(&serving, &session, "Hello");
    let log = lab.ended(&session, 1);
    assert_eq!(outcomes(&log), ["completed"], "{log:#?}");
    assert_eq!(std::fs::read_to_string(&tries).unwrap(), "try\n".repeat(3));

    // One that always dies says why.
    let broken =
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 0.166.0 && exit\necho the disk ate it >&2\nexit 9\n";
    std::fs::write(&wrapper, broken).unwrap();
    let session = lab.session(&serving);
    accepted(&serving, &session, "Hello");
    let log = lab.ended(&session, 1);
    let error = &of_type(&log, "turn.ended")[0]["error"];
    assert_eq!((&error["class"], outcomes(&log)), (&json!("unreachable"), vec!["failed"]));
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("exit status: 9") && message.contains("the disk ate it"), "{message}");
}

#[test]
fn sessions_that_begin_at_the_same_time_in_a_new_home_all_have_their_turn() {
    let lab = Lab::new([Step::text("Here I am.").always()]);
    let serving = lab.serve();
    let sessions: Vec<String> = (0..4).map(|_| lab.session(&serving)).collect();
    for session in &sessions {
        accepted(&serving, session, "Hello");
    }
    for session in &sessions {
        let log = lab.ended(session, 1);
        assert_eq!(outcomes(&log), ["completed"], "{log:#?}");
    }
}

#[test]
fn a_server_that_never_answers_does_not_keep_other_sessions_from_starting() {
    let lab = Lab::new([Step::text("Here I am.").always()]);
    let real = lab.codex.command().unwrap();
    // Connections to it are never accepted.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (wrapper, first) = (lab.home.path("codex"), lab.home.path("first"));
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] || mkdir '{}' 2> /dev/null || exec '{real}' \"$@\"\n\
         [ \"$1\" = --version ] && exec '{real}' \"$@\"\n\
         echo 'listening on: ws://{} with a token'\nexec sleep 3000\n",
        first.display(),
        silent.local_addr().unwrap(),
        real = real.display(),
    );
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    lab.configure(&wrapper);
    let serving = lab.serve();
    let waiting = lab.session(&serving);
    accepted(&serving, &waiting, "Hello");
    wait_for(|| first.exists().then_some(()));
    let session = lab.session(&serving);
    accepted(&serving, &session, "Hello");
    let log = lab.ended(&session, 1);
    assert_eq!(outcomes(&log), ["completed"], "{log:#?}");
    assert_eq!(outcomes(&lab.log(&waiting)), [] as [&str; 0], "its server does not answer");
}

#[test]
fn a_turn_and_its_permission_survive_a_killed_gateway_also_when_codex_was_stopped() {
    let slow = Delivery { before_delta_ms: 100, ..Delivery::default() };
    let answer = "A long answer, of which the gateway has only seen the beginning when it is killed.";
    let lab =
        Lab::new([shell("touch made.txt"), Step::text(answer).delivered(slow), Step::text("Yes.").always()]);
    let serving = lab.serve();
    let session = lab.session_with(&serving, json!({"permissions": "ask"}));
    accepted(&serving, &session, "Make it");
    wait_for(|| (!of_type(&lab.log(&session), "approval.requested").is_empty()).then_some(()));
    serving.end(Signal::KILL);

    let serving = lab.serve();
    let path = format!("/v1/sessions/{session}");
    wait_for(|| {
        let (_, session) = ask(&serving.address, "GET", &path, &json!({}));
        (session["status"] == "waiting").then_some(())
    });
    let log = lab.log(&session);
    let asked = of_type(&log, "approval.requested");
    assert_eq!((asked.len(), of_type(&log, "approval.resolved").len()), (1, 0), "{log:#?}");
    let approval = format!("{path}/approvals/{}", asked[0]["approval"].as_str().unwrap());
    let (head, said) = ask(&serving.address, "POST", &approval, &json!({"outcome": "allow_once"}));
    assert!(head.starts_with("http/1.1 2"), "{head} {said}");
    let has_begun = |delta: &&Value| delta["text"].as_str().is_some_and(|text| text.contains("A long"));
    wait_for(|| of_type(&lab.log(&session), "item.delta").iter().any(has_begun).then_some(()));
    let process = lab.codex_process().unwrap();
    serving.end(Signal::KILL);
    // Not before: the kernel ends a stopped process whose parent dies.
    signal(process, Signal::STOP);

    let serving = lab.serve();
    let log = lab.ended(&session, 1);
    assert_eq!(outcomes(&log), ["completed"], "{log:#?}");
    assert!(lab.home.path("work").join("made.txt").exists());
    assert_eq!(answers(&serving, &session), ["I run it.", answer]);
    accepted(&serving, &session, "Are you there?");
    let log = lab.ended(&session, 2);
    assert_eq!(outcomes(&log), ["completed"; 2]);
    // The first turn had two calls, some of which ended without a gateway. Each call had the same tokens.
    let usage: Vec<&Value> = of_type(&log, "turn.ended").iter().map(|end| &end["usage"]).collect();
    for tokens in ["input", "output"] {
        let [first, second] = [0, 1].map(|turn| usage[turn][tokens].as_u64().unwrap());
        assert_eq!(first, 2 * second, "{tokens}: {usage:?}");
    }
}

#[test]
fn a_forgotten_thread_refuses_prompts_until_a_client_chooses_how_to_go_on() {
    let lab = Lab::new([Step::text("The secret word is plum.").always()]);
    let serving = lab.serve();
    let session = lab.session(&serving);
    accepted(&serving, &session, "Tell me a word");
    lab.ended(&session, 1);
    serving.end(Signal::TERM);
    std::fs::remove_file(lab.thread_file()).unwrap();

    let serving = lab.serve();
    let (head, answer) = prompt(&serving, &session, "What was it?");
    assert!(head.starts_with("http/1.1 409 "), "{head} {answer}");
    assert!(answer["type"].as_str().unwrap().ends_with("agent-forgot"), "{answer}");
    let path = format!("/v1/sessions/{session}/resume");
    let (head, answer) = ask(&serving.address, "POST", &path, &json!({"as": "transcript"}));
    assert!(head.starts_with("http/1.1 2"), "{head} {answer}");
    accepted(&serving, &session, "What was it?");
    let log = lab.ended(&session, 2);
    assert_eq!(outcomes(&log), ["completed", "completed"], "{log:#?}");
    let asked = lab.provider.calls().last().unwrap().asked.user_texts.join("\n");
    assert!(asked.contains("Tell me a word"), "{asked}");
}

/// Whoever does not know the token cannot use the listener.
#[test]
fn the_listener_of_codex_wants_a_token() {
    let lab = Lab::new([Step::text("Hello.").always()]);
    let serving = lab.serve();
    let session = lab.session(&serving);
    accepted(&serving, &session, "Hello");
    lab.ended(&session, 1);
    let records = lab.home.path("data").join("agents/codex");
    let mut paths = std::fs::read_dir(records).unwrap().flatten().map(|entry| entry.path());
    let record = paths.find(|path| path.extension().is_some_and(|ending| ending == "json")).unwrap();
    let mode = std::fs::metadata(&record).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let record: serde_json::Value = serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    let knock = |token: Option<&str>| {
        use std::io::{Read, Write};
        let port = u16::try_from(record["port"].as_u64().unwrap()).unwrap();
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let bearer = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        write!(
            stream,
            "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{bearer}\r\n"
        )
        .unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    assert_eq!(knock(None), "HTTP/1.1 401");
    assert_eq!(knock(Some("guessed")), "HTTP/1.1 401");
    assert_eq!(knock(Some(record["token"].as_str().unwrap())), "HTTP/1.1 101");
    let arguments = lab.processes().into_iter().map(|(_, line)| line).collect::<String>();
    assert!(!arguments.contains(record["token"].as_str().unwrap()));
}
