//! Which agent a new session gets.

use crate::support::{Home, install, stderr};
use std::process::Output;

/// `run` without `--agent`, with this configuration.
fn run(home: &Home, file: &str, args: &[&str]) -> Output {
    let config = home.path("turnstream.toml");
    std::fs::write(&config, file).unwrap();
    home.run(&[&["run", "Hello", "--config", config.to_str().unwrap()], args].concat())
}

/// The agent that the first line beside the answer names.
fn taken(turn: &Output) -> &str {
    let first = stderr(turn).lines().next().unwrap_or_default();
    assert!(first.starts_with("session ses_"), "{turn:?}");
    let (_, agent) = first.split_once(", agent ").unwrap();
    agent.split(';').next().unwrap()
}

#[test]
fn without_a_word_the_default_or_the_only_real_agent_is_taken() {
    let home = Home::new();
    assert_eq!(taken(&home.run(&["run", "Hello"])), "scripted", "a fresh install has the demo");
    let two = "[agents.a]\nkind = \"scripted\"\npace_ms = 0\n[agents.b]\nkind = \"scripted\"\npace_ms = 0\n";
    let chosen = run(&home, &format!("default_agent = \"b\"\n{two}"), &[]);
    assert_eq!((chosen.status.code(), taken(&chosen)), (Some(0), "b"), "{chosen:?}");
    // A program that is there, if no opencode: it is taken, and fails for itself.
    let program = install(&home, "oc", "[ \"$1\" = --version ] && echo 1.18.33 && exit 0\nexit 1");
    let real =
        format!("[agents.oc]\nkind = \"opencode\"\ncommand = {program:?}\n[timeouts]\nconnect = \"1s\"\n");
    let turn = run(&home, &real, &[]);
    assert_eq!(taken(&turn), "oc", "{turn:?}");
    assert_ne!(turn.status.code(), Some(0), "{turn:?}");
    let mut variable = home.command(&["run", "Hello"]);
    let variable = variable.env("TURNSTREAM_DEFAULT_AGENT", "nobody").output().unwrap();
    assert_eq!(variable.status.code(), Some(2), "{variable:?}");
    assert!(stderr(&variable).contains("TURNSTREAM_DEFAULT_AGENT = \"nobody\" is no agent"), "{variable:?}");
}

#[test]
fn where_no_agent_is_the_one_all_are_listed_with_what_is_wrong_with_each() {
    let home = Home::new();
    let file = "[agents.gone]\nkind = \"opencode\"\ncommand = \"/nowhere/opencode\"\n\
                [agents.remote]\nkind = \"opencode\"\nurl = \"http://127.0.0.1:1\"\n";
    let none = run(&home, file, &[]);
    assert!(stderr(&none).starts_with("no gateway serves "), "whose agents these are: {none:?}");
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    for told in [
        "none of the real agents can be used",
        "\n  gone: cannot be used: /nowhere/opencode is not installed",
        "\n  remote: cannot be used: the server at http://127.0.0.1:1 cannot be used",
        "\n  scripted: can be used; a demo",
    ] {
        assert!(stderr(&none).contains(told), "{told}: {none:?}");
    }
    let chosen = run(&home, &format!("default_agent = \"gone\"\n{file}"), &[]);
    assert!(stderr(&chosen).contains("agent gone, which is the default_agent"), "{chosen:?}");
    let several = "[agents.a]\nkind = \"opencode\"\ncommand = \"/bin/true\"\n\
                   [agents.b]\nkind = \"opencode\"\ncommand = \"/bin/true\"\n";
    let several = run(&home, several, &[]);
    assert_eq!(several.status.code(), Some(2), "{several:?}");
    assert!(stderr(&several).contains("name one with --agent NAME"), "{several:?}");
    // The list itself says the same.
    let config = home.path("turnstream.toml");
    std::fs::write(&config, file).unwrap();
    let listed = home.run(&["agents", "--config", config.to_str().unwrap()]);
    assert_eq!(listed.status.code(), Some(0), "{listed:?}");
    let text = String::from_utf8(listed.stdout).unwrap();
    assert!(text.contains("gone: opencode, started as /nowhere/opencode\n  cannot be used: "), "{text}");
}
