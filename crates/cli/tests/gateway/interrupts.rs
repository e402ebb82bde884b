//! Ctrl-C while a command still looks for a gateway.

use crate::support::{Home, send, stderr};
use rustix::process::Signal;
use serde_json::json;
use std::fs::File;
use std::io::Read as _;
use std::net::{TcpListener, TcpStream};

/// Waits for a connection that carries a request. A command that ends can leave another one behind, without
/// a request, which says nothing of the next command.
fn first_request(listener: &TcpListener) -> TcpStream {
    loop {
        let (mut connection, _) = listener.accept().unwrap();
        if connection.read(&mut [0; 64]).is_ok_and(|read| read > 0) {
            return connection;
        }
    }
}

/// A gateway that never answers: this process holds the lock of the directory and listens at the address.
#[cfg(target_os = "linux")]
#[test]
fn a_command_that_waits_for_a_gateway_ends_at_the_first_interrupt() {
    let home = Home::new();
    let data = home.path("data");
    std::fs::create_dir(&data).unwrap();
    let lock = File::open(&data).unwrap();
    lock.try_lock().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let note = json!({"address": address, "pid": std::process::id()}).to_string();
    std::fs::write(data.join("gateway.json"), note).unwrap();
    for args in [&["run", "Hello"][..], &["attach", "ses_1"], &["tail", "ses_1"], &["export", "ses_1"]] {
        // The command gives the gateway two seconds. A machine that stalls for so long gets another try.
        let ended = (0..5).find_map(|_| {
            let command = home.command(args).spawn().unwrap();
            let connection = first_request(&listener);
            send(&command, Signal::INT);
            let output = command.wait_with_output().unwrap();
            drop(connection);
            (output.status.code() != Some(4)).then_some(output)
        });
        let ended = ended.expect("every try took more than two seconds");
        assert_eq!(ended.status.code(), Some(130), "{args:?}: {ended:?}");
        assert!(stderr(&ended).contains("interrupted before a gateway was found"), "{args:?}: {ended:?}");
    }
}
