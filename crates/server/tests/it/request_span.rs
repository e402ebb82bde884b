//! The spans and ids of requests.

use crate::support::{Rig, answer};
use turnstream_testkit::diagnostics::{Capture, Level, Line};

/// The line that ends the request with this id.
async fn answered(capture: &Capture, id: &str) -> Line {
    capture.until(|line| line.message == "request answered" && line.field("request") == Some(id)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_has_a_span_with_its_route_and_an_id_that_is_sent_back() {
    let capture = Capture::start();
    let rig = Rig::start().await;
    let session = rig.session().await;
    for (method, path, route, status) in [
        ("GET", format!("/v1/sessions/{session}"), "/v1/sessions/{session}", "200"),
        ("GET", "/v1/sessions/ses_nope/snapshot".to_owned(), "/v1/sessions/{session}/snapshot", "404"),
        (
            "DELETE",
            format!("/v1/sessions/{session}/prompts/p9"),
            "/v1/sessions/{session}/prompts/{prompt}",
            "409",
        ),
        ("PUT", "/v1/health".to_owned(), "/v1/health", "405"),
        ("GET", "/v2/nothing".to_owned(), "none", "404"),
    ] {
        let told = rig.ask(method, &path, None).await;
        let id = told.headers["x-request-id"].to_str().unwrap();
        let line = answered(&capture, id).await;
        let field = |name| line.field(name).unwrap_or_default();
        assert_eq!((field("method"), field("route"), field("status")), (method, route, status));
        assert_eq!(line.level, Level::DEBUG);
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_names_its_request_if_the_name_is_short_and_harmless() {
    let capture = Capture::start();
    let rig = Rig::start().await;
    let ask = |id: &str| answer(rig.http.get(rig.url("/v1/health")).header("x-request-id", id));
    assert_eq!(ask("build-7.a_B").await.headers["x-request-id"], "build-7.a_B");
    answered(&capture, "build-7.a_B").await;
    for refused in ["a b", "<script>", "a,b", &"x".repeat(65)] {
        let given = ask(refused).await.headers["x-request-id"].clone();
        assert!(given != refused && given.len() == 16, "{refused:?} became {given:?}");
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_about_what_a_request_did_names_the_request() {
    let capture = Capture::start();
    let rig = Rig::start().await;
    let body = serde_json::json!({"agent": "scripted", "cwd": rig.work()}).to_string();
    let create = rig.http.post(rig.url("/v1/sessions")).header("content-type", "application/json");
    let made = answer(create.header("x-request-id", "creates").body(body)).await;
    let line = capture.until(|line| line.message == "session created").await;
    assert_eq!((line.field("request"), line.field("session")), (Some("creates"), made.body["id"].as_str()));
    rig.stop().await;
    assert_eq!(capture.at_least(Level::WARN), [], "{}", capture.text());
}
