//! An ACP agent on stdio that sends the events of its prompt: `{"events":1000,"bytes":100,"rate":100}`.
//!
//! Without `rate` it sends at full speed. Each event is one write, as an agent flushes each message.

use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};
use turnstream_benches::gateway::Load;
use turnstream_benches::gateway::stamp::{Stamp, now};

const SESSION: &str = "session-1";

#[derive(Deserialize)]
struct Request {
    id: Option<Value>,
    #[serde(default)]
    method: String,
    #[serde(default)]
    params: Value,
}

fn main() -> std::io::Result<()> {
    let mut out = std::fs::File::from(std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned()?);
    for line in std::io::stdin().lock().lines() {
        let Ok(request) = serde_json::from_str::<Request>(&line?) else { continue };
        // Notifications need no answer.
        let Some(id) = request.id else { continue };
        let answer = match answer(&request.method, &request.params, &mut out) {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(message) => {
                json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32602, "message": message } })
            }
        };
        out.write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(())
}

fn answer(method: &str, params: &Value, out: &mut impl Write) -> Result<Value, String> {
    match method {
        "initialize" => Ok(json!({
            "protocolVersion": 1,
            "agentCapabilities": { "loadSession": false },
            "authMethods": [],
        })),
        "session/new" => Ok(json!({ "sessionId": SESSION })),
        "session/prompt" => {
            let text = params["prompt"][0]["text"].as_str().unwrap_or_default();
            let load: Load =
                serde_json::from_str(text).map_err(|error| format!("prompt {text:?}: {error}"))?;
            play(&load, out).map_err(|error| format!("stdout: {error}"))?;
            Ok(json!({ "stopReason": "end_turn" }))
        }
        other => Err(format!("no method {other:?}")),
    }
}

fn play(load: &Load, out: &mut impl Write) -> std::io::Result<()> {
    let update = json!({
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": { "sessionId": SESSION, "update": {
            "sessionUpdate": "agent_message_chunk",
            "content": { "type": "text", "text": "STAMP" },
        } },
    });
    let update = update.to_string();
    let (before, after) = update.split_once("STAMP").expect("it was put there");
    let start = Instant::now();
    let mut line = Vec::new();
    for number in 0..load.events {
        if let Some(rate) = load.rate {
            let due = Duration::from_secs_f64(number as f64 / rate as f64);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
        line.clear();
        line.extend_from_slice(before.as_bytes());
        Stamp { number, micros: now() }.write(load.bytes, &mut line);
        line.extend_from_slice(after.as_bytes());
        line.push(b'\n');
        out.write_all(&line)?;
    }
    Ok(())
}
