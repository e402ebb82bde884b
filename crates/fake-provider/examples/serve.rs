//! Serves a JSON script, so that a person can point an agent at it:
//! `cargo run -p turnstream-fake-provider --example serve -- crates/fake-provider/examples/hello.json 8080`

use std::error::Error;
use std::net::Ipv4Addr;
use std::time::Duration;
use turnstream_fake_provider::{Provider, Script};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: serve SCRIPT.json [PORT]")?;
    let port = arguments.next().map_or(Ok(0), |port| port.parse())?;
    let script = std::fs::read_to_string(&file).map_err(|error| format!("cannot read {file}: {error}"))?;
    let script = Script::from_json(&script).map_err(|error| format!("{file}: {error}"))?;
    let provider = Provider::bind((Ipv4Addr::LOCALHOST, port).into(), script).await?;
    println!("OpenAI base {}, Anthropic base {}", provider.openai_base_url(), provider.base_url());
    let mut shown = 0;
    loop {
        for call in provider.calls().iter().skip(shown) {
            println!("{} {} stream={} {:?}", call.target, call.asked.model, call.asked.stream, call.status);
            shown += 1;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
