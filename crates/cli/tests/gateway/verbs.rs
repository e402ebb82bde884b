//! Short commands about a session: answered, stopped, sent to, deleted, by the beginning of its id.

use crate::support::{Home, Serving, ask, prompt, read, stderr, stdout, wait_for};
use serde_json::{Value, json};
use std::process::Output;

/// A gateway, and a session in it whose agent asks before it does anything.
fn session(home: &Home) -> (Serving, String) {
    let serving = home.serve(&[]);
    let id = made(home, &serving);
    (serving, id)
}

fn made(home: &Home, serving: &Serving) -> String {
    let body = json!({"agent": "scripted", "cwd": home.path("work"), "permissions": "ask"});
    let (head, session) = ask(&serving.address, "POST", "/v1/sessions", &body);
    assert!(head.starts_with("http/1.1 201"), "{head} {session}");
    session["id"].as_str().unwrap().to_owned()
}

fn snapshot(serving: &Serving, id: &str) -> Value {
    ask(&serving.address, "GET", &format!("/v1/sessions/{id}/snapshot"), &json!({})).1
}

/// Waits until so many of these wait for a person.
fn until_open(serving: &Serving, id: &str, list: &str, count: usize) {
    wait_for(|| {
        let open =
            snapshot(serving, id)[list].as_array()?.iter().filter(|one| one["outcome"].is_null()).count();
        Some(()).filter(|()| open == count)
    });
}

fn assert_refused(refused: &Output, told: &str) {
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(stderr(refused).contains(told), "{told}: {refused:?}");
}

fn writes(file: &str) -> Value {
    let effect = json!({"write": {"path": file, "text": "t"}});
    json!({"do": "tool", "ask": true, "title": format!("Write {file}"), "effect": effect})
}

#[test]
fn what_an_agent_asks_is_answered_from_another_terminal() {
    let home = Home::new();
    let (serving, id) = session(&home);
    let steps = json!([{"do": "at_once", "steps": [writes("a"), writes("b")]}, writes("c")]);
    let sent = home.run(&["send", &id, &prompt(&steps)]);
    assert_eq!((sent.status.code(), stdout(&sent)), (Some(0), "p1\n"), "{sent:?}");
    until_open(&serving, &id, "approvals", 2);

    assert_refused(&home.run(&["approve", &id, "allow"]), "2 of them wait; say which approval is meant");
    assert_refused(&home.run(&["approve", &id, "allow"]), "Write b");
    assert_refused(&home.run(&["approve", &id, "q9", "allow"]), "no approval that waits begins with q9");
    assert_refused(&home.run(&["approve", &id, "perhaps"]), "allow, always, reject");
    assert_refused(&home.run(&["approve", &id, "q1", "allow", "--stop"]), "--stop goes with reject");
    let open = snapshot(&serving, &id)["approvals"].clone();
    let of = |file: &str| {
        let title = format!("Write {file}");
        let one = open.as_array().unwrap().iter().find(|one| one["tool"]["title"] == title.as_str());
        one.unwrap()["approval"].as_str().unwrap().to_owned()
    };
    let (first, second) = (of("a"), of("b"));
    let allowed = home.run(&["approve", &id[..12], &first, "allow"]);
    assert_eq!(stdout(&allowed), format!("allow_once {first}: Write a\n"), "{allowed:?}");
    let message = home.run(&["approve", &id, &second, "reject", "--message", "not that one"]);
    assert_eq!(message.status.code(), Some(0), "{message:?}");
    until_open(&serving, &id, "approvals", 1);
    let last = home.run(&["approve", &id, "always"]);
    assert_eq!(last.status.code(), Some(0), "{last:?}");
    wait_for(|| Some(()).filter(|()| home.path("work/c").exists()));
    assert_eq!(read(&home.path("work/a")), "t");
    assert!(!home.path("work/b").exists());
    let settled = snapshot(&serving, &id)["approvals"].clone();
    let refused = settled.as_array().unwrap().iter().find(|one| one["approval"] == second.as_str()).unwrap();
    assert_eq!((&refused["outcome"], &refused["message"]), (&json!("reject"), &json!("not that one")));
    assert_refused(&home.run(&["approve", &id, "allow"]), "no approval waits in this session");
}

#[test]
fn a_question_is_shown_and_answered() {
    let home = Home::new();
    let (serving, id) = session(&home);
    let question = |text: &str| {
        json!({"do": "question", "questions": [{"id": "0", "text": text,
            "options": [{"label": "PG"}, {"label": "Lite"}]}]})
    };
    home.run(&["send", &id, &prompt(&json!([question("Which one?"), question("Sure?")]))]);
    until_open(&serving, &id, "questions", 1);
    assert_refused(&home.run(&["answer", &id]), "Which one?\n    1. PG\n    2. Lite");
    assert_refused(&home.run(&["answer", &id, "3"]), "\"3\" is none of what is offered");
    let answered = home.run(&["answer", &id, "2"]);
    assert_eq!(
        (answered.status.code(), stdout(&answered)),
        (Some(0), "answered u1: Which one?\n"),
        "{answered:?}"
    );
    wait_for(|| Some(()).filter(|()| snapshot(&serving, &id)["questions"][1]["outcome"].is_null()));
    until_open(&serving, &id, "questions", 1);
    assert_refused(
        &home.run(&["answer", &id, "1", "--question", "u1"]),
        "no question that waits begins with u1",
    );
    let rejected = home.run(&["answer", &id, "--reject", "--question", "u2"]);
    assert_eq!(rejected.status.code(), Some(0), "{rejected:?}");
    let asked = snapshot(&serving, &id)["questions"].clone();
    assert_eq!(asked[0]["answers"], json!({"0": ["Lite"]}));
    assert_eq!(asked[1]["outcome"], "rejected");
}

#[test]
fn a_run_behind_a_turn_that_waits_for_an_answer_says_so_and_how_it_is_given() {
    let home = Home::new();
    let (serving, id) = session(&home);
    home.run(&["send", &id, &prompt(&json!([writes("a"), writes("b")]))]);
    until_open(&serving, &id, "approvals", 1);
    let errors = home.path("run.err");
    let mut command =
        home.command(&["run", &prompt(&json!([{"do": "text", "text": "Mine."}])), "--session", &id]);
    let run = command.stderr(std::fs::File::create(&errors).unwrap()).spawn().unwrap();
    // One that was open before, and one that comes while it waits.
    for (approval, file) in [("q1", "a"), ("q2", "b")] {
        let told = wait_for(|| {
            let told = read(&errors);
            told.contains(&format!("approve {id} {approval} allow --data ")).then_some(told)
        });
        assert!(told.contains(&format!("Write {file}")), "{told}");
        assert!(told.contains("another turn of the session waits for an answer"), "{told}");
        let allowed = home.run(&["approve", &id, approval, "allow"]);
        assert_eq!(allowed.status.code(), Some(0), "{allowed:?}");
    }
    let done = run.wait_with_output().unwrap();
    assert_eq!((done.status.code(), stdout(&done)), (Some(0), "Mine.\n"), "{}", read(&errors));
    assert_eq!(read(&errors).matches("another turn of the session").count(), 2, "{}", read(&errors));
}

#[test]
fn text_from_outside_never_begins_a_line_of_its_own() {
    let home = Home::new();
    let serving = home.serve(&[]);
    let body = json!({"agent": "scripted", "cwd": home.path("work"), "permissions": "ask",
        "title": "t\nturnstream: all is deleted"});
    let (_, made) = ask(&serving.address, "POST", "/v1/sessions", &body);
    ask(&serving.address, "POST", "/v1/sessions", &body);
    let id = made["id"].as_str().unwrap();
    assert_refused(&home.run(&["cancel", "ses_"]), r"  t\nturnstream: all is deleted");
    let question =
        json!({"do": "question", "questions": [{"id": "0", "text": "A\nfake line", "custom": true}]});
    let steps = json!([{"do": "tool", "ask": true, "title": "A\nfake line"}, question]);
    home.run(&["send", id, &prompt(&steps)]);
    until_open(&serving, id, "approvals", 1);
    let allowed = home.run(&["approve", id, "allow"]);
    assert_eq!(stdout(&allowed), "allow_once q1: A\\nfake line\n", "{allowed:?}");
    until_open(&serving, id, "questions", 1);
    let answered = home.run(&["answer", id, "yes"]);
    assert_eq!(stdout(&answered), "answered u1: A\\nfake line\n", "{answered:?}");
}

#[test]
fn a_prompt_on_standard_input_that_is_no_text_is_refused_with_its_byte() {
    let home = Home::new();
    let (_serving, id) = session(&home);
    let file = home.path("prompt");
    for (bytes, told) in [
        (b"ab\xff".to_vec(), "is no text: byte 2 is not UTF-8"),
        (vec![b'a'; (10 << 20) + 1], "more than 10 MiB"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let mut command = home.command(&["send", &id, "-"]);
        assert_refused(&command.stdin(std::fs::File::open(&file).unwrap()).output().unwrap(), told);
    }
}

#[test]
fn a_turn_is_cancelled_and_the_next_prompt_goes_on() {
    let home = Home::new();
    let (serving, id) = session(&home);
    assert_refused(&home.run(&["cancel", &id]), "no turn is open");
    home.run(&["send", &id, &prompt(&json!([{"do": "text", "text": "begun"}, {"do": "stall"}]))]);
    let behind = home.run(&["send", &id, "-"]);
    assert_refused(&behind, "the prompt is empty");
    wait_for(|| snapshot(&serving, &id)["turns"][0]["turn"].as_str().map(drop));
    let behind = home.run(&["send", &id, &prompt(&json!([{"do": "text", "text": "next"}]))]);
    assert_eq!(behind.status.code(), Some(0), "{behind:?}");
    let cancelled = home.run(&["cancel", &id]);
    assert_eq!(stdout(&cancelled), format!("cancelling turn t1 of session {id}\n"), "{cancelled:?}");
    let turns = wait_for(|| {
        let turns = snapshot(&serving, &id)["turns"].clone();
        turns[1]["outcome"].is_string().then_some(turns)
    });
    assert_eq!((&turns[0]["outcome"], &turns[1]["outcome"]), (&json!("cancelled"), &json!("completed")));
}

#[test]
fn a_session_that_its_agent_has_is_not_resumed() {
    let home = Home::new();
    let (_serving, id) = session(&home);
    let refused = home.run(&["resume", &id, "--as", "transcript"]);
    assert_refused(&refused, "has not forgotten session");
    let unknown = home.run(&["resume", &id, "--as", "before"]);
    assert!(stderr(&unknown).contains("[possible values: fresh, transcript]"), "{unknown:?}");
}

#[test]
fn the_beginning_of_an_id_is_enough_everywhere_and_never_guessed() {
    let home = Home::new();
    let (serving, first) = session(&home);
    let second = made(&home, &serving);
    let script = prompt(&json!([{"do": "text", "text": "hello there"}]));
    // As much as tells the two apart, with and without what all ids begin with.
    let same = first.bytes().zip(second.bytes()).take_while(|(one, other)| one == other).count();
    let (short, bare) = (&first[..=same], &first[4..=same.max(4)]);
    let turn = home.run(&["run", &script, "--session", short]);
    assert_eq!((turn.status.code(), stdout(&turn)), (Some(0), "hello there\n"), "{turn:?}");
    assert!(stderr(&turn).starts_with(&format!("session {first}, agent scripted\n")), "{turn:?}");
    for args in [&["tail", bare, "--no-follow"][..], &["export", short], &["send", bare, "more"]] {
        let done = home.run(args);
        assert_eq!(done.status.code(), Some(0), "{args:?}: {done:?}");
    }
    // The index learns of an item a moment after the end of its turn.
    wait_for(|| match home.run(&["search", "hello", "--session", bare]) {
        found if found.status.success() => Some(()),
        nothing if nothing.status.code() == Some(1) => None,
        refused => panic!("{refused:?}"),
    });
    for args in [
        &["tail", "ses_"][..],
        &["export", "ses_"],
        &["run", "x", "--session", "ses_"],
        &["search", "x", "--session", "ses_"],
        &["delete", "ses_"],
        &["send", "ses_", "x"],
    ] {
        let refused = home.run(args);
        assert_refused(&refused, "2 sessions begin with ses_; type more of the id");
        assert!(stderr(&refused).contains(&first) && stderr(&refused).contains(&second), "{refused:?}");
    }
    assert_refused(&home.run(&["delete", &first, "ses_nope"]), "there is no session ses_nope");
    assert_refused(&home.run(&["delete", ""]), "is empty");
    let deleted = home.run(&["delete", short]);
    assert_eq!(deleted.status.code(), Some(0), "{deleted:?}");
    assert!(stdout(&deleted).starts_with(&format!("deleted session {first}")), "{deleted:?}");
    let listed = home.run(&["ls", "--json"]);
    let left: Value = serde_json::from_str(stdout(&listed)).unwrap();
    assert_eq!(left["id"], second.as_str());
}

#[test]
fn every_verb_shows_examples_and_every_shell_has_completions() {
    let home = Home::new();
    for verb in ["approve", "answer", "cancel", "resume", "delete", "agents", "send", "completions"] {
        let help = home.run(&[verb, "--help"]);
        assert_eq!(help.status.code(), Some(0), "{help:?}");
        assert!(stdout(&help).contains(&format!("Examples:\n  turnstream {verb}")), "{help:?}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = home.run(&["completions", shell]);
        assert_eq!((script.status.code(), stderr(&script)), (Some(0), ""), "{shell}");
        assert!(stdout(&script).contains("approve"), "{shell}");
    }
}
