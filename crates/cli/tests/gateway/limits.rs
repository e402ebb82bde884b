//! A gateway that may open few files.

use crate::support::{Home, prompt, read, stderr, stdout, wait_for};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

const TOKEN: &str = "6f2d1c9be07a4fd8a1b35c7720e94d13";

/// A process that is killed with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A gateway that may open 256 files.
fn serve(home: &Home) -> (Killed, String) {
    let serve = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut limited = Command::new("/bin/sh");
    limited.args(["-c", "ulimit -n 256; exec \"$@\"", "sh"]).arg(serve.get_program()).args(serve.get_args());
    limited.env_clear().envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.env("TURNSTREAM_TOKEN", TOKEN).current_dir(home.path("work"));
    limited.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(home.path("serve.err")).unwrap());
    let mut child = Killed(limited.spawn().unwrap());
    let address = wait_for(|| {
        assert!(child.0.try_wait().unwrap().is_none(), "{}", read(&home.path("serve.err")));
        let running: Value =
            serde_json::from_slice(&std::fs::read(home.path("data/gateway.json")).ok()?).ok()?;
        Some(running["address"].as_str()?.to_owned())
    });
    (child, address)
}

/// Seen before: 300 idle sockets kept everybody out for a minute, and an accepted prompt failed.
#[test]
fn more_idle_sockets_than_open_files_keep_neither_clients_nor_agents_from_working() {
    let home = Home::new();
    let (_serving, address) = serve(&home);
    let sockets: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for turn in 0..3 {
        let script =
            json!([{"do": "text", "text": "Here."}, {"do": "tool", "title": "Look", "output": ["x"]}]);
        let ran = home.command(&["run", &prompt(&script)]).env("TURNSTREAM_TOKEN", TOKEN).output().unwrap();
        assert_eq!((ran.status.code(), stdout(&ran).trim()), (Some(0), "Here."), "turn {turn}: {ran:?}");
    }
    drop(sockets);
    let lines = read(&home.path("serve.err"));
    for told in ["Too many open files", "cannot be accepted", "clients are refused"] {
        assert!(!lines.contains(told), "{lines}");
    }
}

#[test]
fn a_command_that_is_one_connection_too_many_prints_the_limit() {
    let home = Home::new();
    let config = home.path("turnstream.toml");
    std::fs::write(&config, "[limits]\nconnections_per_address = 3\n").unwrap();
    let at = ["--config", config.to_str().unwrap()];
    let serving = home.serve(&at);
    let token = stdout(&home.run(&[&["token"][..], &at].concat())).trim().to_owned();
    // Streams are in use for as long as they are open.
    let follow = |_| {
        let mut socket = TcpStream::connect(&serving.address).unwrap();
        let host = &serving.address;
        write!(socket, "GET /v1/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n")
            .unwrap();
        let mut status = [0; 12];
        socket.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
        socket
    };
    let streams: Vec<TcpStream> = (0..3).map(follow).collect();
    let list = || home.run(&[&["sessions"][..], &at].concat());
    let refused = list();
    let said = stderr(&refused);
    assert!(said.contains("this address has 3 open connections, and all are in use"), "{refused:?}");
    assert!(!said.contains("broke off"), "{said}");
    drop(streams);
    wait_for(|| list().status.success().then_some(()));
}
