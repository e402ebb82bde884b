//! Agents on `PATH`: offered without configuration, with what is wrong with each. The programs are small
//! scripts that print a version.

use crate::support::{ENDED, Home, Serving, ask, install, prompt, stderr, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Command;

/// A program that only knows its version.
fn prints(version: &str) -> String {
    format!("[ \"$1\" = --version ] && echo '{version}' && exit 0\nexit 1")
}

/// The directory of the programs, as the only one on `PATH`.
fn on_path<'a>(home: &Home, command: &'a mut Command) -> &'a mut Command {
    command.env("PATH", home.path("bin"))
}

fn serve(home: &Home, args: &[&str], variables: &[(&str, &str)]) -> Serving {
    home.serve_armed(args, |command| {
        on_path(home, command).envs(variables.iter().copied());
    })
}

/// The list of agents, once no version is on its way.
fn listed(serving: &Serving) -> Vec<Value> {
    wait_for(|| {
        let (_, answer) = ask(&serving.address, "GET", "/v1/agents", &json!({}));
        let agents = answer["agents"].as_array().unwrap().clone();
        let is_late =
            |agent: &Value| agent["notice"].as_str().is_some_and(|text| text.contains("not known yet"));
        (!agents.iter().any(is_late)).then_some(agents)
    })
}

fn choices(ids: &[&str]) -> Value {
    ids.iter().map(|id| json!({"id": id})).collect()
}

/// What an agent takes that refuses nothing before it is asked.
const ALL_CONTENT: [&str; 6] = ["text", "image", "audio", "resource_link", "resource", "pdf"];

#[test]
#[cfg(target_os = "linux")]
fn each_agent_on_the_path_is_listed_as_usable_or_with_the_reason_and_the_command_that_fixes_it() {
    let home = Home::new();
    let opencode = install(&home, "opencode", &prints("1.18.33"));
    let claude = install(&home, "claude", &prints("9.9.9 (Claude Code)"));
    let started = home.path("started");
    let must_not_run = format!("echo started > {}", started.display());
    let codex = install(&home, "codex", &prints("codex-cli 0.166.0"));
    let gemini = install(&home, "gemini", &must_not_run);
    let serving = serve(&home, &[], &[]);
    let gemini_problem = "turnstream was not tested with Gemini CLI; if it speaks ACP, configure it: kind = \"acp\", \
                          command = [\"gemini\", …]";
    let expected = [
        json!({"name": "claude", "kind": "claude", "about": "Claude Code, one process per session", "version": "9.9.9",
            "problem": "Claude Code is not logged in; run `claude auth login`", "fix": "claude auth login",
            "notice": "version 9.9.9 is newer than 2.1.325, the newest that was tested", "path": claude,
            "discovered": true, "login": "logged_out", "models": choices(&["default", "opus", "sonnet", "haiku"]),
            "modes": choices(&["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]),
            "commands": choices(&["compact", "init"]),
            "takes": ["text", "image", "resource_link", "resource", "pdf"]}),
        json!({"name": "codex", "kind": "codex", "about": "Codex, one app-server per session", "version": "0.166.0",
            "problem": "Codex is not logged in; run `codex login`", "fix": "codex login", "path": codex,
            "discovered": true, "login": "logged_out",
            "modes": choices(&["read-only", "auto", "full-access", "plan"]),
            "takes": ["text", "image", "resource_link", "resource"]}),
        json!({"name": "gemini", "kind": "acp", "about": "Gemini CLI", "path": gemini, "discovered": true,
            "problem": gemini_problem, "takes": ALL_CONTENT}),
        json!({"name": "opencode", "kind": "opencode", "version": "1.18.33", "path": opencode, "discovered": true,
        "about": format!("opencode, started as {}", opencode.display()), "login": "unknown",
        "modes": choices(&["build", "plan"]), "shell": true, "takes": ALL_CONTENT,
        "commands": [
            {"id": "compact", "about": "shorten the conversation"},
            {"id": "init", "about": "write an AGENTS.md for this project"},
            {"id": "review", "about": "review changes"},
        ]}),
        json!({"name": "opencode-acp", "kind": "acp", "path": opencode, "discovered": true,
            "about": "opencode as an ACP agent (`acp`), one process per session", "takes": ALL_CONTENT}),
        json!({"name": "scripted", "kind": "scripted", "scripted": true,
            "about": "Plays a script to show how a turn looks. Nothing behind it thinks.", "takes": ALL_CONTENT}),
    ];
    assert_eq!(listed(&serving), expected);
    let printed = stdout(&home.run(&["agents"])).to_owned();
    let expected = format!(
        "claude 9.9.9: Claude Code, one process per session\n  found on PATH: {claude}\n  login: logged out\n  \
         models: default, opus, sonnet, haiku\n  modes: default, acceptEdits, plan, dontAsk, bypassPermissions\n  \
         notice: version 9.9.9 is newer than 2.1.325, the newest that was tested\n  \
         cannot be used: Claude Code is not logged in; run `claude auth login`\n\
         codex 0.166.0: Codex, one app-server per session\n  found on PATH: {codex}\n  login: logged out\n  \
         modes: read-only, auto, full-access, plan\n  \
         cannot be used: Codex is not logged in; run `codex login`\n\
         gemini: Gemini CLI\n  found on PATH: {gemini}\n  \
         cannot be used: {gemini_problem}\n\
         opencode 1.18.33: opencode, started as {opencode}\n  found on PATH: {opencode}\n  login: unknown\n  \
         modes: build, plan\n\
         opencode-acp: opencode as an ACP agent (`acp`), one process per session\n  found on PATH: {opencode}\n\
         scripted: Plays a script to show how a turn looks. Nothing behind it thinks.\n",
        claude = claude.display(),
        codex = codex.display(),
        gemini = gemini.display(),
        opencode = opencode.display(),
    );
    assert_eq!(printed, expected);
    let session = json!({"agent": "claude", "cwd": home.path("work")});
    let (head, refused) = ask(&serving.address, "POST", "/v1/sessions", &session);
    assert!(head.starts_with("http/1.1 4") || head.starts_with("http/1.1 5"), "{head}");
    assert!(refused.to_string().contains("run `claude auth login`"), "{refused}");
    let screen = serving.screen();
    let gemini = format!("\n           gemini, found on PATH (cannot be used: {gemini_problem})\n");
    for line in [
        gemini.as_str(),
        ", found on PATH (cannot be used: Claude Code is not logged in; run `claude auth login`)\n",
        "\n           opencode",
        "\n           scripted (scripted: a demo that plays a script, without a model)\n",
    ] {
        assert!(screen.contains(line), "{line} is not in:\n{screen}");
    }
    assert!(!started.exists(), "an agent that cannot be run is not started either");
}

#[test]
fn discovery_is_turned_off_by_the_file_by_a_variable_and_by_a_flag() {
    let home = Home::new();
    install(&home, "opencode", &prints("1.18.33"));
    let config = home.path("turnstream.toml");
    std::fs::write(&config, "discover = false\n").unwrap();
    let config = config.to_str().unwrap();
    let names = |args: &[&str], variables: &[(&str, &str)]| -> Vec<String> {
        let mut command = home.command(&[&["agents", "--json"], args].concat());
        let listed = on_path(&home, &mut command).envs(variables.iter().copied()).output().unwrap();
        assert_eq!(listed.status.code(), Some(0), "{listed:?}");
        let name =
            |line: &str| serde_json::from_str::<Value>(line).unwrap()["name"].as_str().unwrap().to_owned();
        stdout(&listed).lines().map(name).collect()
    };
    assert_eq!(names(&[], &[]), ["opencode", "opencode-acp", "scripted"]);
    assert_eq!(names(&["--config", config], &[]), ["scripted"]);
    assert_eq!(names(&[], &[("TURNSTREAM_DISCOVER", "false")]), ["scripted"]);
    assert_eq!(names(&["--discover", "false"], &[("TURNSTREAM_DISCOVER", "true")]), ["scripted"]);
    assert_eq!(
        names(&["--config", config, "--discover", "true"], &[]),
        ["opencode", "opencode-acp", "scripted"]
    );
}

#[test]
fn run_takes_the_only_agent_that_can_be_used_and_asks_when_there_are_two() {
    let home = Home::new();
    install(&home, "opencode", &prints("1.18.33"));
    install(&home, "codex", "exit 1");
    let run = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = home.command(&[&["run", "Hello"], args].concat());
        let command = on_path(&home, &mut command).env("TURNSTREAM_TIMEOUTS_CONNECT", "1s");
        command.envs(variables.iter().copied()).output().unwrap()
    };
    // This opencode cannot serve, so its turn fails; but it was chosen.
    let only = run(&[], &[]);
    assert!(stderr(&only).contains(", agent opencode"), "{only:?}");
    install(&home, "claude", &prints("2.1.197"));
    let key = [("ANTHROPIC_API_KEY", "sk-not-a-real-key")];
    // On a busy machine its end may come too late to be seen.
    let seen = "codex: cannot be used: it does not work";
    let both = wait_for(|| Some(run(&[], &key)).filter(|both| stderr(both).contains(seen)));
    assert_eq!(both.status.code(), Some(2), "{both:?}");
    for told in [
        "name one with --agent NAME, or set default_agent",
        "\n  claude: can be used",
        "\n  codex: cannot be used: it does not work: `",
        "\n  opencode: can be used",
    ] {
        assert!(stderr(&both).contains(told), "{told} is not in {both:?}");
    }
    let default = run(&[], &[key[0], ("TURNSTREAM_DEFAULT_AGENT", "opencode")]);
    assert!(stderr(&default).contains(", agent opencode"), "{default:?}");
    let demo = run(&["--agent", "scripted", "--permissions", "allow"], &key);
    assert_eq!(demo.status.code(), Some(0), "{demo:?}");
}

/// Variables of a gateway, with a secret of a provider.
const VARIABLES: [(&str, &str); 5] = [
    ("ANTHROPIC_API_KEY", "a-secret-of-a-provider-42"),
    ("OPENCODE_CONFIG", "/nowhere/opencode.json"),
    ("OPENCODE_SERVER_USERNAME", "of-another-server"),
    ("AWS_SECRET_ACCESS_KEY", "of-another-program"),
    ("IS_SANDBOX", "1"),
];

/// The variables of these that an opencode gets, with this configuration.
fn passed_to_opencode(file: &str) -> Vec<&'static str> {
    let home = Home::new();
    let (seen, config) = (home.path("seen"), home.path("turnstream.toml"));
    std::fs::write(&config, file).unwrap();
    let keep = format!("export -p > {0}.new && /bin/mv {0}.new {0}\nexit 1", seen.display());
    install(&home, "opencode", &prints("1.18.33").replace("exit 1", &keep));
    let mut command =
        home.command(&["run", "Hello", "--agent", "opencode", "--config", config.to_str().unwrap()]);
    let command = on_path(&home, &mut command).envs(VARIABLES).env("TURNSTREAM_TIMEOUTS_CONNECT", "5m");
    let mut run = command.spawn().unwrap();
    let seen = wait_for(|| std::fs::read_to_string(&seen).ok());
    run.kill().unwrap();
    run.wait().unwrap();
    let is_seen = |name: &&str| seen.contains(&format!("{name}="));
    VARIABLES.into_iter().map(|(name, _)| name).filter(is_seen).collect()
}

#[test]
fn an_agent_gets_the_variables_of_its_kind_unless_the_configuration_names_others() {
    assert_eq!(passed_to_opencode(""), ["ANTHROPIC_API_KEY", "OPENCODE_CONFIG"]);
    let kind = "[agents.opencode]\nkind = \"opencode\"\n";
    assert_eq!(passed_to_opencode(kind), ["ANTHROPIC_API_KEY", "OPENCODE_CONFIG"]);
    assert_eq!(passed_to_opencode(&format!("{kind}pass_env = [\"AWS_*\"]\n")), ["AWS_SECRET_ACCESS_KEY"]);
    assert_eq!(passed_to_opencode(&format!("{kind}pass_env = []\n")), [""; 0]);
}

#[test]
fn secrets_that_an_agent_is_given_are_redacted_in_all_sessions() {
    let home = Home::new();
    install(&home, "claude", &prints("2.1.197"));
    let (_, secret) = VARIABLES[0];
    let script = prompt(&json!([{"do": "text", "text": format!("it is {secret}.")}]));
    let mut command = home.command(&["run", &script, "--agent", "scripted"]);
    let told = on_path(&home, &mut command).envs(VARIABLES).output().unwrap();
    assert_eq!(stdout(&told), "it is [redacted:anthropic_api_key].\n", "{told:?}");
}

#[test]
fn a_program_that_hangs_delays_neither_the_start_nor_the_end_and_is_not_left_behind() {
    let home = Home::new();
    let process = home.path("process");
    install(
        &home,
        "opencode",
        &format!("echo $$ > {0}.new\nmv {0}.new {0}\nexec sleep 3600", process.display()),
    );
    let programs = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths([home.path("bin")].into_iter().chain(std::env::split_paths(&programs)));
    let serving = home.serve_armed(&[], |command| {
        command.env("PATH", path.unwrap());
    });
    let screen = serving.screen();
    let line = "opencode, found on PATH (its version is not known yet: `--version` has not ended)";
    assert!(screen.contains(line), "{screen}");
    let id = wait_for(|| std::fs::read_to_string(&process).ok());
    let (status, took) = serving.end(Signal::TERM);
    assert!(status.success() && took < ENDED, "{status} after {took:?}");
    let stat = format!("/proc/{}/stat", id.trim());
    // A process that was killed may wait for its parent.
    wait_for(|| std::fs::read_to_string(&stat).map_or(Some(()), |stat| stat.contains(") Z ").then_some(())));
}
