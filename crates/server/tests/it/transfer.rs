//! `…/export` and `/v1/import` over real sockets.

use crate::problems::assert_problem;
use crate::support::{Rig, answer, options, raw};
use serde_json::json;
use std::time::Duration;
use turnstream_server::Options;

/// A session as its file, and what the headers say of it.
async fn exported(rig: &Rig, id: &str, query: &str) -> (reqwest::header::HeaderMap, String) {
    let url = rig.url(&format!("/v1/sessions/{id}/export{query}"));
    let response = rig.http.get(url).send().await.unwrap();
    assert_eq!(response.status(), 200);
    (response.headers().clone(), response.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_a_file_and_comes_back_from_it() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.played(&id, json!([{"do": "text", "text": "Hello"}])).await;
    let (headers, file) = exported(&rig, &id, "").await;
    assert_eq!(headers["content-type"], "application/x-ndjson");
    assert_eq!(headers["content-disposition"], format!("attachment; filename=\"{id}.jsonl\""));
    assert_eq!(
        (headers["turnstream-first"].as_bytes(), headers["turnstream-left-out"].as_bytes()),
        (&b"1"[..], &b"0"[..])
    );
    let lines: Vec<&str> = file.lines().collect();
    assert_eq!(lines[1..], rig.log(&id).await, "as they were delivered");
    let (headers, page) = exported(&rig, &id, "?format=markdown").await;
    assert_eq!(headers["content-type"], "text/markdown; charset=utf-8");
    assert!(page.starts_with("# ") && page.contains("\nHello\n"), "{page}");

    let import = |query: &str| rig.import(query, file.clone());
    let exists = answer(import("")).await;
    assert_problem(&exists, 409, "session-exists", &[&id, "new_id=true"]);
    assert_eq!(exists.body["session"], id);
    let copy = answer(import("?new_id=true")).await;
    assert_eq!(
        (copy.status, &copy.body["status"], &copy.body["head"]),
        (201, &json!("idle"), &json!(lines.len() - 1))
    );
    let copied = rig.log(copy.body["id"].as_str().unwrap()).await;
    assert_eq!(copied[1..], lines[2..]);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_exported_or_imported_is_a_problem() {
    let options = Options { import: 4_000, body: Duration::from_millis(300), ..options() };
    let rig = Rig::start_with(options).await;
    let id = rig.session().await;
    for (query, words) in [("?wait=301", "300 seconds"), ("?format=pdf", "pdf"), ("?formt=jsonl", "formt")] {
        let refused = rig.get(&format!("/v1/sessions/{id}/export{query}")).await;
        assert_problem(&refused, 400, "bad-query", &[words]);
    }
    assert_problem(&rig.get("/v1/sessions/ses_nope/export").await, 404, "unknown-session", &["ses_nope"]);
    assert_problem(&rig.get("/v1/import").await, 405, "wrong-method", &[]);

    let import = |body: String| rig.import("", body);
    let large = answer(import("x".repeat(100_000))).await;
    assert_problem(&large, 413, "too-large", &["4000 bytes"]);
    assert_eq!(large.body["limit"], 4_000);
    let other = answer(import("{\"seq\":1}\n".to_owned())).await;
    assert_problem(&other, 400, "bad-import", &["line 1", "turnstream export"]);
    assert_eq!((&other.body["line"], &other.body["fault"]), (&json!(1), &json!("damaged")));
    let form = rig.http.post(rig.url("/v1/import")).body("a=b");
    let form = form.header("content-type", "application/x-www-form-urlencoded");
    assert_problem(&answer(form).await, 415, "not-json", &["--data-binary"]);
    let slow = "POST /v1/import HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Length: 99\r\n\
         Connection: close\r\n\r\n{";
    let told = raw(rig.address, slow).await;
    assert!(told.starts_with("HTTP/1.1 408 ") && told.contains("slow-body"), "{told}");
    assert_eq!(rig.get("/v1/sessions").await.body["sessions"].as_array().unwrap().len(), 1);
    rig.stop().await;
}
