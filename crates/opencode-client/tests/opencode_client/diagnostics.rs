//! The log lines of a client: what went wrong is in the log, and text of the server is not.

use crate::fake::{Answer, Fake, directory, told};
use std::time::Duration;
use turnstream_model::id::Key;
use turnstream_opencode_client::conversation::Call;
use turnstream_opencode_client::{BusSettings, NoPassword, ServerConnection, SessionRef};
use turnstream_testkit::diagnostics::{Capture, Level};

/// What the server says of an error. It may be text of a model.
const SERVER_TEXT: &str = "the model said blue";

#[tokio::test]
async fn a_lost_stream_has_lines_for_debugging_because_its_sessions_log_the_outage() {
    let capture = Capture::start();
    let mut fake = Fake::streaming().await;
    let quick = BusSettings { first_pause: Duration::from_millis(20), ..BusSettings::default() };
    let mut subscription = fake.client_with(NoPassword, quick).bus(&directory()).subscribe("ses_1");
    let mut stream = fake.stream().await;
    stream.say_connected().await;
    told(&mut subscription).await;
    stream.say(SERVER_TEXT).await;
    told(&mut subscription).await;
    drop(stream);
    told(&mut subscription).await;
    fake.stream().await.say_connected().await;
    told(&mut subscription).await;

    let unreadable = capture.until(|line| line.message == "unreadable event").await;
    assert_eq!((unreadable.level, unreadable.field("category")), (Level::WARN, Some("Syntax")));
    let lost = capture.until(|line| line.message.contains("reconnecting")).await;
    assert_eq!((lost.level, lost.field("tries")), (Level::DEBUG, Some("1")), "{lost}");
    assert_eq!(lost.field("directory"), Some("/workspace"), "{lost}");
    let back = capture.until(|line| line.message == "event stream reconnected").await;
    assert_eq!(back.level, Level::DEBUG);
    assert!(!capture.text().contains(SERVER_TEXT), "{}", capture.text());
}

#[tokio::test]
async fn failed_aborts_replies_and_reads_have_lines_without_text_of_the_server() {
    let capture = Capture::start();
    let fake = Fake::start(|asked| match asked.target.split('?').next().unwrap() {
        "/event" => Answer::Stream,
        target if target.ends_with("/message/msg_1") => Answer::json(200, format!("{{\"{SERVER_TEXT}\"")),
        target if target.starts_with("/question/") => Answer::json(404, "{}"),
        _ => Answer::json(
            500,
            format!(r#"{{"name":"UnknownError","data":{{"message":"{SERVER_TEXT}","ref":"err_1"}}}}"#),
        ),
    })
    .await;
    let session = SessionRef::new("ses_1", directory()).unwrap();
    let mut connection = ServerConnection::new(&fake.client(), &session);
    let reply = |key: &str| (Key::from(key), "once".to_owned());
    let (key, reply) = reply("per_1");
    let (of, message) = (session.id.clone(), "msg_1".to_owned());
    for call in [
        Call::Abort,
        Call::Reply { key, reply, message: None },
        Call::Answer { key: Key::from("que_1"), answers: None },
        Call::Message { session: of, message },
        Call::Snapshot { children: Vec::new() },
        Call::NewestMessages,
    ] {
        connection.start_call(call);
    }
    connection.finish_calls().await;

    let warned = capture.at_least(Level::WARN);
    let mut messages: Vec<&str> = warned.iter().map(|line| line.message.as_str()).collect();
    messages.sort_unstable();
    let expected = [
        "cannot abort at opencode",
        "cannot read a message from opencode",
        "cannot read the newest messages from opencode",
        "cannot read the session from opencode",
        "cannot reply to opencode",
    ];
    assert_eq!(messages, expected, "{}", capture.text());
    let abort = warned.iter().find(|line| line.message.contains("abort")).unwrap();
    let error = "opencode answered POST /session/ses_1/abort with 500: UnknownError (ref err_1 in its log)";
    assert_eq!(abort.field("error"), Some(error));
    assert_eq!(abort.field("native_session"), Some("ses_1"));
    assert!(!capture.text().contains(SERVER_TEXT), "{}", capture.text());
}
