//! Requests to the gateway that is soaked.

use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;

/// How long an answer may take before the soak fails. Nothing should come near it.
const PATIENCE: Duration = Duration::from_secs(300);

/// A client of one gateway.
#[derive(Clone)]
pub(super) struct GatewayClient {
    http: reqwest::Client,
    address: SocketAddr,
    token: String,
}

impl GatewayClient {
    pub(super) fn new(address: SocketAddr, token: &str) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().expect("a client without TLS");
        Self { http, address, token: token.to_owned() }
    }

    /// Sends a body, and returns the answer if it has this status.
    pub(super) async fn post(&self, path: &str, body: &Value, status: u16) -> Value {
        let request = self.http.post(self.url(path)).bearer_auth(&self.token).json(body).timeout(PATIENCE);
        let response = request.send().await.unwrap_or_else(|error| panic!("POST {path}: {error:?}"));
        let got = response.status().as_u16();
        let text = response.text().await.unwrap_or_else(|error| panic!("POST {path}: {error:?}"));
        assert_eq!(got, status, "POST {path}: {text}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("POST {path}: {error}: {text}"))
    }

    /// A text that the gateway must have.
    pub(super) async fn text(&self, path: &str) -> String {
        let request = self.http.get(self.url(path)).bearer_auth(&self.token).timeout(PATIENCE);
        let response = request.send().await.unwrap_or_else(|error| panic!("GET {path}: {error:?}"));
        assert_eq!(response.status().as_u16(), 200, "GET {path}");
        response.text().await.unwrap_or_else(|error| panic!("GET {path}: {error:?}"))
    }

    /// A stream that is being read.
    pub(super) async fn stream(&self, path: &str) -> reqwest::Response {
        let request = self.http.get(self.url(path)).bearer_auth(&self.token);
        let response = request.send().await.unwrap_or_else(|error| panic!("GET {path}: {error:?}"));
        assert_eq!(response.status().as_u16(), 200, "GET {path}");
        response
    }

    /// Samples of metrics whose names begin like that.
    pub(super) async fn metrics(&self, beginnings: &[&str]) -> Vec<String> {
        let page = self.text("/metrics").await;
        let is_wanted = |line: &&str| beginnings.iter().any(|begin| line.starts_with(begin));
        page.lines().filter(is_wanted).map(str::to_owned).collect()
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}
