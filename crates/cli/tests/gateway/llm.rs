//! The proxy for model providers, with the real program: who gets in, what is recorded, what is counted.

use crate::support::{Home, PATIENCE, read, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use turnstream_fake_provider::{Provider, Refusal, Script, Step};

const KEY: &str = "sk-Kartoffel7-of-the-gateway-0123456789";
const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Asks the proxy for a stream. Returns the status and the text.
async fn ask(url: &str, header: Option<(&str, &str)>) -> (u16, String) {
    let body: Value = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "go"}]});
    let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(300)).build().unwrap();
    let request = client.post(url).json(&body);
    let request = header.into_iter().fold(request, |request, (name, value)| request.header(name, value));
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_needs_a_token_or_its_secret_and_keys_are_nowhere() {
    let refusal = Refusal::new(500, "server_error", &format!("bad {KEY}"));
    let script = Script::new([Step::new(refusal), Step::text("a whole answer").always()]);
    let provider = Provider::start(script).await.unwrap();
    let home = Home::new();
    let url = provider.openai_base_url();
    let file = format!(
        "[llm.routes.main]\nurl = \"{url}\"\nformat = \"chat\"\nkey_env = \"PROVIDER_KEY\"\n\
         [llm.routes.own]\nurl = \"{url}\"\nformat = \"chat\"\npass_keys = true\nsecret_env = \"ROUTE_SECRET\"\n"
    );
    let config = home.path("t.toml");
    std::fs::write(&config, file).unwrap();
    let config = config.to_str().unwrap();
    let serving = home.serve_armed(&["--config", config], |command| {
        command.env("PROVIDER_KEY", KEY).env("ROUTE_SECRET", SECRET).env("RUST_LOG", "debug");
    });
    let base = format!("http://{}/llm", serving.address);
    let (token, main) = (serving.token(), format!("{base}/main/v1/chat/completions"));
    let bearer = format!("Bearer {token}");

    assert_eq!(ask(&main, None).await.0, 401);
    assert_eq!(ask(&main, Some(("authorization", "Bearer wrong"))).await.0, 401);
    assert_eq!(ask(&main, Some(("x-api-key", "wrong"))).await.0, 401);
    for secret in ["wrong", "", "chat"] {
        let (status, text) =
            ask(&format!("{base}/own/{secret}/chat/completions"), Some(("authorization", &bearer))).await;
        assert_eq!(status, 401, "{secret}: {text}");
    }
    assert_eq!(provider.calls().len(), 0);

    let (status, text) = ask(&main, Some(("authorization", &bearer))).await;
    assert!(status == 200 && text.ends_with("data: [DONE]\n\n"), "{text}");
    assert_eq!(ask(&main, Some(("x-api-key", &token))).await.0, 200);
    assert_eq!(provider.calls().len(), 3);
    assert!(
        provider.calls().iter().all(|call| call.header("authorization") == Some(&format!("Bearer {KEY}")))
    );
    let own = format!("{base}/own/{SECRET}/chat/completions");
    assert_eq!(ask(&own, Some(("authorization", "Bearer client-key-0123456789"))).await.0, 200);
    assert_eq!(provider.calls()[3].header("authorization"), Some("Bearer client-key-0123456789"));

    // A request is counted and recorded a moment after its last byte.
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let samples = [
        "turnstream_llm_requests_total{route=\"main\",outcome=\"complete\"} 2",
        "turnstream_llm_attempts_total{route=\"main\"} 3",
        "turnstream_llm_attempts_total{route=\"own\"} 1",
    ];
    let begun = Instant::now();
    loop {
        let metrics = client.get(format!("http://{}/metrics", serving.address));
        let metrics = metrics.header("authorization", &bearer).send().await.unwrap().text().await.unwrap();
        if samples.iter().all(|sample| metrics.contains(sample)) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{samples:?} in {metrics}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The ledger is read while the gateway has it open, and after.
    wait_for(|| {
        let rows = home.run(&["inspect", "--attempts", "llm/main", "--json"]);
        (stdout(&rows).lines().count() == 3).then_some(())
    });
    let ended = serving.end(Signal::TERM);
    assert!(ended.0.success(), "{ended:?}");
    let rows = home.run(&["inspect", "--attempts", "llm/main"]);
    let logged =
        format!("{}{}{}", read(&home.path("serve.err")), stdout(&rows), read(&home.path("serve.out")));
    for secret in ["Kartoffel7", SECRET, "client-key-0123456789"] {
        assert!(!logged.contains(secret), "{secret} in {logged}");
    }
}
