//! opencode's API: keys of providers are used, and never told.

use super::support::Rig;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use turnstream_agents::builtin::{Builtin, BuiltinConfig};
use turnstream_llm::client::{Client, Environment, Settings};
use turnstream_llm::wait::SystemClock;
use turnstream_llm::{Format, Profile};
use turnstream_log::Attempts;
use turnstream_provider::{Access, KeySource, Route};
use turnstream_redact::Rules;

const KEY: &str = "sk-lab-0123456789abcdef0123456789abcdef";

/// A provider that lists one model, and passes on the requests that it gets.
async fn provider(requests: mpsc::UnboundedSender<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(client.read_u8().await.unwrap());
            }
            let _ = requests.send(String::from_utf8(request).unwrap());
            let body = r#"{"object":"list","data":[{"id":"listed-model","object":"model"}]}"#;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            client.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    url
}

fn builtin(url: String, state: &std::path::Path) -> Builtin {
    let key = state.join("key");
    std::fs::write(&key, KEY).unwrap();
    let attempts = Attempts::open(&state.join("attempts")).unwrap();
    let environment = Environment {
        ledger: Arc::new(attempts.clone()),
        waits: Arc::new(attempts.clone()),
        clock: Arc::new(SystemClock),
        redact: Arc::new(Rules::standard()),
    };
    let route = Route {
        name: "main".to_owned(),
        url,
        format: Format::Chat,
        profile: Profile::UNKNOWN,
        access: Access::Configured(KeySource::File(key)),
        model: None,
        fallback: Vec::new(),
        attempts: Route::ATTEMPTS,
        first_event: Route::FIRST_EVENT,
        silence: Route::SILENCE,
        longest_wait: Route::LONGEST_WAIT,
        reattach: Route::REATTACH,
    };
    let config = BuiltinConfig {
        route: Arc::new(route),
        client: Client::new(Settings::default(), environment).unwrap(),
        ledger: Arc::new(attempts),
        state: state.join("journals"),
        secrets: Rules::standard(),
        env: vec![("LAB_API_KEY".into(), KEY.into())],
        most_steps: None,
        most_output: None,
        discovered: false,
    };
    Builtin::new("keyed", config)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_configured_key_is_in_the_lists_of_providers_or_in_the_configuration() {
    let (sender, mut requests) = mpsc::unbounded_channel();
    let state = tempfile::tempdir().unwrap();
    let agent = builtin(provider(sender).await, state.path());
    let rig = Rig::start_with_agent("keyed", Arc::new(agent)).await;
    let all = ["provider", "config/providers", "config", "global/config", "agent", "provider/auth"];
    for path in all {
        let answer = rig.get(&format!("/opencode/{path}")).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert!(!answer.body.to_string().contains(KEY), "{path}: {answer:?}");
        assert!(!format!("{:?}", answer.headers).contains(KEY), "{path}: {answer:?}");
    }
    // The key is configured, and was used: the list of models came with it.
    assert!(requests.recv().await.unwrap().contains(KEY));
    let providers = rig.get("/opencode/provider").await.body;
    let keyed = providers["all"].as_array().unwrap().iter().find(|one| one["id"] == "keyed").unwrap();
    assert!(keyed["models"]["listed-model"].is_object(), "{keyed}");
    rig.stop().await;
}
