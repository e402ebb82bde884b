//! opencode's API at an address of its own: who is let in, and the web page of another server.

use super::support::{Answer, Rig, Stream, answer, options};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use turnstream_server::{Auth, Options, Token};

const TOKEN: &str = "4f1d0c9b7a6e5d3c2b1a09f8e7d6c5b4";

fn listening(auth: Auth, page: Option<SocketAddr>) -> Options {
    let listen = Some("127.0.0.1:0".parse().unwrap());
    Options { auth, opencode_listen: listen, opencode_ui: page, ..options() }
}

fn with_token() -> Auth {
    Auth::Token(Token::new(TOKEN).unwrap())
}

async fn at(rig: &Rig, path: &str) -> Answer {
    answer(rig.http.get(format!("http://{}{path}", rig.opencode.unwrap()))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_is_the_password_of_basic_or_of_auth_token_in_the_query() {
    let rig = Rig::start_with(listening(with_token(), None)).await;
    let address = rig.opencode.unwrap();
    assert_ne!(address, rig.address);
    let url = format!("http://{address}/session");
    for user in ["opencode", "anybody", ""] {
        let basic = answer(rig.http.get(&url).basic_auth(user, Some(TOKEN))).await;
        assert_eq!((basic.status, basic.body), (200, json!([])), "{user}");
        let pair = BASE64_STANDARD.encode(format!("{user}:{TOKEN}"));
        for pair in [pair.clone(), pair.replace('=', "%3D")] {
            assert_eq!(at(&rig, &format!("/session?auth_token={pair}&limit=3")).await.status, 200, "{pair}");
        }
    }
    let pair = BASE64_STANDARD.encode(format!("opencode:{TOKEN}"));
    // A browser's EventSource cannot send a header.
    let stream = rig.http.get(format!("http://{address}/global/event?auth_token={pair}"));
    let mut stream = Stream::of(stream).await;
    assert_eq!(stream.next().await.json()["payload"]["type"], "server.connected");
    // Below the path of the usual address too, and nowhere else.
    assert_eq!(rig.get(&format!("/opencode/session?auth_token={pair}")).await.status, 200);
    assert_eq!(rig.get(&format!("/v1/sessions?auth_token={pair}")).await.status, 401);
    for wrong in ["/session", "/session?auth_token=", "/session?auth_token=b3BlbmNvZGU6d3Jvbmc=", "/"] {
        let refused = at(&rig, wrong).await;
        assert_eq!(refused.status, 401, "{wrong}");
        // A browser then asks for the password.
        assert_eq!(refused.headers["www-authenticate"].to_str().unwrap(), "Basic realm=\"turnstream\"");
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_has_the_api_without_a_prefix_and_nothing_else() {
    let rig = Rig::start_with(listening(Auth::None, None)).await;
    assert_eq!(at(&rig, "/global/health").await.body["healthy"], true);
    for path in ["/v1/sessions", "/opencode/session", "/", "/assets/a.js"] {
        let nothing = at(&rig, path).await;
        assert_eq!((nothing.status, &nothing.body["name"]), (404, &json!("NotFoundError")), "{path}");
    }
    let wrong = answer(rig.http.put(format!("http://{}/session", rig.opencode.unwrap()))).await;
    let message = "PUT /session is no operation of opencode's API";
    assert_eq!((wrong.status, &wrong.body["data"]["message"]), (405, &json!(message)), "{wrong:?}");
    rig.stop().await;
}

/// Answers a request with its own head, as a page.
async fn echo(mut socket: TcpStream) {
    let (mut head, mut byte) = (String::new(), [0]);
    while !head.ends_with("\r\n\r\n") {
        socket.read_exact(&mut byte).await.unwrap();
        head.push(char::from(byte[0]));
    }
    let length = head.len();
    let page = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\nContent-Length: {length}\r\n\r\n{head}"
    );
    socket.write_all(page.as_bytes()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_web_page_comes_from_another_server_which_never_sees_the_token() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let page = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(echo(socket));
        }
    });
    let rig = Rig::start_with(listening(with_token(), Some(page))).await;
    let url = format!("http://{}", rig.opencode.unwrap());
    let get = |path: &str| rig.http.get(format!("{url}{path}")).basic_auth("me", Some(TOKEN));
    let shown = get("/").header("cookie", "c=d").send().await.unwrap();
    assert_eq!(
        (shown.status().as_u16(), &shown.headers()["content-type"]),
        (200, &"text/html".parse().unwrap())
    );
    assert!(shown.headers()["content-security-policy"].to_str().unwrap().contains("'self'"));
    assert!(!shown.headers().contains_key("set-cookie"));
    let asked = shown.text().await.unwrap().to_lowercase();
    assert!(asked.starts_with("get / http/1.1"), "{asked}");
    assert!(!asked.contains("authorization") && !asked.contains("cookie"), "{asked}");
    // The API stays here, and nothing is written there.
    assert_eq!(answer(get("/session")).await.body, json!([]));
    let written = rig.http.post(format!("{url}/elsewhere")).basic_auth("me", Some(TOKEN));
    assert_eq!(answer(written).await.status, 404);
    assert_eq!(rig.http.get(&url).send().await.unwrap().status().as_u16(), 401);
    serving.abort();
    assert!(serving.await.unwrap_err().is_cancelled(), "nobody listens any more");
    let gone = answer(get("/")).await;
    assert_eq!(gone.status, 502);
    assert!(gone.body["data"]["message"].as_str().unwrap().contains("opencode_ui"), "{gone:?}");
    rig.stop().await;
}
