//! opencode as an agent, with a server on a real socket that fails.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::error::Error;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use turnstream_agents::opencode::{Budget, Configured, Opencode, OpencodeConfig, Pace, Source, Timeouts};
use turnstream_agents::program::Origin;
use turnstream_agents::{Agent, ConnectError, LoggedWork, Start, WorkingDirectory};
use turnstream_model::event::Permissions;
use turnstream_model::id::SessionId;
use turnstream_opencode_client::ClientError;

/// What the server says of an error. It may be text of a model.
const SERVER_TEXT: &str = "the model said blue";

#[tokio::test]
async fn a_refused_session_keeps_the_real_error_and_has_a_text_without_words_of_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            tokio::spawn(answer(listener.accept().await.unwrap().0));
        }
    });
    let config = OpencodeConfig {
        origin: Origin::Configured,
        source: Source::Attach { url, password: Configured::Nothing, user: None },
        timeouts: Timeouts::default(),
        pace: Pace::default(),
        budget: Budget::default(),
    };
    let cwd = tempfile::tempdir().unwrap();
    let start = Start {
        session: SessionId::from("ses_1"),
        cwd: WorkingDirectory::open(cwd.path()).unwrap(),
        native_id: None,
        model: None,
        mode: None,
        permissions: Permissions::Ask,
        mcp: Vec::new(),
        open_work: None,
        known: LoggedWork::default(),
        until: tokio::time::Instant::now() + Duration::from_secs(300),
    };
    let error = Opencode::new("helper", config).connect(start).await.err().unwrap();
    assert!(matches!(&error, ConnectError::Unavailable { agent, .. } if agent == "helper"), "{error:?}");
    assert_eq!(
        error.to_string(),
        format!(
            "agent helper cannot be started: opencode answered POST /session with 500: UnknownError: {SERVER_TEXT}"
        )
    );
    assert_eq!(
        error.for_log(),
        "agent helper cannot be started: opencode answered POST /session with 500: UnknownError"
    );
    let real = error.source().and_then(|source| source.downcast_ref::<ClientError>()).unwrap();
    assert_eq!(real.status(), Some(500));
}

/// Answers one request: the health check well, everything else with an error.
async fn answer(mut stream: TcpStream) {
    let mut reader = BufReader::new(&mut stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let start = head.len();
        if reader.read_line(&mut head).await.unwrap() == 0 {
            return;
        }
        if let Some(value) = head[start..].to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    reader.read_exact(&mut vec![0; length]).await.unwrap();
    let (status, body) = match head.starts_with("GET /global/health") {
        true => ("200 OK", r#"{"healthy":true,"version":"1.0.0"}"#.to_owned()),
        false => {
            let body = format!(r#"{{"name":"UnknownError","data":{{"message":"{SERVER_TEXT}"}}}}"#);
            ("500 Internal Server Error", body)
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
}
