//! Who is served at all.

use crate::support::{Rig, answer, raw};
use std::collections::BTreeMap;
use turnstream_gateway::{Gateway, Settings};
use turnstream_server::{ListenError, Options, Server, Token};

fn request(host: &str, more: &str) -> String {
    format!("GET /v1/health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_host_or_page_is_refused_before_any_route() {
    let rig = Rig::start().await;
    let port = rig.address.port();
    for host in [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        let told = raw(rig.address, &request(&host, "Origin: http://localhost:3000\r\n")).await;
        assert!(told.starts_with("HTTP/1.1 200 "), "{host}: {told}");
    }
    let told = raw(rig.address, &request(&format!("evil.example:{port}"), "")).await;
    assert!(told.starts_with("HTTP/1.1 403 ") && told.contains("problem:foreign-host"), "{told}");
    let told = raw(rig.address, &request("localhost", "Origin: https://evil.example\r\n")).await;
    assert!(told.starts_with("HTTP/1.1 403 ") && told.contains("problem:foreign-origin"), "{told}");
    let unknown = "GET /nothing HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert!(raw(rig.address, unknown).await.contains("problem:foreign-host"));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_only_who_shows_it_is_served() {
    let token = Token::new("s3cret").unwrap();
    let rig = Rig::start_with(Options { token: Some(token), ..Options::default() }).await;
    let get = || rig.http.get(rig.url("/v1/health"));
    let refused = rig.get("/v1/health").await;
    assert_eq!(refused.status, 401);
    assert_eq!(refused.body["type"], "urn:turnstream:problem:unauthorized");
    assert!(refused.headers["www-authenticate"].to_str().unwrap().contains("Bearer"));
    assert_eq!(answer(get().bearer_auth("s3cret")).await.status, 200);
    assert_eq!(answer(get().basic_auth("anyone", Some("s3cret"))).await.status, 200);
    for wrong in ["s3cre", "s3crets", "S3cret", ""] {
        assert_eq!(answer(get().bearer_auth(wrong)).await.status, 401, "{wrong}");
        assert_eq!(answer(get().basic_auth("s3cret", Some(wrong))).await.status, 401, "{wrong}");
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_others_reach_needs_a_token() {
    let home = tempfile::tempdir().unwrap();
    let gateway = Gateway::open(home.path(), Settings::default(), BTreeMap::new()).await.unwrap();
    let address = "0.0.0.0:0".parse().unwrap();
    let refused = Server::bind(address, gateway.clone(), Options::default()).await.err().unwrap();
    assert!(matches!(refused, ListenError::Open(_)), "{refused}");
    assert!(refused.to_string().contains("TURNSTREAM_TOKEN"), "{refused}");
    let options = Options { token: Some(Token::new("t").unwrap()), ..Options::default() };
    let server = Server::bind(address, gateway.clone(), options.clone()).await.unwrap();
    let taken = Server::bind(server.address(), gateway.clone(), options).await.err().unwrap();
    assert!(taken.to_string().contains("another program uses it"), "{taken}");
    drop(server);
    gateway.close().await;
}
