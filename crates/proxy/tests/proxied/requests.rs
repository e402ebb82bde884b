//! What a provider is asked, what passes unchanged, and who pays.

use crate::harness::{AGENTS, FORMATS, Gateway, bytes, client, events, read, request, route};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use turnstream_fake_provider::{
    Bytes, Completion, Part, Provider, Raw, Refusal, Reply, RetryAfter, Script, Step,
};
use turnstream_llm::{Format, StreamEnd};
use turnstream_model::attempts::{Ledger, Verdict};
use turnstream_provider::{Access, Asker, KeySource, Route};
use turnstream_proxy::{Limits, PathAccess};

const KEY: &str = "sk-Kartoffel7-of-the-gateway-0123456789";
const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn in_file(directory: &tempfile::TempDir, name: &str, text: &str) -> KeySource {
    let path = directory.path().join(name);
    std::fs::write(&path, text).unwrap();
    KeySource::File(path)
}

fn call() -> Completion {
    Completion::of([Part::text("Yes."), Part::tool_call("write_file", json!({"path": "a"}))])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_replaced_by_the_key_and_everything_else_passes() {
    let directory = tempfile::tempdir().unwrap();
    for (format, _) in FORMATS {
        let provider = Provider::start(Script::new([Step::new(call())])).await.unwrap();
        let access = Access::Configured(in_file(&directory, "key", KEY));
        let gateway = Gateway::of(Route { access, ..route(format, &provider) }).await;
        let mut body = request(format, "go");
        body["unknown_member"] = json!({"a": [1, null, "ü"]});
        let sent = client().post(format!("{}?beta=true", gateway.url(format))).json(&body);
        let sent = sent.header("authorization", "Bearer tst_of-the-gateway").header("x-api-key", "tst_too");
        let got = read(sent.header("x-unknown", "kept").header("cookie", "a=b").send().await.unwrap()).await;
        got.assert_complete(format, &["write_file"], "with a key");
        let asked = &provider.calls()[0];
        assert_eq!(asked.body, body);
        assert!(asked.target.ends_with("?beta=true"), "{}", asked.target);
        assert_eq!(asked.header("x-unknown"), Some("kept"));
        assert_eq!(asked.header("cookie"), None);
        assert!(!format!("{:?}", asked.headers).contains("tst_"), "{:?}", asked.headers);
        match format {
            Format::Messages => assert_eq!(asked.header("x-api-key"), Some(KEY)),
            Format::Chat | Format::Responses => {
                assert_eq!(asked.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_that_passes_keys_through_needs_its_secret_in_the_path() {
    let directory = tempfile::tempdir().unwrap();
    let provider = Provider::start(Script::new([Step::new(call()).always()])).await.unwrap();
    let access = Access::PassThrough(in_file(&directory, "secret", SECRET));
    let gateway = Gateway::of(Route { access, ..route(Format::Chat, &provider) }).await;
    let access = |path: &str| gateway.proxy.path_access(path);
    assert_eq!(access(&format!("main/{SECRET}/chat/completions")), PathAccess::Open);
    for wrong in ["main/chat/completions", "main/0123/chat/completions", "main", "main//", "main/"] {
        assert_eq!(access(wrong), PathAccess::Wrong, "{wrong}");
    }
    assert_eq!(access("other/chat/completions"), PathAccess::Token);
    in_file(&directory, "secret", "short");
    assert_eq!(access("main/short/chat/completions"), PathAccess::Wrong);
    in_file(&directory, "secret", SECRET);
    let url = format!("http://{}/llm/main/{SECRET}/v1/chat/completions", gateway.address);
    let sent =
        client().post(url).json(&request(Format::Chat, "go")).header("authorization", "Bearer client-key");
    read(sent.send().await.unwrap()).await.assert_complete(Format::Chat, &["write_file"], "passed through");
    let asked = &provider.calls()[0];
    assert_eq!(
        (asked.path(), asked.header("authorization")),
        ("/v1/chat/completions", Some("Bearer client-key"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_streamed_is_whole_or_an_error() {
    for (format, _) in FORMATS {
        let page = Raw {
            status: 200,
            content_type: "text/html".to_owned(),
            body: Bytes::Text("<html>no</html>".to_owned()),
        };
        let script = Script::new([
            Step::new(Refusal::new(500, "server_error", "no")),
            Step::new(Reply::Raw(page)),
            Step::new(call()),
        ]);
        let provider = Provider::start(script).await.unwrap();
        let gateway = Gateway::of(route(format, &provider)).await;
        let mut body = request(format, "go");
        body["stream"] = Value::Bool(false);
        let got = gateway.ask(format, &body).await;
        assert_eq!(got.status, 200, "{}", got.text());
        assert_eq!(got.headers["content-type"], "application/json");
        assert_eq!(got.outcome(format).runnable().len(), 1, "{}", got.text());
        assert_eq!(provider.calls().len(), 3);
        // Nothing is left: the provider answers no further request.
        let refused = gateway.ask(format, &body).await;
        assert!(refused.status >= 400, "{}", refused.text());
        assert_eq!(refused.headers["x-should-retry"], "false");
        assert!(matches!(refused.outcome(format).ended, StreamEnd::NotAStream(_)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_passes_as_it_is_and_is_not_repeated() {
    for (format, _) in FORMATS {
        let refusal = Refusal::new(400, "invalid_request_error", "the model does not take images");
        let provider = Provider::start(Script::new([Step::new(refusal).always()])).await.unwrap();
        let direct = match format {
            Format::Chat => format!("{}/chat/completions", provider.openai_base_url()),
            Format::Responses => format!("{}/responses", provider.openai_base_url()),
            Format::Messages => format!("{}/v1/messages", provider.base_url()),
        };
        let body = request(format, "go");
        let plain = read(client().post(direct).json(&body).send().await.unwrap()).await;
        let gateway = Gateway::of(route(format, &provider)).await;
        let got = gateway.ask(format, &body).await;
        // The provider's id of the request differs.
        let without_id = |text: String| text.split("\"request_id\"").next().unwrap_or_default().to_owned();
        assert_eq!((got.status, without_id(got.text())), (plain.status, without_id(plain.text())));
        assert_eq!(provider.calls().len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_too_long_is_passed_on() {
    for (format, _) in FORMATS {
        let refusal =
            Refusal::new(429, "rate_limit_error", "slow down").retry_after(RetryAfter::Seconds(3600));
        let provider = Provider::start(Script::new([Step::new(refusal).always()])).await.unwrap();
        let gateway =
            Gateway::of(Route { longest_wait: Duration::from_secs(30), ..route(format, &provider) }).await;
        let got = gateway.ask(format, &request(format, "go")).await;
        assert_eq!((got.status, got.headers["retry-after"].to_str().unwrap()), (429, "3600"));
        assert!(!got.headers.contains_key("x-should-retry"));
        assert_eq!(provider.calls().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_route_takes_over_with_its_own_model_and_key() {
    let directory = tempfile::tempdir().unwrap();
    for (format, _) in FORMATS {
        let refusal = Refusal::new(401, "authentication_error", "wrong key");
        let first = Provider::start(Script::new([Step::new(refusal).always()])).await.unwrap();
        let second = Provider::start(Script::new([Step::new(call())])).await.unwrap();
        let main = Route { fallback: vec!["backup".to_owned()], ..route(format, &first) };
        let backup = Route {
            name: "backup".to_owned(),
            model: Some("other-model".to_owned()),
            access: Access::Configured(in_file(&directory, "key", KEY)),
            ..route(format, &second)
        };
        let gateway = Gateway::start([main, backup], Limits::default()).await;
        let sent = client().post(format!("{}?key=Tomate9", gateway.url(format))).json(&request(format, "go"));
        let sent = sent.header("x-auth-token", "Tomate9").header("authorization", "Bearer Tomate9");
        let sent = sent.header("x-mine", "Tomate9").header("connection", "x-mine");
        let got = read(sent.header("idempotency-key", "kept").send().await.unwrap()).await;
        got.assert_complete(format, &["write_file"], "by a fallback");
        let asked = &second.calls()[0];
        assert!(!asked.target.contains('?'), "{}", asked.target);
        assert!(!format!("{:?}", asked.headers).contains("Tomate9"), "{:?}", asked.headers);
        assert_eq!(asked.header("idempotency-key"), Some("kept"));
        assert_eq!(got.headers["x-turnstream-route"], "backup");
        assert_eq!(second.calls()[0].asked.model, "other-model");
        assert_eq!((first.calls().len(), second.calls().len()), (1, 1));
        assert_eq!(gateway.proxy.figures()["backup"].fallbacks, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_an_error_and_leads_nowhere() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let moved = tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut asked = Vec::new();
            while !asked.ends_with(b"}") && socket.read_buf(&mut asked).await.unwrap() > 0 {}
            let answer = "HTTP/1.1 308 Permanent Redirect\r\nlocation: http://127.0.0.1:9/elsewhere\r\n\
                refresh: 0\r\ncontent-type: text/html\r\ncontent-length: 5\r\nconnection: close\r\n\r\nmoved";
            socket.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let provider = Provider::start(Script::new([])).await.unwrap();
    for (format, _) in FORMATS {
        let route = Route { url: format!("http://{address}"), attempts: 1, ..route(format, &provider) };
        let gateway = Gateway::of(route).await;
        let got = gateway.ask(format, &request(format, "go")).await;
        assert!(got.status >= 400, "{got:?}");
        assert!(!got.headers.contains_key("location") && !got.headers.contains_key("refresh"), "{got:?}");
        assert!(got.text().contains("\"error\""), "{}", got.text());
    }
    moved.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_models_pass_and_unknown_paths_are_refused() {
    for (format, _) in FORMATS {
        let script = Script { models: vec!["m".to_owned()], ..Script::new([]) };
        let provider = Provider::start(script).await.unwrap();
        let gateway = Gateway::of(route(format, &provider)).await;
        let get = |path: &str| client().get(format!("http://{}/llm/{path}", gateway.address)).send();
        let got = read(get("main/v1/models").await.unwrap()).await;
        assert_eq!(got.status, 200);
        assert!(got.text().contains("\"m\""), "{}", got.text());
        let wrong = read(get("main/embeddings").await.unwrap()).await;
        assert!(wrong.status == 404 && wrong.text().contains(format.name()), "{}", wrong.text());
        let nobody = read(get("nobody/models").await.unwrap()).await;
        assert!(nobody.status == 404 && nobody.text().contains("there is main"), "{}", nobody.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_attempt_has_a_row_and_no_row_has_a_key() {
    let directory = tempfile::tempdir().unwrap();
    let refusal = Refusal::new(500, "server_error", &format!("bad key {KEY}"));
    let provider = Provider::start(Script::new([Step::new(refusal), Step::new(call())])).await.unwrap();
    let access = Access::Configured(in_file(&directory, "key", KEY));
    let gateway = Gateway::of(Route { access, ..route(Format::Chat, &provider) }).await;
    let got = gateway.ask(Format::Chat, &request(Format::Chat, "go")).await;
    got.assert_complete(Format::Chat, &["write_file"], "second attempt");
    let id = got.headers["x-turnstream-request"].to_str().unwrap();
    gateway.quiet().await;
    let rows = gateway.ledger.attempts("llm/main".into()).await.unwrap();
    let verdicts: Vec<_> = rows.iter().map(|row| row.verdict()).collect();
    assert_eq!(verdicts, [Some(Verdict::Failed), Some(Verdict::Complete)]);
    assert!(rows.iter().all(|row| row.begun.name.turn.to_string() == id && row.begun.model == "m"));
    assert!(!format!("{rows:?}").contains("Kartoffel7"), "{rows:?}");
    let evidence = gateway.ledger.evidence(rows[0].begun.name.clone()).await.unwrap().unwrap();
    assert!(!String::from_utf8_lossy(&evidence.head).contains("Kartoffel7"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_repeats_the_key_does_not_show_it() {
    let directory = tempfile::tempdir().unwrap();
    let refusal = Refusal::new(401, "authentication_error", &format!("Incorrect API key: {KEY}"));
    let provider = Provider::start(Script::new([Step::new(refusal).always()])).await.unwrap();
    let access = Access::Configured(in_file(&directory, "key", KEY));
    let gateway = Gateway::of(Route { access, ..route(Format::Chat, &provider) }).await;
    let got = gateway.ask(Format::Chat, &request(Format::Chat, "go")).await;
    assert!(got.status == 401 && !got.text().contains("Kartoffel7"), "{}", got.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_of_a_model_is_stored_short_and_without_a_key() {
    let directory = tempfile::tempdir().unwrap();
    let provider = Provider::start(Script::new([Step::new(call())])).await.unwrap();
    let access = Access::Configured(in_file(&directory, "key", KEY));
    let gateway = Gateway::of(Route { access, ..route(Format::Chat, &provider) }).await;
    let mut body = request(Format::Chat, "go");
    let model = format!("{KEY} {}", "m".repeat(4096));
    body["model"] = Value::from(model.clone());
    gateway.ask(Format::Chat, &body).await.assert_complete(Format::Chat, &["write_file"], "a long name");
    assert_eq!(provider.calls()[0].asked.model, model);
    gateway.quiet().await;
    let stored = gateway.ledger.attempts("llm/main".into()).await.unwrap()[0].begun.model.clone();
    assert!(stored.ends_with("mmm") && stored.len() <= 256, "{} bytes", stored.len());
    assert!(!stored.contains("Kartoffel7"), "{stored}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_request_is_refused_and_not_sent() {
    let provider = Provider::start(Script::new([Step::new(call()).always()])).await.unwrap();
    let gateway = Gateway::of(route(Format::Responses, &provider)).await;
    let sent = |encoding: &str| {
        let sent = client().post(gateway.url(Format::Responses)).json(&request(Format::Responses, "go"));
        sent.header("content-encoding", encoding).send()
    };
    let got = read(sent("zstd").await.unwrap()).await;
    assert!(got.status == 415 && got.text().contains("uncompressed"), "{} {}", got.status, got.text());
    assert!(provider.calls().is_empty());
    let got = read(sent("identity").await.unwrap()).await;
    got.assert_complete(Format::Responses, &["write_file"], "not compressed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_another_proxy_has_the_headers_of_the_last_one_only() {
    let provider =
        Provider::start(Script::new([Step::new(Refusal::new(500, "server_error", "no")), Step::new(call())]));
    let provider = provider.await.unwrap();
    let first = Gateway::of(route(Format::Chat, &provider)).await;
    let url = format!("http://{}/llm/main", first.address);
    let last = Gateway::of(Route { url, ..route(Format::Chat, &provider) }).await;
    let got = last.ask(Format::Chat, &request(Format::Chat, "go")).await;
    got.assert_complete(Format::Chat, &["write_file"], "by two proxies");
    last.quiet().await;
    let rows = last.ledger.attempts("llm/main".into()).await.unwrap();
    for (name, value) in [("request", rows[0].begun.name.turn.to_string()), ("attempts", "1".to_owned())] {
        let name = format!("x-turnstream-{name}");
        let values: Vec<_> = got.headers.get_all(&name).iter().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(values, [value], "{name}");
    }
}

/// The same text with a member that nobody knows at the beginning of every object.
fn with_unknown_members(text: &str) -> String {
    let member = r#"{"x_unknown" : {"a":[1, 2.50,null,"ü\u00e9"]},"#;
    let marked = text.replace("{}", "\0").replace('{', member);
    marked.replace('\0', r#"{"x_unknown":1}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_members_of_every_object_pass_in_answers() {
    for (format, wire) in FORMATS {
        let frames: Vec<Vec<u8>> = events(wire, &Step::new(Completion::text("a whole answer")))
            .into_iter()
            .map(|frame| with_unknown_members(&String::from_utf8(frame).unwrap()).into_bytes())
            .collect();
        let body = bytes(&frames);
        assert!(String::from_utf8_lossy(&body).matches("x_unknown").count() > frames.len());
        let raw = Raw {
            status: 200,
            content_type: "text/event-stream".to_owned(),
            body: Bytes::Binary(body.to_vec()),
        };
        let provider = Provider::start(Script::new([Step::new(Reply::Raw(raw))])).await.unwrap();
        let got = Gateway::of(route(format, &provider)).await.ask(format, &request(format, "go")).await;
        assert_eq!(got.text(), String::from_utf8_lossy(&body), "{}", format.name());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_started_agent_is_let_in_by_its_part_and_has_rows_of_its_session() {
    let directory = tempfile::tempdir().unwrap();
    let provider = Provider::start(Script::new([Step::new(call()).always()])).await.unwrap();
    let access = Access::Configured(in_file(&directory, "key", KEY));
    let gateway = Gateway::of(Route { access, ..route(Format::Chat, &provider) }).await;
    let part = |asker: &Asker| AGENTS.part("main", asker);
    let (session, server) = (Asker::Session("ses_1".to_owned()), Asker::Agent("opencode".to_owned()));
    for (path, expected) in [
        (format!("main/{}/v1/models", part(&session)), PathAccess::Agent),
        (format!("main/{}", part(&server)), PathAccess::Agent),
        (format!("main/{}0/models", part(&session)), PathAccess::Token),
        (format!("other/{}/models", part(&session)), PathAccess::Token),
        ("main/models".to_owned(), PathAccess::Token),
    ] {
        assert_eq!(gateway.proxy.path_access(&path), expected, "{path}");
    }
    for asker in [&session, &server] {
        let url = format!("http://{}/llm/main/{}/chat/completions", gateway.address, part(asker));
        let sent =
            client().post(url).json(&request(Format::Chat, "go")).header("authorization", "Bearer own");
        let got = read(sent.send().await.unwrap()).await;
        got.assert_complete(Format::Chat, &["write_file"], "of a started agent");
    }
    gateway.quiet().await;
    for (name, rows) in [("ses_1", 1), ("llm/main", 1)] {
        assert_eq!(gateway.ledger.attempts(name.into()).await.unwrap().len(), rows, "{name}");
    }
    let key = format!("Bearer {KEY}");
    assert!(provider.calls().iter().all(|call| call.header("authorization") == Some(&key)));
}
