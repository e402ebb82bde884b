//! Sends one message to a running `opencode serve` and prints the answer as Agent Client Protocol messages,
//! one JSON a line.
//!
//! ```text
//! OPENCODE_SERVER_PASSWORD=secret opencode serve --port 4096 &
//! OPENCODE_SERVER_PASSWORD=secret cargo run -p turnstream-agents --example opencode -- "Say hello"
//! ```
//!
//! `OPENCODE_URL` names another address, `OPENCODE_SESSION` a session to go on with.

use std::error::Error;
use turnstream_model::event::Permissions;
use turnstream_opencode_client::{
    Client, ClientInfo, Configured, Directory, FromEnv, Timeouts, TurnSettings,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let text = std::env::args().nth(1).unwrap_or_else(|| "Say hello".to_owned());
    let url = std::env::var("OPENCODE_URL").unwrap_or_else(|_| "http://127.0.0.1:4096".to_owned());
    let password = match std::env::var_os("OPENCODE_SERVER_PASSWORD") {
        Some(_) => Configured::Env(FromEnv::new("OPENCODE_SERVER_PASSWORD")),
        None => Configured::Nothing,
    };
    let client = Client::new(&url, password, Timeouts::default(), ClientInfo::default())?;
    eprintln!("opencode {} at {}", client.health_check().await?.version, client.base_url());

    let cwd = Directory::new(std::env::current_dir()?)?;
    let known = std::env::var("OPENCODE_SESSION").ok();
    let session = client.ensure_session(known.as_deref(), &cwd, None).await?.at;
    eprintln!("session {} in {cwd}", session.id);

    // Nobody is here to answer, so what opencode asks for is refused.
    let settings = TurnSettings { permissions: Permissions::Deny, ..TurnSettings::default() };
    let mut turn = client.send_message(&session, &text, settings);
    while let Some(event) = turn.next().await {
        println!("{}", event.to_json(&session.id));
    }
    Ok(())
}
