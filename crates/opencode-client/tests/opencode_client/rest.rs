//! Requests and what becomes of them.

use crate::fake::{Answer, Asked, Fake, directory, fixture};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpListener;
use turnstream_opencode_client::{
    Client, ClientError, ClientInfo, NoPassword, PartContent, PermissionReply, Prompt, PromptPart,
    SessionRef, Timeouts, ids,
};

/// A captured answer to a request that begins so.
fn captured(file: &str, request: &str) -> Answer {
    let calls = fixture(file);
    let mut calls = calls.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let wanted = |call: &Value| {
        let asked = &call["request"];
        format!(
            "{} {}",
            asked["method"].as_str().unwrap_or_default(),
            asked["path"].as_str().unwrap_or_default()
        )
        .starts_with(request)
    };
    let call = calls.find(wanted).unwrap();
    let body = match &call["response"]["body"] {
        Value::String(text) => text.clone(),
        body => body.to_string(),
    };
    let status = call["response"]["status"].as_u64().unwrap().try_into().unwrap();
    match call["response"]["headers"]["content-type"].as_str() {
        Some("text/html") => Answer::Say(status, "content-type: text/html\r\n", body),
        Some(_) => Answer::json(status, body),
        None => Answer::empty(status),
    }
}

fn session() -> SessionRef {
    SessionRef::new("ses_e1f3953f1ffeGzt4Q1q3cohHls", directory()).unwrap()
}

#[tokio::test]
async fn a_session_that_is_there_is_used_and_nothing_is_made() {
    let fake = Fake::answering([captured("p-errors.http.jsonl", "POST /session")]).await;
    let ensured = fake.client().ensure_session(Some(&session().id), &directory(), Some("any")).await.unwrap();
    assert_eq!((ensured.created, ensured.at), (false, session()));
    assert_eq!(fake.lines(), ["GET /session/ses_e1f3953f1ffeGzt4Q1q3cohHls?directory=%2Fworkspace"]);
}

#[tokio::test]
async fn a_session_that_is_not_there_any_more_is_made_again() {
    let missing = captured("p-errors.http.jsonl", "GET /session/ses_0000");
    let made = captured("p-errors.http.jsonl", "POST /session");
    let fake = Fake::answering([missing, made]).await;
    let ensured = fake.client().ensure_session(Some("ses_gone"), &directory(), Some("Mine")).await.unwrap();
    assert_eq!((ensured.created, ensured.at), (true, session()));
    assert_eq!(
        fake.lines(),
        ["GET /session/ses_gone?directory=%2Fworkspace", "POST /session?directory=%2Fworkspace"]
    );
    assert_eq!(fake.asked()[1].body, r#"{"title":"Mine"}"#);
}

#[tokio::test]
async fn a_server_in_trouble_does_not_cost_a_conversation() {
    let trouble = captured("p-errors.http.jsonl", "GET /session/not-an-id");
    let fake = Fake::answering([trouble]).await;
    let error = fake.client().ensure_session(Some("ses_1"), &directory(), None).await.unwrap_err();
    assert_eq!(error.status(), Some(500));
    assert!(error.to_string().contains("UnknownError: Unexpected server error"), "{error}");
    assert_eq!(fake.lines().len(), 1, "nothing was made");
}

#[tokio::test]
async fn a_session_of_another_directory_is_refused_unless_it_is_a_link_to_it() {
    let found = captured("p-errors.http.jsonl", "POST /session");
    let path = |directory: &str| Answer::json(200, json!({"directory": directory}).to_string());
    let fake = Fake::answering([found.clone(), path("/workspace"), found, path("/elsewhere")]).await;
    let client = fake.client();
    let link = turnstream_opencode_client::Directory::new("/link").unwrap();
    assert!(!client.ensure_session(Some("ses_1"), &link, None).await.unwrap().created);
    let error = client.ensure_session(Some("ses_1"), &link, None).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "session ses_e1f3953f1ffeGzt4Q1q3cohHls works in /workspace, not in /elsewhere; leave out the id to get a new one"
    );
}

#[tokio::test]
async fn making_a_session_is_not_repeated_when_the_server_may_have_made_it() {
    let fake = Fake::answering([Answer::HangUp]).await;
    let error = fake.client().ensure_session(None, &directory(), None).await.unwrap_err();
    assert!(matches!(error, ClientError::Broken { .. }) && !error.is_unsent(), "{error}");
    assert_eq!(fake.lines(), ["POST /session?directory=%2Fworkspace"]);
}

#[tokio::test]
async fn a_question_that_changes_nothing_is_repeated() {
    let fake = Fake::answering([Answer::HangUp, Answer::HangUp, Answer::json(200, "{}")]).await;
    fake.client().status(&directory()).await.unwrap();
    assert_eq!(fake.lines().len(), 3);
}

#[tokio::test]
async fn a_server_that_is_just_being_started_again_is_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client =
        Client::new(&format!("http://{address}"), NoPassword, Timeouts::default(), ClientInfo::default())
            .unwrap();
    let directory = directory();
    let making = tokio::spawn(async move { client.ensure_session(None, &directory, None).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let listener = TcpListener::bind(address).await.unwrap();
    let made = captured("p-errors.http.jsonl", "POST /session");
    let fake = Fake::on(listener, move |_| made.clone());
    assert!(making.await.unwrap().unwrap().created);
    assert_eq!(fake.lines().len(), 1);
}

#[tokio::test]
async fn nobody_there_is_told_as_never_sent() {
    let fake = Fake::answering([]).await;
    let client = fake.client();
    drop(fake);
    tokio::task::yield_now().await;
    let error = client.ensure_session(None, &directory(), None).await.unwrap_err();
    assert!(error.is_unsent(), "{error}");
    assert!(error.to_string().starts_with("cannot connect to opencode for POST /session: "), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn deleting_what_is_gone_is_fine() {
    let gone = captured("p-errors.http.jsonl", "DELETE /session/ses_0000");
    let fake = Fake::answering([Answer::json(200, "true"), gone, Answer::json(500, "{}")]).await;
    let client = fake.client();
    client.delete_session(&session()).await.unwrap();
    client.delete_session(&session()).await.unwrap();
    assert_eq!(client.delete_session(&session()).await.unwrap_err().status(), Some(500));
}

#[tokio::test]
async fn a_path_the_server_does_not_know_is_an_error_although_it_says_200() {
    let page = captured("p-errors.http.jsonl", "GET /no/such/route");
    let fake = Fake::answering([page.clone(), page]).await;
    let client = fake.client();
    let error = client.status(&directory()).await.unwrap_err();
    assert!(matches!(error, ClientError::UnknownRequest { .. }), "{error}");
    // Also where nothing of the answer would be read.
    let error = client.abort(&session()).await.unwrap_err();
    assert!(error.to_string().starts_with("opencode answered POST /session/ses_"), "{error}");
}

#[tokio::test]
async fn answers_that_cannot_be_read_are_quoted_briefly() {
    let long = format!("[{}", "x".repeat(100_000));
    let fake = Fake::answering([Answer::json(200, long)]).await;
    let error = fake.client().status(&directory()).await.unwrap_err();
    let ClientError::Unreadable { body, .. } = &error else { panic!("{error}") };
    assert_eq!(body.len(), 200);
    assert!(error.to_string().len() < 500);
}

#[tokio::test]
async fn a_request_id_is_kept() {
    let headers = "content-type: text/plain\r\nx-request-id: req-7\r\n";
    let fake = Fake::answering([Answer::Say(502, headers, "upstream gone".to_owned())]).await;
    let error = fake.client().abort(&session()).await.unwrap_err();
    assert_eq!((error.status(), error.request_id()), (Some(502), Some("req-7")));
    let said = "opencode answered POST /session/ses_e1f3953f1ffeGzt4Q1q3cohHls/abort with 502: upstream gone \
                (request id req-7)";
    assert_eq!(error.to_string(), said);
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_not_waited_for_longer_than_said() {
    let fake = Fake::start(|_| Answer::Mute).await;
    let timeouts = Timeouts { request: Duration::from_millis(100), ..Timeouts::default() };
    let client = Client::new(&fake.url(), NoPassword, timeouts, ClientInfo::default()).unwrap();
    let error = client.abort(&session()).await.unwrap_err();
    assert!(matches!(error, ClientError::Timeout { .. }), "{error}");
    assert_eq!(fake.asked().len(), 1);
}

#[tokio::test]
async fn a_server_that_accepts_and_does_not_answer_yet_is_probed_again() {
    let healthy = Answer::json(200, r#"{"healthy":true,"version":"1.18.33"}"#);
    let fake = Fake::answering([Answer::Mute, Answer::HangUp, healthy]).await;
    assert_eq!(fake.client().health_check().await.unwrap().version, "1.18.33");
    let lines = fake.lines();
    assert!(lines.len() >= 3 && lines.iter().all(|line| line == "GET /global/health"), "{lines:?}");
}

#[tokio::test]
async fn a_server_that_never_becomes_healthy_is_given_up() {
    let fake = Fake::start(|_| Answer::Mute).await;
    let timeouts = Timeouts { probe: Duration::from_millis(20), probes: 3, ..Timeouts::default() };
    let client = Client::new(&fake.url(), NoPassword, timeouts, ClientInfo::default()).unwrap();
    assert!(matches!(client.health_check().await, Err(ClientError::Timeout { .. })));
    assert_eq!(fake.asked().len(), 3);
}

#[tokio::test]
async fn ids_that_would_change_the_path_are_not_sent() {
    let fake = Fake::answering([]).await;
    let client = fake.client();
    for id in ["", "..", "ses_1/abort", "ses_1?x", "not-an-id"] {
        let error = client.ensure_session(Some(id), &directory(), None).await.unwrap_err();
        assert!(matches!(error, ClientError::Id { .. }), "{id}: {error}");
    }
    let forged = SessionRef { id: "ses_1/../..".to_owned(), directory: directory() };
    assert!(matches!(client.abort(&forged).await, Err(ClientError::Id { .. })));
    assert!(matches!(client.get_message(&session(), "..").await, Err(ClientError::Id { .. })));
    let asked = client.reply_permission(&directory(), "x", PermissionReply::Once, None).await;
    assert!(matches!(asked, Err(ClientError::Id { .. })));
    assert_eq!(fake.lines(), [""; 0]);
}

#[tokio::test]
async fn every_request_names_its_directory_in_the_query_and_never_in_the_body() {
    let fake = Fake::start(|asked: &Asked| match asked.target.split(['/', '?']).nth(1).unwrap() {
        "question" if asked.method == "GET" => captured("e1-question-reply.http.jsonl", "GET /question"),
        _ if asked.method == "GET" && asked.target.contains("/message/") => {
            Answer::json(200, r#"{"info":{},"parts":[]}"#)
        }
        _ if asked.target.contains("/session/status") => Answer::json(200, "{}"),
        _ if asked.method == "GET" => Answer::json(200, "[]"),
        _ => Answer::json(200, "true"),
    })
    .await;
    let client = fake.client();
    let (session, directory) = (session(), directory());
    let ids = ids::for_prompt("ses_1", "prm_1", 1_794_772_552_016);
    let part = PromptPart { id: ids.part(0), content: PartContent::Text("Hello".to_owned()) };
    let prompt = Prompt { message_id: ids.message(), parts: vec![part], model: None, agent: None };

    client.children(&session).await.unwrap();
    client.abort(&session).await.unwrap();
    client.status(&directory).await.unwrap();
    client.list_messages(&session).await.unwrap();
    client.get_message(&session, "msg_1").await.unwrap();
    client.prompt_async(&session, &prompt).await.unwrap();
    client.permissions(&directory).await.unwrap();
    let questions = client.questions(&directory).await.unwrap();
    client.reply_permission(&directory, "per_1", PermissionReply::Reject, Some("Not now")).await.unwrap();
    client.reply_question(&directory, "que_1", &[vec!["Blue".to_owned()]]).await.unwrap();
    client.reject_question(&directory, "que_1").await.unwrap();

    let sent: Vec<String> = fake
        .asked()
        .iter()
        .map(|asked| format!("{} {} {}", asked.method, asked.target, asked.body))
        .collect();
    let at = "?directory=%2Fworkspace";
    let own = "/session/ses_e1f3953f1ffeGzt4Q1q3cohHls";
    let prompted = format!(
        r#"{{"messageID":"{}","parts":[{{"id":"{}","type":"text","text":"Hello"}}]}}"#,
        ids.message(),
        ids.part(0)
    );
    assert_eq!(
        sent,
        [
            format!("GET {own}/children{at} "),
            format!("POST {own}/abort{at} "),
            format!("GET /session/status{at} "),
            format!("GET {own}/message{at} "),
            format!("GET {own}/message/msg_1{at} "),
            format!("POST {own}/prompt_async{at} {prompted}"),
            format!("GET /permission{at} "),
            format!("GET /question{at} "),
            format!(r#"POST /permission/per_1/reply{at} {{"reply":"reject","message":"Not now"}}"#),
            format!(r#"POST /question/que_1/reply{at} {{"answers":[["Blue"]]}}"#),
            format!("POST /question/que_1/reject{at} "),
        ]
    );
    assert_eq!(questions[0].id, "que_1e0bdb682001BX7YtDsJDpFZwH");
    assert_eq!(questions[0].session, "ses_e1f424a24ffefeBrUo2UMbL0P5");
}
