//! Who is served at all.

use crate::support::{Answer, PATIENCE, Rig, answer, options, raw};
use futures_util::StreamExt;
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::time::timeout;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use turnstream_gateway::{Gateway, Settings};
use turnstream_server::{Auth, ListenError, Options, Server, Token, TokenFile};

const TOKEN: &str = "4f1d0c9b7a6e5d3c2b1a09f8e7d6c5b4";

fn with_token() -> Options {
    Options::new(Auth::Token(Token::new(TOKEN).unwrap()))
}

fn request(host: &str, more: &str) -> String {
    format!("GET /v1/sessions HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n")
}

/// A request with these headers, and the token.
async fn ask(rig: &Rig, method: &str, path: &str, headers: &[(&'static str, &str)]) -> Answer {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(value).unwrap()))
        .collect();
    let method = method.parse().unwrap();
    answer(rig.http.request(method, rig.url(path)).headers(headers).bearer_auth(TOKEN)).await
}

fn kind(answer: &Answer) -> &str {
    answer.body["type"].as_str().unwrap_or_default().rsplit(':').next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_host_or_page_is_refused_before_any_route() {
    let rig = Rig::start().await;
    let port = rig.address.port();
    for host in [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        let told = raw(rig.address, &request(&host, &format!("Origin: http://{host}\r\n"))).await;
        assert!(told.starts_with("HTTP/1.1 200 "), "{host}: {told}");
        let told = raw(rig.address, &request(&host, "Origin: http://localhost:3000\r\n")).await;
        assert!(told.starts_with("HTTP/1.1 403 ") && told.contains("problem:foreign-origin"), "{told}");
    }
    let told = raw(rig.address, &request(&format!("evil.example:{port}"), "")).await;
    assert!(told.starts_with("HTTP/1.1 403 ") && told.contains("problem:foreign-host"), "{told}");
    let unknown = "GET /nothing HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert!(raw(rig.address, unknown).await.contains("problem:foreign-host"));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_host_is_refused_also_with_a_token() {
    let public_url = Some("https://agents.example".parse().unwrap());
    let rig = Rig::start_with(Options { public_url, ..with_token() }).await;
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let told = raw(rig.address, &request("evil.example", &bearer)).await;
    assert!(told.contains("problem:foreign-host"), "{told}");
    let own = format!("{bearer}Origin: https://agents.example\r\n");
    assert!(raw(rig.address, &request("agents.example", &own)).await.starts_with("HTTP/1.1 200 "));
    let other = format!("{bearer}Origin: http://agents.example\r\n");
    assert!(raw(rig.address, &request("agents.example", &other)).await.contains("problem:foreign-origin"));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_only_who_shows_it_is_served() {
    let rig = Rig::start_with(with_token()).await;
    let get = || rig.http.get(rig.url("/v1/sessions"));
    let refused = rig.get("/v1/sessions").await;
    assert_eq!(refused.status, 401);
    assert_eq!(kind(&refused), "unauthorized");
    assert!(refused.headers["www-authenticate"].to_str().unwrap().contains("Bearer"));
    assert_eq!(answer(get().bearer_auth(TOKEN)).await.status, 200);
    assert_eq!(answer(get().basic_auth("anyone", Some(TOKEN))).await.status, 200);
    assert_eq!(answer(get().bearer_auth(&TOKEN[1..])).await.status, 401);
    assert_eq!(answer(get().basic_auth(TOKEN, Some(""))).await.status, 401);
    for path in ["/metrics", "/v1/ready", "/v1/agents", "/v1/events", "/v1/ws", "/nothing", "/v1/login-codes"]
    {
        assert_eq!(rig.get(path).await.status, 401, "{path}");
    }
    let metrics = get_text(&rig, "/metrics").await;
    assert!(metrics.contains("turnstream_failed_logins_total 2"), "{metrics}");
    rig.stop().await;
}

async fn get_text(rig: &Rig, path: &str) -> String {
    rig.http.get(rig.url(path)).bearer_auth(TOKEN).send().await.unwrap().text().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn health_needs_no_token_and_says_one_word() {
    let rig = Rig::start_with(with_token()).await;
    let health = rig.get("/v1/health").await;
    assert_eq!((health.status, health.body), (200, json!({"status": "alive"})));
    let ready = ask(&rig, "GET", "/v1/ready", &[]).await;
    assert_eq!((ready.status, &ready.body["status"]), (200, &json!("sound")));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_keeps_browsers_from_storing_or_framing_it() {
    let rig = Rig::start().await;
    for path in ["/v1/health", "/v1/sessions", "/nothing", "/metrics"] {
        let headers = rig.http.get(rig.url(path)).send().await.unwrap().headers().clone();
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["cache-control"], "no-store", "{path}");
        assert_eq!(headers["x-frame-options"], "DENY", "{path}");
        assert_eq!(headers["cross-origin-resource-policy"], "same-origin", "{path}");
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_loaded_without_a_token_and_may_load_nothing_from_elsewhere() {
    let rig = Rig::start_with(with_token()).await;
    for (path, kind) in [
        ("/", "text/html"),
        ("/page.css", "text/css"),
        ("/page.js", "text/javascript"),
        ("/icon.svg", "image/svg+xml"),
    ] {
        let answer = rig.http.get(rig.url(path)).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        assert!(answer.headers()["content-type"].to_str().unwrap().starts_with(kind), "{path}");
        let policy = answer.headers()["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        // The script has the names of XML, and the policy keeps it from asking anybody else.
        let text = answer.text().await.unwrap().replace("http://www.w3.org/", "");
        assert!(path == "/page.js" || (!text.contains("http://") && !text.contains("https://")), "{path}");
    }
    rig.stop().await;
}

/// What browsers send without asking first: a form, or text.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_its_content_type_does_nothing() {
    let rig = Rig::start().await;
    let body = json!({"agent": "scripted", "cwd": rig.work(), "permissions": "allow"}).to_string();
    for content_type in
        [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("text/json")]
    {
        let mut request = rig.http.post(rig.url("/v1/sessions")).body(body.clone());
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let refused = answer(request).await;
        assert_eq!((refused.status, kind(&refused)), (415, "not-json"), "{content_type:?}");
    }
    for content_type in [None, Some("text/plain"), Some("application/json")] {
        let mut request = rig.http.post(rig.url("/v1/import")).body("{}\n");
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let refused = answer(request).await;
        assert_eq!((refused.status, kind(&refused)), (415, "not-json"), "{content_type:?}");
    }
    let session = rig.session().await;
    let cancel = rig.http.post(rig.url(&format!("/v1/sessions/{session}/cancel"))).body("{}");
    assert_eq!(answer(cancel).await.status, 415);
    assert_eq!(rig.get("/v1/sessions").await.body["sessions"].as_array().unwrap().len(), 1);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listed_origin_gets_cors_answers_and_no_other_does() {
    let origins = vec!["https://app.example".parse().unwrap()];
    let rig = Rig::start_with(Options { origins, ..with_token() }).await;
    let preflight = |origin: &'static str| {
        let request = rig.http.request(reqwest::Method::OPTIONS, rig.url("/v1/sessions"));
        request.header("origin", origin).header("access-control-request-method", "POST").send()
    };
    let allowed = preflight("https://app.example").await.unwrap();
    assert_eq!(allowed.status(), 204);
    assert_eq!(allowed.headers()["access-control-allow-origin"], "https://app.example");
    assert!(allowed.headers()["access-control-allow-headers"].to_str().unwrap().contains("authorization"));
    assert!(!allowed.headers().contains_key("access-control-allow-credentials"));
    assert_eq!(allowed.headers()["vary"], "origin");
    for origin in ["https://evil.example", "null", "http://app.example", "https://app.example:444", "file://"]
    {
        let refused = preflight(origin).await.unwrap();
        assert_eq!(refused.status(), 403, "{origin}");
        assert!(!refused.headers().contains_key("access-control-allow-origin"), "{origin}");
    }
    let listed = ask(&rig, "GET", "/v1/sessions", &[("origin", "https://app.example")]).await;
    assert_eq!(listed.status, 200);
    assert_eq!(listed.headers["access-control-allow-origin"], "https://app.example");
    assert!(listed.headers["access-control-expose-headers"].to_str().unwrap().contains("x-request-id"));
    let without = rig.http.get(rig.url("/v1/sessions")).header("origin", "https://app.example");
    let refused = answer(without).await;
    assert_eq!(refused.status, 401);
    assert_eq!(refused.headers["access-control-allow-origin"], "https://app.example", "a page can read why");

    let socket = |origin: &'static str| {
        let url = format!("ws://{}/v1/ws", rig.address);
        let mut request = url.into_client_request().unwrap();
        request.headers_mut().insert("origin", HeaderValue::from_static(origin));
        let bearer = HeaderValue::from_str(&format!("Bearer {TOKEN}")).unwrap();
        request.headers_mut().insert("authorization", bearer);
        connect_async(request)
    };
    socket("https://app.example").await.unwrap();
    assert!(socket("http://localhost:3000").await.unwrap_err().to_string().contains("403"));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_signs_in_once_with_a_code_and_gets_a_token_of_its_own() {
    let home = tempfile::tempdir().unwrap();
    let issued = Some(home.path().join("pages.json"));
    let rig = Rig::start_with(Options { issued, ..with_token() }).await;
    let made = ask(&rig, "POST", "/v1/login-codes", &[]).await;
    let url = made.body["url"].as_str().unwrap();
    let code = url.strip_prefix(&format!("http://{}/#login=", rig.address)).unwrap();
    let sign_in = || rig.post("/v1/login", json!({"code": code}));
    let signed_in = sign_in().await;
    assert_eq!(signed_in.status, 201, "{signed_in:?}");
    let token = signed_in.body["token"].as_str().unwrap();
    assert_eq!(sign_in().await.status, 401, "a second use");
    let get = |path: &str| answer(rig.http.get(rig.url(path)).bearer_auth(token));
    assert_eq!(get("/v1/sessions").await.status, 200);
    let codes = answer(rig.http.post(rig.url("/v1/login-codes")).bearer_auth(token)).await;
    assert_eq!((codes.status, kind(&codes)), (403, "forbidden"), "a page makes no further codes");
    assert_eq!(ask(&rig, "DELETE", "/v1/login", &[]).await.status, 403, "the owner's token is no page's");
    let signed_out = rig.http.delete(rig.url("/v1/login")).bearer_auth(token).send().await.unwrap();
    assert_eq!(signed_out.status(), 204);
    assert_eq!(get("/v1/sessions").await.status, 401);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_opens_streams_and_nothing_else() {
    let rig = Rig::start_with(with_token()).await;
    let create = rig.http.post(rig.url("/v1/sessions")).bearer_auth(TOKEN);
    let session = answer(create.json(&json!({"agent": "scripted", "cwd": rig.work()}))).await;
    let session = session.body["id"].as_str().unwrap().to_owned();
    let ticket = async |body: Value| {
        let made = answer(rig.http.post(rig.url("/v1/tickets")).bearer_auth(TOKEN).json(&body)).await;
        assert_eq!(made.status, 201, "{made:?}");
        made.body["ticket"].as_str().unwrap().to_owned()
    };
    let (all, one) = (ticket(json!({})).await, ticket(json!({"session": session})).await);
    let status = async |path: String| rig.http.get(rig.url(&path)).send().await.unwrap().status().as_u16();
    for _ in 0..2 {
        assert_eq!(status(format!("/v1/events?ticket={all}")).await, 200);
        assert_eq!(status(format!("/v1/sessions/{session}/events?after=0&ticket={all}")).await, 200);
        assert_eq!(status(format!("/v1/sessions/{session}/events?ticket={one}")).await, 200);
    }
    let socket = |path: String| connect_async(format!("ws://{}{path}", rig.address));
    socket(format!("/v1/ws?ticket={all}")).await.unwrap();
    socket(format!("/v1/sessions/{session}/ws?ticket={one}")).await.unwrap();
    for path in [
        format!("/v1/events?ticket={one}"),
        format!("/v1/ws?ticket={one}"),
        format!("/v1/sessions/ses_other/events?ticket={one}"),
        format!("/v1/sessions?ticket={all}"),
        format!("/v1/sessions/{session}/snapshot?ticket={all}"),
        format!("/metrics?ticket={all}"),
        format!("/v1/events?ticket={all}x"),
    ] {
        assert_eq!(status(path.clone()).await, 401, "{path}");
    }
    let bearer = rig.http.get(rig.url("/v1/sessions")).bearer_auth(&all);
    assert_eq!(answer(bearer).await.status, 401, "a ticket is no token");
    let prompt = format!("/v1/sessions/{session}/prompts?ticket={all}");
    assert_eq!(rig.post(&prompt, json!({"content": []})).await.status, 401);
    let unknown =
        rig.http.post(rig.url("/v1/tickets")).bearer_auth(TOKEN).json(&json!({"session": "ses_no"}));
    assert_eq!(answer(unknown).await.status, 404);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_token_ends_the_old_one_its_pages_and_their_tickets() {
    let home = tempfile::tempdir().unwrap();
    let file = TokenFile::open_or_make(home.path()).unwrap();
    let old = file.token().unwrap();
    let rig = Rig::start_with(Options::new(Auth::File(file))).await;
    let with = |token: &str| answer(rig.http.get(rig.url("/v1/sessions")).bearer_auth(token));
    let made = answer(rig.http.post(rig.url("/v1/login-codes")).bearer_auth(old.expose())).await;
    let code = made.body["url"].as_str().unwrap().split_once("#login=").unwrap().1.to_owned();
    let page = rig.post("/v1/login", json!({"code": code})).await.body["token"].as_str().unwrap().to_owned();
    let ticket = answer(rig.http.post(rig.url("/v1/tickets")).bearer_auth(&page)).await;
    let stream = rig.url(&format!("/v1/events?ticket={}", ticket.body["ticket"].as_str().unwrap()));
    assert_eq!(rig.http.get(&stream).send().await.unwrap().status(), 200);
    assert_eq!((with(old.expose()).await.status, with(&page).await.status), (200, 200));
    let of_owner = rig.http.get(rig.url("/v1/events")).bearer_auth(old.expose()).send().await.unwrap();
    let of_ticket = rig.http.get(&stream).send().await.unwrap();
    // A stream that is never silent.
    let post =
        |path: &str, body: Value| answer(rig.http.post(rig.url(path)).bearer_auth(old.expose()).json(&body));
    let made = post("/v1/sessions", json!({"agent": "scripted", "cwd": rig.work()})).await;
    let endless = json!({"do": "text", "text": "word ".repeat(9_000), "chunks": 9_000, "pace_ms": 100});
    let content = json!([{"type": "text", "text": json!({"script": [endless]}).to_string()}]);
    let prompts = format!("/v1/sessions/{}/prompts", made.body["id"].as_str().unwrap());
    assert_eq!(post(&prompts, json!({"content": content})).await.status, 202);
    let of_opencode = rig.http.get(rig.url("/opencode/global/event")).bearer_auth(old.expose());
    let of_opencode = of_opencode.send().await.unwrap();
    let (mut socket, _) =
        connect_async(stream.replace("http://", "ws://").replace("/v1/events", "/v1/ws")).await.unwrap();
    let new = TokenFile::replace(home.path()).unwrap().token().unwrap();
    assert_eq!(with(new.expose()).await.status, 200);
    assert_eq!((with(old.expose()).await.status, with(&page).await.status), (401, 401));
    assert_eq!(rig.http.get(&stream).send().await.unwrap().status(), 401);
    // Streams that are open end too.
    for open in [of_owner, of_ticket] {
        timeout(PATIENCE, open.bytes()).await.expect("it ends").unwrap();
    }
    assert!(timeout(PATIENCE, of_opencode.bytes()).await.expect("it ends").is_err(), "it is cut");
    let closed = async { while let Some(Ok(_)) = socket.next().await {} };
    timeout(PATIENCE, closed).await.expect("it ends");
    std::fs::remove_file(home.path().join("token")).unwrap();
    assert_eq!(with(new.expose()).await.status, 500, "without a token nobody is served");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_can_have_an_address_of_their_own() {
    let metrics_listen = Some("127.0.0.1:0".parse().unwrap());
    let rig = Rig::start_with(Options { metrics_listen, ..with_token() }).await;
    let at = rig.metrics.unwrap();
    let get = |path: &str| rig.http.get(format!("http://{at}{path}")).send();
    let metrics = get("/metrics").await.unwrap();
    assert_eq!(metrics.status(), 200);
    assert!(metrics.text().await.unwrap().contains("turnstream_build_info"));
    for path in ["/v1/sessions", "/v1/health", "/v1/events"] {
        assert_eq!(get(path).await.unwrap().status(), 404, "{path}");
    }
    // A name that leads to this machine, as a page in a browser could use it.
    for (host, status) in [("rebound.example", 403), ("localhost:1", 200), ("[::1]", 200), ("10.0.0.7", 403)]
    {
        let asked = rig.http.get(format!("http://{at}/metrics")).header("host", host).send().await.unwrap();
        assert_eq!(asked.status(), status, "{host}");
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_others_reach_needs_a_strong_token() {
    let home = tempfile::tempdir().unwrap();
    let gateway = Gateway::open(home.path(), Settings::default(), BTreeMap::new()).await.unwrap();
    let address = "0.0.0.0:0".parse().unwrap();
    let refused = Server::bind(address, gateway.clone(), options()).await.err().unwrap();
    assert!(matches!(refused, ListenError::Open(_)), "{refused}");
    let public_url = Some("https://agents.example".parse().unwrap());
    let proxied = Options { public_url, ..options() };
    let refused = Server::bind("127.0.0.1:0".parse().unwrap(), gateway.clone(), proxied).await.err().unwrap();
    assert!(matches!(refused, ListenError::OpenProxy(_)), "{refused}");
    let weak = Options::new(Auth::Token(Token::new("change-me").unwrap()));
    let refused = Server::bind(address, gateway.clone(), weak).await.err().unwrap();
    assert!(matches!(refused, ListenError::WeakToken(_)), "{refused}");
    let server = Server::bind(address, gateway.clone(), with_token()).await.unwrap();
    let taken = Server::bind(server.address(), gateway.clone(), with_token()).await.err().unwrap();
    assert!(taken.to_string().contains("another program uses it"), "{taken}");
    drop(server);
    gateway.close().await;
}
