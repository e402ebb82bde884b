//! Which gateway a command talks to, and what it never tells anybody else.

use crate::support::{Home, Serving, private_directory, stderr, wait_for};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A line of the first screen, run as a person would who opened another terminal and copied it.
fn copied(home: &Home, line: &str) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir("/").stdin(Stdio::null()).env_clear();
    shell.env("HOME", home.path("")).env("PATH", std::env::var_os("PATH").unwrap());
    // Whatever agents this machine has.
    shell.env("TURNSTREAM_DISCOVER", "false");
    shell.output().unwrap()
}

/// The commands that the first screen offers.
fn hints(serving: &Serving) -> Vec<String> {
    let screen = serving.screen();
    let (_, hints) = screen.split_once("Try it from another terminal").unwrap();
    hints.lines().filter_map(|line| line.strip_prefix("  ")).map(str::to_owned).collect()
}

fn assert_hints_work(home: &Home, serving: &Serving) {
    let hints = hints(serving);
    assert_eq!(hints.len(), 2, "{hints:?}");
    for hint in &hints {
        let done = copied(home, hint);
        assert_eq!(done.status.code(), Some(0), "{hint}: {done:?}");
        assert!(!stderr(&done).contains("hosts its own"), "{hint}: {done:?}");
    }
    let (_, listed) = crate::support::ask(&serving.address, "GET", "/v1/sessions", &json!({}));
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1), "{listed}");
}

/// The directory of data is another one than any default, and has a name that a shell would tear apart.
#[test]
fn the_commands_of_the_first_screen_work_as_printed_with_a_directory_of_data() {
    let home = Home::new();
    let serving = home.serve(&[]);
    assert_hints_work(&home, &serving);
    drop(serving);
    let odd = Home::new();
    std::fs::rename(odd.path("work"), odd.path("it's work")).unwrap();
    std::fs::create_dir(odd.path("work")).unwrap();
    let serving = odd.serve(&["--root", odd.path("it's work").to_str().unwrap()]);
    assert_hints_work(&odd, &serving);
}

#[test]
fn the_commands_of_the_first_screen_work_as_printed_with_a_configuration() {
    let home = Home::new();
    let config = home.path("turnstream.toml");
    // The literal's variable is only where the gateway was started, and there is more than one agent to
    // choose from.
    let file = format!(
        "data = {:?}\ntoken = \"a-long-token\"\n[[redaction.literals]]\nname = \"w\"\nenv = \"WAREHOUSE\"\n\
         [agents.a]\nkind = \"scripted\"\npace_ms = 0\n[agents.b]\nkind = \"scripted\"\n",
        home.path("data")
    );
    std::fs::write(&config, file).unwrap();
    let serving = home.serve_armed(&["--config", config.to_str().unwrap()], |command| {
        command.env_remove("TURNSTREAM_DATA").env("WAREHOUSE", "open sesame 42");
    });
    let hints = hints(&serving);
    assert!(!serving.screen().contains("a-long-token"), "{hints:?}");
    for hint in &hints {
        let done = copied(&home, hint);
        assert_eq!(done.status.code(), Some(0), "{hint}: {done:?}");
        assert!(!stderr(&done).contains("hosts its own"), "{hint}: {done:?}");
    }
    let listed: Value = serde_json::from_slice(&copied(&home, &hints[1]).stdout).unwrap();
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1), "{listed}");
}

#[test]
fn the_first_screen_offers_no_agent_whose_server_cannot_be_used() {
    let home = Home::new();
    let config = home.path("turnstream.toml");
    for server in [
        "url = \"http://127.0.0.1:1\"\n",
        "url = \"http://127.0.0.1:1\"\npassword_env = \"NO_SUCH_PASSWORD\"\n",
    ] {
        std::fs::write(&config, format!("[agents.oc]\nkind = \"opencode\"\n{server}")).unwrap();
        let serving = home.serve(&["--config", config.to_str().unwrap()]);
        let screen = serving.screen();
        assert!(screen.contains("oc (cannot be used: the server at http://127.0.0.1:1"), "{screen}");
        let done = copied(&home, &hints(&serving)[0]);
        assert_eq!(done.status.code(), Some(0), "{screen}{done:?}");
    }
}

#[test]
fn a_command_that_finds_no_gateway_says_that_it_hosts_one_or_that_it_needs_one() {
    let home = Home::new();
    let listed = home.run(&["ls"]);
    assert_eq!(listed.status.code(), Some(0), "{listed:?}");
    assert_eq!(stderr(&listed), format!("{}\n", home.hosted()));
    for verb in [&["send", "x", "y"][..], &["cancel", "x"], &["approve", "x", "allow"], &["answer", "x", "1"]]
    {
        let refused = home.run(verb);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(stderr(&refused).contains("start one with `turnstream serve`"), "{refused:?}");
    }
    let _serving = home.serve(&[]);
    assert_eq!(stderr(&home.run(&["ls"])), "");
    let odd = home.run(&["ls", "--url", "127.0.0.1:4180"]);
    assert_eq!(odd.status.code(), Some(2), "{odd:?}");
    assert!(stderr(&odd).contains("--url \"127.0.0.1:4180\" cannot be used"), "{odd:?}");
}

/// A stranger's program that took the port of a gateway.
struct Stranger(TcpListener);

impl Stranger {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn note(&self, data: &Path, pid: u32) {
        private_directory(data);
        let address = self.0.local_addr().unwrap().to_string();
        std::fs::write(data.join("gateway.json"), json!({"address": address, "pid": pid}).to_string())
            .unwrap();
    }

    /// Nobody has even come to it, so nobody has told it anything.
    fn assert_left_alone(&self) {
        assert_eq!(self.0.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

/// A process that is there and has nothing to do with any of this.
struct Bystander(Child);

impl Bystander {
    fn new() -> Self {
        Self(Command::new("sleep").arg("600").spawn().unwrap())
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_token_is_not_sent_to_who_took_the_port_of_a_gateway_that_was_killed() {
    let home = Home::new();
    let stranger = Stranger::new();
    let dead = {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    };
    stranger.note(&home.path("data"), dead);
    let with_token =
        |args: &[&str]| home.command(args).env("TURNSTREAM_TOKEN", "a-long-token").output().unwrap();
    let listed = with_token(&["sessions"]);
    assert_eq!(listed.status.code(), Some(0), "{listed:?}");
    let told = format!("gateway.json names process {dead}, which has ended");
    assert!(stderr(&listed).contains(&told) && stderr(&listed).contains("hosts its own"), "{listed:?}");
    stranger.assert_left_alone();

    // Its number is another process by now.
    let bystander = Bystander::new();
    stranger.note(&home.path("data"), bystander.0.id());
    let refused = with_token(&["send", "x", "hi"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(stderr(&refused).contains("does not hold the lock of"), "{refused:?}");
    stranger.assert_left_alone();
}

#[cfg(target_os = "linux")]
#[test]
fn the_token_is_not_sent_where_the_owner_of_the_directory_does_not_listen() {
    let home = Home::new();
    let serving = home.serve_armed(&[], |command| {
        command.env("TURNSTREAM_TOKEN", "a-long-token");
    });
    let stranger = Stranger::new();
    stranger.note(&home.path("data"), serving.child.id());
    let refused = home.command(&["sessions"]).env("TURNSTREAM_TOKEN", "a-long-token").output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let told = format!("another program than process {} of gateway.json listens", serving.child.id());
    assert!(stderr(&refused).contains(&told), "{refused:?}");
    stranger.assert_left_alone();
    // Who is named by a person is told all the same.
    let url = format!("http://{}", serving.address);
    let named = home.command(&["sessions", "--url", &url]).env("TURNSTREAM_TOKEN", "a-long-token").output();
    assert_eq!(named.unwrap().status.code(), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_gateway_that_is_stopped_is_named_and_not_replaced() {
    let home = Home::new();
    let serving = home.serve(&[]);
    crate::support::send(&serving.child, rustix::process::Signal::STOP);
    let refused = home.run(&["sessions"]);
    crate::support::send(&serving.child, rustix::process::Signal::CONT);
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    let told = format!("process {} at {} says nothing", serving.child.id(), serving.address);
    assert!(stderr(&refused).contains(&told), "{refused:?}");
    let listed: Value = wait_for(|| serde_json::from_slice(&home.run(&["agents", "--json"]).stdout).ok());
    assert_eq!(listed["name"], "scripted");
}
