//! Caps and handovers on the command line.

use crate::support::{Home, prompt, stderr, stdout};
use serde_json::{Value, json};
use turnstream_testkit::lawful::{Tail, assert_lawful};

/// Two model calls that ask for more. The next one never comes.
fn endless() -> Value {
    let call =
        [json!({"do": "attempt"}), json!({"do": "attempt_end", "finish": "tool_use", "usage": {"input": 5}})];
    let calls = std::iter::repeat_n(call, 2).flatten();
    json!(calls.chain([json!({"do": "stall"})]).collect::<Vec<_>>())
}

/// The only session, or the one that is not this.
fn session(home: &Home, other_than: &str) -> String {
    let listed = home.run(&["sessions", "--json"]);
    let sessions = stdout(&listed).lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut ids = sessions.map(|session| session["id"].as_str().unwrap().to_owned());
    ids.find(|id| id != other_than).unwrap()
}

#[test]
fn a_turn_at_its_cap_ends_with_its_own_exit_code_and_a_session_at_its_cap_is_raised() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let stopped = home.play(&endless(), &["--budget", "steps=2", "--budget", "session_tokens=10"]);
    assert_eq!(stopped.status.code(), Some(39), "{stopped:?}");
    let told = "failed · budget: the turn was stopped: the turn has reached its cap of 2 steps";
    assert!(stderr(&stopped).contains(told), "{stopped:?}");

    let id = session(&home, "");
    let short = json!([{"do": "attempt"}, {"do": "attempt_end", "finish": "stop", "usage": {"input": 5}}]);
    let refused = home.run(&["run", &prompt(&short), "--session", &id]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(stderr(&refused).contains("the session has used 10 tokens of 10 tokens"), "{refused:?}");

    let shown = home.run(&["budget", &id]);
    let lines: Vec<&str> = stdout(&shown).lines().collect();
    assert_eq!(lines[0], format!("session {id}"), "{shown:?}");
    assert_eq!(
        lines[1..],
        ["  session_tokens=10, used 10: reached, the session takes no prompt", "  steps=2"],
        "{shown:?}"
    );
    let raised = home.run(&["budget", &id, "session_tokens=1000", "steps=none"]);
    assert_eq!(raised.status.code(), Some(0), "{raised:?}");
    assert!(stdout(&raised).ends_with("\n  session_tokens=1000, used 10\n"), "{raised:?}");
    let passed = home.run(&["run", &prompt(&short), "--session", &id, "--budget", "steps=1"]);
    assert_eq!(passed.status.code(), Some(0), "{passed:?}");
    let log = home.run(&["tail", &id, "--json", "--no-follow"]);
    assert_lawful(stdout(&log).lines(), Tail::Settled);

    for (args, told) in [
        (&["budget", &id, "turns=3"][..], "there is no cap \"turns\""),
        (&["budget", &id, "steps=0"], "the cap on steps must be more than 0"),
        (&["run", "x", "--session", &id, "--budget", "session_steps=3"], "turnstream budget"),
    ] {
        let refused = home.run(args);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(stderr(&refused).contains(told), "{told}: {refused:?}");
    }
}

#[test]
fn a_session_goes_on_from_another_one() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let first = home.play(&json!([{"do": "text", "text": "The word is plum."}]), &[]);
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    let old = session(&home, "");
    // It repeats the beginning of what it is given.
    let next = home.run(&["run", "Go on", "--from", &old[..8], "--agent", "scripted"]);
    assert_eq!(next.status.code(), Some(0), "{next:?}");
    let given =
        format!("You said: “Conversation of another session, handed over by Turnstream: session {old}");
    assert!(stdout(&next).contains(&given), "{next:?}");
    let new = session(&home, &old);
    for (id, line) in [
        (&old, format!("[handed over] to session {new}, agent scripted")),
        (&new, format!("[handed over] from session {old}, agent scripted")),
    ] {
        let shown = home.run(&["tail", id, "--no-follow"]);
        assert!(stdout(&shown).contains(&line), "{line}: {shown:?}");
        let log = home.run(&["tail", id, "--json", "--no-follow"]);
        assert_lawful(stdout(&log).lines(), Tail::Settled);
    }
    let both = home.run(&["run", "x", "--from", &old, "--session", &new]);
    assert!(stderr(&both).contains("cannot be used with"), "{both:?}");
}
