//! Flags over environment over file.

use crate::support::{Home, stderr, stdout};
use serde_json::json;

#[test]
fn a_file_decides_unless_the_environment_or_a_flag_does() {
    let home = Home::new();
    let config = home.path("turnstream.toml");
    std::fs::write(&config, "token = \"from-file\"\n[agents.demo]\nkind = \"scripted\"\npace_ms = 0\n")
        .unwrap();
    let serving = home.serve(&["--config", config.to_str().unwrap()]);
    let screen = serving.screen();
    assert!(screen.contains("a token is needed") && screen.contains("demo (scripted"), "{screen}");

    let without = home.run(&["sessions"]);
    assert_eq!(without.status.code(), Some(2), "{without:?}");
    assert!(stderr(&without).contains("TURNSTREAM_TOKEN"), "{without:?}");
    let mut with = home.command(&[
        "run",
        &json!({"script": [{"do": "text", "text": "hi"}]}).to_string(),
        "--agent",
        "demo",
    ]);
    let with = with.env("TURNSTREAM_TOKEN", "from-file").output().unwrap();
    assert_eq!((with.status.code(), stdout(&with)), (Some(0), "hi\n"), "{with:?}");
    let mut wrong = home.command(&["sessions", "--config", config.to_str().unwrap()]);
    let wrong = wrong.env("TURNSTREAM_TOKEN", "from-environment").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2), "the environment is stronger: {wrong:?}");
    let mut flag = home.command(&["sessions", "--config", config.to_str().unwrap(), "--token", "from-file"]);
    let flag = flag.env("TURNSTREAM_TOKEN", "from-environment").output().unwrap();
    assert_eq!(flag.status.code(), Some(0), "a flag is stronger still: {flag:?}");
}

#[test]
fn what_cannot_be_used_is_refused_by_name() {
    let home = Home::new();
    let config = home.path("turnstream.toml");
    std::fs::write(&config, "lisen = \"127.0.0.1:0\"\n").unwrap();
    let unknown = home.run(&["serve", "--config", config.to_str().unwrap()]);
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
    assert!(stderr(&unknown).contains("lisen") && stderr(&unknown).contains("`listen`"), "{unknown:?}");
    let open = home.run(&["--listen", "0.0.0.0:0"]);
    assert_eq!(open.status.code(), Some(2), "{open:?}");
    assert!(stderr(&open).contains("no token is configured"), "{open:?}");
    let mut variable = home.command(&["serve"]);
    let variable = variable.env("TURNSTREAM_TIMEOUTS_START", "soon").output().unwrap();
    assert!(stderr(&variable).contains("TURNSTREAM_TIMEOUTS_START = \"soon\""), "{variable:?}");
}

#[test]
fn configured_secrets_are_redacted_and_ordinary_text_is_not() {
    let home = Home::new();
    let config = home.path("turnstream.toml");
    let file = "[[redaction.literals]]\nname = \"warehouse\"\nenv = \"WAREHOUSE\"\n\
                [[redaction.patterns]]\nname = \"corp\"\nregex = \"corp_[a-z]{8}\"\nprefix = \"corp_\"\n";
    std::fs::write(&config, file).unwrap();
    let text = "plain, then open sesame 42, then corp_abcdefgh and corporate.";
    let script = json!({"script": [{"do": "text", "text": text}], "pace_ms": 0}).to_string();
    let place = ["--config", config.to_str().unwrap()];
    let run = |arguments: &[&str]| {
        let mut command = home.command(&[&["run", script.as_str()], arguments, &place].concat());
        command.env("WAREHOUSE", "open sesame 42").output().unwrap()
    };
    let redacted = run(&[]);
    let told = "plain, then [redacted:warehouse], then [redacted:corp] and corporate.\n";
    assert_eq!(stdout(&redacted), told, "{redacted:?}");
    // What the agent says is redacted also where prompts are handed over as they are.
    let kept = run(&["--keep-secrets"]);
    assert_eq!(stdout(&kept), told, "{kept:?}");

    let missing = home.run(&["serve", "--config", config.to_str().unwrap()]);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    assert!(stderr(&missing).contains("literal \"warehouse\": variable WAREHOUSE"), "{missing:?}");
    for (file, told) in [
        ("[redaction]\nwithout = [\"nothing\"]\n", "without \"nothing\""),
        ("[[redaction.patterns]]\nname = \"a\"\nregex = \"(\"\n", "pattern \"a\""),
        ("[[redaction.literals]]\nname = \"a\"\n", "one of value, env or file"),
        ("[[redaction.literals]]\nname = \"a\"\nvalue = \"short\"\n", "literal \"a\""),
    ] {
        std::fs::write(&config, file).unwrap();
        let refused = home.run(&["serve", "--config", config.to_str().unwrap()]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(stderr(&refused).contains(told), "{file}: {refused:?}");
    }
}
