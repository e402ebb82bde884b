//! Flags over environment over file.

use crate::support::{Home, ask, stderr, stdout};
use serde_json::json;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

#[test]
fn a_file_decides_unless_the_environment_or_a_flag_does() {
    let home = Home::new();
    let config = home.path("turnstream.toml");
    std::fs::write(&config, "token = \"from-file\"\n[agents.demo]\nkind = \"scripted\"\npace_ms = 0\n")
        .unwrap();
    let serving = home.serve(&["--config", config.to_str().unwrap()]);
    let screen = serving.screen();
    assert!(screen.contains("with a token") && screen.contains("demo (scripted"), "{screen}");

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
    let mut open = home.command(&["--listen", "0.0.0.0:0"]);
    let open = open.env("TURNSTREAM_AUTH", "none").output().unwrap();
    assert_eq!(open.status.code(), Some(2), "{open:?}");
    assert!(stderr(&open).contains("auth = \"none\" would let everybody"), "{open:?}");
    let weak = home.run(&["--listen", "0.0.0.0:0", "--token", "change-me"]);
    assert_eq!(weak.status.code(), Some(2), "{weak:?}");
    assert!(stderr(&weak).contains("less than 128 bits"), "{weak:?}");
    let mut both = home.command(&["serve", "--token", "change-me"]);
    let both = both.env("TURNSTREAM_AUTH", "none").output().unwrap();
    assert!(stderr(&both).contains("auth = \"none\" and a token are both given"), "{both:?}");
    let mut variable = home.command(&["serve"]);
    let variable = variable.env("TURNSTREAM_TIMEOUTS_START", "soon").output().unwrap();
    assert!(stderr(&variable).contains("TURNSTREAM_TIMEOUTS_START = \"soon\""), "{variable:?}");
    let mut password = home.command(&["serve"]);
    let password = password.env("TURNSTREAM_OTLP", "http://me:sesame@127.0.0.1").output().unwrap();
    assert_eq!(password.status.code(), Some(2), "{password:?}");
    assert!(stderr(&password).contains("TURNSTREAM_OTLP = \"http://*********@127.0.0.1\""), "{password:?}");
    assert!(!stderr(&password).contains("sesame"), "{password:?}");
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
    // A value that is no text is refused without being repeated.
    let mut binary = home.command(&["serve", "--config", config.to_str().unwrap()]);
    let binary = binary.env("WAREHOUSE", OsStr::from_bytes(b"open sesame \xff")).output().unwrap();
    assert_eq!(binary.status.code(), Some(2), "{binary:?}");
    let refused = stderr(&binary);
    assert!(refused.contains("variable WAREHOUSE is not UTF-8") && !refused.contains("sesame"), "{refused}");
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

/// The blocks of the page that are configuration.
fn documented() -> String {
    let page = include_str!("../../../../docs/configuration.md");
    let blocks = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.collect()
}

#[test]
fn the_configuration_of_the_documentation_starts() {
    let home = Home::new();
    let script = home.path("demo.json");
    std::fs::write(&script, json!([{"do": "text", "text": "From the script."}]).to_string()).unwrap();
    // Only what is on another machine is put in place: two directories, a file, an address.
    let mut file = documented();
    for (theirs, ours) in [
        ("127.0.0.1:4180", "127.0.0.1:0".to_owned()),
        ("/home/me/turnstream", home.path("data").display().to_string()),
        ("/srv/work", home.path("work").display().to_string()),
        ("/srv/demo.json", script.display().to_string()),
    ] {
        assert!(file.contains(theirs), "{theirs}");
        file = file.replace(theirs, &ours);
    }
    let config = home.path("turnstream.toml");
    std::fs::write(&config, file).unwrap();
    let serving = home.serve_armed(&["--config", config.to_str().unwrap()], |command| {
        command.env("WAREHOUSE_PASSWORD", "open sesame 42").env_remove("TURNSTREAM_DATA");
    });
    let screen = serving.screen();
    assert!(screen.contains("with a token"), "{screen}");
    let place = ["--config", config.to_str().unwrap(), "--agent", "demo"];
    let turn = home.run(&[&["run", "Hello"][..], &place].concat());
    assert_eq!((turn.status.code(), stdout(&turn)), (Some(0), "From the script.\n"), "{turn:?}");
}

#[test]
fn what_would_do_something_else_than_it_says_is_refused_at_the_start() {
    let home = Home::new();
    let refused = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = home.command(&[&["serve", "--listen", "127.0.0.1:0"][..], args].concat());
        let done = command.envs(variables.iter().copied()).output().unwrap();
        assert_eq!(done.status.code(), Some(2), "{args:?} {variables:?}: {done:?}");
        assert!(!home.path("data/log.db").exists(), "nothing was begun");
        stderr(&done).to_owned()
    };
    for (args, variables, told) in [
        (
            &["--root", "nowhere"][..],
            &[][..],
            "the root nowhere cannot be used: it is relative; give the absolute path, here /",
        ),
        (&["--root", "/nowhere"], &[], "the root /nowhere cannot be used: No such file"),
        (&["--root", "/dev/null"], &[], "it is a file"),
        (&["--import-mib", "0"], &[], "0 would refuse every import"),
        (&[], &[("TURNSTREAM_IMPORT_MIB", "0")], "0 would refuse every import"),
        (&[], &[("TURNSTREAM_RETENTION_MAX_TURNS", "0")], "leave max_turns out to keep any number of them"),
        (
            &[],
            &[("TURNSTREAM_RETENTION_MAX_AGE", "0")],
            "TURNSTREAM_RETENTION_MAX_AGE = \"0\" cannot be used",
        ),
        (&[], &[("TURNSTREAM_TIMEOUTS_START", "0")], "0 would be over before it began"),
        (
            &[],
            &[("TURNSTREAM_LISEN", "127.0.0.1:1")],
            "TURNSTREAM_LISEN is a variable that turnstream does not know; did you mean TURNSTREAM_LISTEN?",
        ),
        (
            &[],
            &[("TURNSTREAM_SPEED", "fast")],
            "TURNSTREAM_SPEED is a variable that turnstream does not know; unset it",
        ),
    ] {
        let problem = refused(args, variables);
        assert!(problem.contains(told), "{told}: {problem}");
    }
    // A name that only the configuration knows is known, and a client refuses a wrong one too.
    let config = home.path("turnstream.toml");
    std::fs::write(&config, "[[redaction.literals]]\nname = \"w\"\nenv = \"TURNSTREAM_WAREHOUSE\"\n")
        .unwrap();
    let mut named = home.command(&["ls", "--config", config.to_str().unwrap()]);
    let named = named.env("TURNSTREAM_WAREHOUSE", "open sesame 42").output().unwrap();
    assert_eq!(named.status.code(), Some(0), "{named:?}");
    let client = home.command(&["ls"]).env("TURNSTREAM_ULR", "http://127.0.0.1:1").output().unwrap();
    assert!(stderr(&client).contains("did you mean TURNSTREAM_URL?"), "{client:?}");
    let deaf = home.command(&["serve"]).env("TURNSTREAM_LISTEN", "foo").output().unwrap();
    let told = "\"foo\" is no address to listen on; write it like 127.0.0.1:4180";
    assert!(stderr(&deaf).contains(told), "{deaf:?}");
    let nowhere = home.run(&["ls", "--url", "foo"]);
    let told = "--url \"foo\" cannot be used: it is not a URL; write it like http://127.0.0.1:4180";
    assert!(stderr(&nowhere).contains(told), "{nowhere:?}");
}

#[test]
fn content_that_the_agent_cannot_take_is_refused_at_the_door() {
    let home = Home::new();
    let config = home.path("turnstream.toml");
    // No server is started: what opencode takes is known without it.
    std::fs::write(&config, "[agents.oc]\nkind = \"opencode\"\ncommand = \"/bin/true\"\n").unwrap();
    let serving = home.serve(&["--config", config.to_str().unwrap()]);
    for agent in ["oc", "scripted"] {
        let new = json!({"agent": agent, "cwd": home.path("work")});
        let (_, session) = ask(&serving.address, "POST", "/v1/sessions", &new);
        let path = format!("/v1/sessions/{}/prompts", session["id"].as_str().unwrap());
        let text = json!({"type": "text", "text": "Look"});
        let (head, problem) =
            ask(&serving.address, "POST", &path, &json!({"content": [text, {"type": "video"}]}));
        assert!(head.starts_with("http/1.1 400"), "{head}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(problem["type"].as_str().unwrap().ends_with(":bad-content"), "{problem}");
        assert!(detail.starts_with("content[1]: ") && detail.contains("\"video\""), "{detail}");
        assert!(detail.contains("text, image, audio, resource_link"), "{detail}");
    }
    let half = json!({"agent": "oc", "cwd": home.path("work"), "model": "nameless"});
    let (head, problem) = ask(&serving.address, "POST", "/v1/sessions", &half);
    assert!(head.starts_with("http/1.1 400"), "{head}");
    assert!(problem["type"].as_str().unwrap().ends_with(":unknown-model"), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("is not PROVIDER/MODEL"), "{problem}");
}
