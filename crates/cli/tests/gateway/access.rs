//! Who gets in: tokens, other users of this machine, pages, and the lines of the README.

use crate::support::{Home, Serving, ask, read, stderr, stdout, wait_for};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

/// The user `nobody`.
const NOBODY: u32 = 65_534;

/// A shell command with nothing of the surrounding environment but the programs.
fn shell(home: &Home, line: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).stdin(Stdio::null()).env_clear();
    shell.env("HOME", home.path("")).env("PATH", std::env::var_os("PATH").unwrap());
    // Whatever agents this machine has.
    shell.env("TURNSTREAM_DISCOVER", "false");
    shell
}

fn sessions(serving: &Serving) -> usize {
    ask(&serving.address, "GET", "/v1/sessions", &json!({})).1["sessions"].as_array().unwrap().len()
}

#[test]
fn the_token_is_made_at_the_first_start_printed_on_demand_and_replaced_at_once() {
    let home = Home::new();
    let serving = home.serve(&[]);
    let printed = home.run(&["token"]);
    let first = stdout(&printed).trim().to_owned();
    assert_eq!((printed.status.code(), stderr(&printed)), (Some(0), ""), "{printed:?}");
    assert_eq!(read(&home.path("data/token")).trim(), first);
    assert_eq!(home.path("data/token").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!serving.screen().contains(&first) && !read(&home.path("serve.err")).contains(&first));
    let with = |token: &str| {
        let listed = home.command(&["sessions"]).env("TURNSTREAM_TOKEN", token).output().unwrap();
        listed.status.code()
    };
    assert_eq!(with(&first), Some(0));
    let second = stdout(&home.run(&["token", "--new"])).trim().to_owned();
    assert_eq!((with(&first), with(&second)), (Some(2), Some(0)));
    assert_eq!(home.run(&["sessions"]).status.code(), Some(0), "the CLI reads the new one");
    drop(serving);
    let _fixed = home.serve(&["--token", &first]);
    let elsewhere = home.run(&["token", "--new"]);
    assert_eq!(elsewhere.status.code(), Some(2), "{elsewhere:?}");
    assert!(stderr(&elsewhere).contains("was started with a token of its own"), "{elsewhere:?}");
    let fixed = home.run(&["token", "--new", "--token", &first]);
    assert_eq!(fixed.status.code(), Some(2));
    assert!(stderr(&fixed).contains("change it there"), "{fixed:?}");
}

#[test]
fn without_auth_there_is_no_token_and_the_first_screen_says_so() {
    let home = Home::new();
    let config = home.path("turnstream.toml");
    std::fs::write(&config, "auth = \"none\"\n").unwrap();
    let at = ["--config", config.to_str().unwrap()];
    let serving = home.serve(&at);
    assert!(serving.screen().contains("no token is needed (auth = \"none\")"), "{}", serving.screen());
    let printed = home.run(&[&["token"][..], &at].concat());
    assert_eq!((printed.status.code(), stdout(&printed), stderr(&printed)), (Some(1), "", ""));
    assert_eq!(home.run(&[&["sessions"][..], &at].concat()).status.code(), Some(0));
    assert_eq!(sessions(&serving), 0);
}

#[test]
fn the_first_screen_shows_the_address_of_the_metrics_and_the_own_one_beside_the_public_one() {
    let home = Home::new();
    let config = home.path("turnstream.toml");
    let file = "metrics_listen = \"127.0.0.1:0\"\npublic_url = \"https://agents.example\"\n";
    std::fs::write(&config, file).unwrap();
    let serving = home.serve(&["--config", config.to_str().unwrap()]);
    let screen = serving.screen();
    let own = format!("address  https://agents.example (here http://{})", serving.address);
    assert!(screen.contains(&own), "{screen}");
    let metrics = screen.lines().find_map(|line| line.trim().strip_prefix("metrics  http://")).unwrap();
    let (address, rest) = metrics.split_once('/').unwrap();
    assert_eq!(rest, "metrics (needs no token)");
    std::net::TcpStream::connect(address).unwrap();
}

/// The attack of the issue: another user of the machine, who has the port and knows everything but the token.
#[test]
fn another_user_of_this_machine_gets_nothing() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "only root can become another user");
        println!("left out: only root can become another user");
        return;
    }
    let home = Home::new();
    // All that keeps others out is the data directory itself.
    std::fs::set_permissions(home.path(""), PermissionsExt::from_mode(0o755)).unwrap();
    let serving = home.serve(&[]);
    let url = format!("http://{}", serving.address);
    let as_nobody = |line: &str| -> Output {
        let mut command = shell(&home, line);
        command.uid(NOBODY).gid(NOBODY).current_dir("/").output().unwrap()
    };
    for file in ["token", "pages.json", "gateway.json", "log.db", "lock", ""] {
        let path = home.path("data").join(file);
        let read = as_nobody(&format!("cat '{0}' || ls '{0}'", path.display()));
        assert!(!read.status.success() && read.stdout.is_empty(), "{file}: {read:?}");
    }
    let create = json!({"agent": "scripted", "cwd": home.path("work"), "permissions": "allow"});
    for header in ["content-type: application/json", "content-type: text/plain", "x-forwarded-for: 127.0.0.1"]
    {
        let line = format!("curl -s -H '{header}' -d '{create}' {url}/v1/sessions");
        let told = as_nobody(&line);
        assert!(stdout(&told).contains("problem:unauthorized"), "{told:?}");
    }
    for path in ["/v1/sessions", "/v1/events", "/metrics", "/v1/agents", "/v1/ready"] {
        let told = as_nobody(&format!("curl -s -m 60 {url}{path}"));
        assert!(stdout(&told).contains("problem:unauthorized"), "{path}: {told:?}");
    }
    let health = as_nobody(&format!("curl -s {url}/v1/health"));
    assert_eq!(stdout(&health), "{\"status\":\"alive\"}");
    assert_eq!(sessions(&serving), 0);
}

/// The other attack: a page of another port of this machine, with a request that browsers send unasked.
#[test]
fn a_page_of_another_port_creates_nothing() {
    let home = Home::new();
    let serving = home.serve(&[]);
    let create = json!({"agent": "scripted", "cwd": home.path("work"), "permissions": "allow"});
    // Even if it had the token.
    let token = serving.token();
    for origin in ["http://localhost:3000", "http://127.0.0.1", "null", "https://evil.example"] {
        let line = format!(
            "curl -s -H 'Origin: {origin}' -H 'Authorization: Bearer {token}' -H 'content-type: text/plain' \
             -d '{create}' http://{}/v1/sessions",
            serving.address
        );
        let told = shell(&home, &line).output().unwrap();
        assert!(stdout(&told).contains("problem:foreign-origin"), "{told:?}");
    }
    assert_eq!(sessions(&serving), 0);
}

#[test]
fn a_browser_signs_in_with_the_address_of_the_first_screen() {
    let home = Home::new();
    let serving = home.serve(&[]);
    let screen = serving.screen();
    let printed = stdout(&home.run(&["login"])).trim().to_owned();
    let link = screen.split_whitespace().find(|word| word.contains("#login=")).unwrap();
    for link in [link, &printed] {
        let (address, code) = link.split_once("/#login=").unwrap();
        assert_eq!(address, format!("http://{}", serving.address));
        let (head, signed_in) = ask(&serving.address, "POST", "/v1/login", &json!({"code": code}));
        assert!(head.starts_with("http/1.1 201"), "{head}");
        let page = signed_in["token"].as_str().unwrap();
        let listed = home.command(&["sessions"]).env("TURNSTREAM_TOKEN", page).output().unwrap();
        assert_eq!(listed.status.code(), Some(0), "{listed:?}");
        assert!(
            ask(&serving.address, "POST", "/v1/login", &json!({"code": code})).0.starts_with("http/1.1 401")
        );
    }
}

#[test]
fn open_starts_a_browser_with_a_private_file_that_leads_to_the_page() {
    let home = Home::new();
    let serving = home.serve(&[]);
    // Arguments can be read by everybody, so this browser gets a file.
    let browser = home.path("browser");
    std::fs::write(&browser, "#!/bin/sh\ncp -p \"$1\" \"$HOME/opened.html\"\n").unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let opened =
        home.command(&["open"]).env("BROWSER", &browser).env("PATH", "/usr/bin:/bin").output().unwrap();
    assert_eq!((opened.status.code(), stdout(&opened)), (Some(0), ""), "{opened:?}");
    let file = home.path("opened.html");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let page = std::fs::read_to_string(&file).unwrap();
    let (address, rest) = page.split_once("url=").unwrap().1.split_once("/#login=").unwrap();
    assert_eq!(address, format!("http://{}", serving.address));
    let (code, _) = rest.split_once('"').unwrap();
    let (head, _) = ask(&serving.address, "POST", "/v1/login", &json!({"code": code}));
    assert!(head.starts_with("http/1.1 201"), "{head}");
    let none = home.command(&["open"]).env("BROWSER", home.path("nowhere")).output().unwrap();
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    assert!(stdout(&none).contains("/#login="), "{none:?}");
}

#[test]
fn a_qr_code_is_printed_only_for_an_address_that_a_phone_can_reach() {
    let home = Home::new();
    let serving = home.serve(&[]);
    let refused = home.run(&["open", "--qr"]);
    assert_eq!((refused.status.code(), stdout(&refused)), (Some(1), ""), "{refused:?}");
    assert!(stderr(&refused).contains("only on this machine"), "{refused:?}");
    drop(serving);
    std::fs::write(home.path("c.toml"), "public_url = \"https://agents.example\"\n").unwrap();
    let config = home.path("c.toml");
    let _serving = home.serve(&["--config", config.to_str().unwrap()]);
    let printed = home.run(&["open", "--qr"]);
    assert_eq!(printed.status.code(), Some(0), "{printed:?}");
    let lines: Vec<&str> = stdout(&printed).lines().collect();
    assert!(lines.last().unwrap().starts_with("https://agents.example/#login="), "{printed:?}");
    // The square of a code for so many characters.
    assert!(lines.len() > 15 && lines[0].chars().count() > 30, "{printed:?}");
}

#[test]
fn a_token_in_a_prompt_or_an_answer_never_reaches_the_log() {
    let home = Home::new();
    let serving = home.serve(&[]);
    let token = serving.token();
    let newer = stdout(&home.run(&["token", "--new"])).trim().to_owned();
    let text = format!("first {token} then {newer} end");
    let turn = home.play(&json!([{"do": "text", "text": text}]), &[]);
    assert_eq!(turn.status.code(), Some(0), "{turn:?}");
    assert!(stdout(&turn).contains("first [redacted:") && stdout(&turn).contains("end"), "{turn:?}");
    assert!(!stdout(&turn).contains(&token) && !stdout(&turn).contains(&newer), "{turn:?}");
}

/// The blocks of a section of the README that are for a shell.
fn readme_lines() -> Vec<String> {
    let readme = include_str!("../../../../README.md");
    let blocks = readme.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

/// Runs the README as a newcomer does: an empty home, a checkout with a built binary, two terminals. Only the
/// port is another one, and `SESSION` is what the list shows.
#[test]
fn the_lines_of_the_readme_work_as_printed_in_an_empty_home() {
    let home = Home::new();
    let checkout = home.path("work");
    std::fs::create_dir_all(checkout.join("target/release")).unwrap();
    symlink(env!("CARGO_BIN_EXE_turnstream"), checkout.join("target/release/turnstream")).unwrap();
    let note = home.path(".local/share/turnstream/gateway.json");
    let mut gateway = shell(&home, "exec target/release/turnstream --listen 127.0.0.1:0");
    let out = std::fs::File::create(home.path("serve.out")).unwrap();
    gateway.current_dir(&checkout).stdout(out).stderr(Stdio::null());
    let mut gateway = gateway.spawn().unwrap();
    let running: Value = wait_for(|| serde_json::from_slice(&std::fs::read(&note).ok()?).ok());
    let address = running["address"].as_str().unwrap();
    let lines = readme_lines();
    assert!(lines.len() >= 10, "{lines:?}");
    let session = "$(turnstream sessions --json | sed 's/.*\"id\":\"\\([^\"]*\\)\".*/\\1/' | head -n 1)";
    let script: Vec<String> = lines
        .iter()
        .map(|line| {
            let line = line.split("   # ").next().unwrap();
            let line = line.replace("127.0.0.1:4180", address).replace("SESSION", session);
            let quoted = line.replace('\'', "'\\''");
            format!("printf '%s\\n' '== {quoted}'\n{line}")
        })
        .collect();
    let script = format!("set -e\n{}\nwait\n", script.join("\n"));
    let done = shell(&home, &script).current_dir(&checkout).output().unwrap();
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    let told = format!("{}\n{}", stdout(&done), stderr(&done));
    // `curl -m 5` ends the stream, which is its exit code 28 in the background.
    assert_eq!(done.status.code(), Some(0), "{told}");
    for words in
        ["Hello! I am the scripted agent", "# ", "\"id\":\"ses_", "event: session.created", "\"position\":0"]
    {
        assert!(told.contains(words), "{words} is not in:\n{told}");
    }
    assert!(!told.contains("problem:"), "{told}");
}
