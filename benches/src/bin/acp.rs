//! `turnstream acp` over a long answer: updates per second from the gateway's socket to the editor's pipe.
//!
//! The gateway is a stand-in that writes a prepared log, so that only the agent side is measured: HTTP, SSE,
//! decoding of events, encoding as ACP, and the pipe.

use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use turnstream_acp_agent::{DefaultAgent, McpServers, Options};
use turnstream_client::Client;
use turnstream_model::cursor::Generation;
use turnstream_model::event::Event;
use turnstream_model::fold::{Fold, Snapshot};

/// The allocator of the shipped binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DELTAS: u64 = 200_000;
const ROUNDS: usize = 5;
/// The least updates per second.
const WANTED: f64 = 300_000.0;
/// The size of the editor's pipe.
const PIPE: usize = 64 * 1024;
const CREATED: &str =
    r#"{"seq":1,"time":1,"type":"session.created","session":"ses_1","agent":"demo","cwd":"/srv"}"#;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let measured = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        let round = |_| runtime.block_on(round());
        (0..ROUNDS).map(round).collect::<Result<Vec<f64>, String>>()
    });
    let rates = match measured {
        Ok(rates) => rates,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let best = rates.iter().copied().fold(f64::MIN, f64::max);
    println!("turnstream acp: updates per second, best of {ROUNDS} rounds of {DELTAS} deltas");
    println!("{best:>12.0}");
    let is_fast = best >= WANTED;
    println!("at least {WANTED:.0}: {}", if is_fast { "yes" } else { "NO" });
    if is_fast { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Updates per second of one turn.
async fn round() -> Result<f64, String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let (prompted, key) = watch::channel(None);
    let prompted = Arc::new(prompted);
    let gateway = tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (prompted, key) = (Arc::clone(&prompted), key.clone());
            tokio::spawn(async move {
                if let Err(error) = answer(socket, &prompted, key).await {
                    eprintln!("the gateway of this benchmark: {error}");
                }
            });
        }
    });
    let client = Client::new(&format!("http://{address}"), None).map_err(|error| error.to_string())?;
    let options = Options {
        agent: DefaultAgent::Named("demo".to_owned()),
        permissions: "ask",
        mcp: McpServers::PassOn,
        patience: Duration::from_secs(60),
        version: "0",
    };
    let (mut input, agent_input) = tokio::io::duplex(PIPE);
    let (agent_output, output) = tokio::io::duplex(PIPE);
    let agent = tokio::spawn(turnstream_acp_agent::serve(client, options, agent_input, agent_output));
    let mut lines = BufReader::with_capacity(PIPE, output);
    let new = json!({"cwd": "/srv", "mcpServers": []});
    let text = json!([{"type": "text", "text": "Go"}]);
    let requests = [
        ("initialize", json!({"protocolVersion": 1})),
        ("session/new", new),
        ("session/prompt", json!({"sessionId": "ses_1", "prompt": text})),
    ];
    let mut begun = Instant::now();
    let (mut updates, mut line) = (0_u64, Vec::new());
    for (id, (method, params)) in requests.into_iter().enumerate() {
        begun = Instant::now();
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        input.write_all(format!("{request}\n").as_bytes()).await.map_err(|error| error.to_string())?;
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
        loop {
            line.clear();
            let read = lines.read_until(b'\n', &mut line).await.map_err(|error| error.to_string())?;
            if read == 0 {
                return Err(format!("the agent ended before it answered {method}"));
            }
            if line.starts_with(answer.as_bytes()) {
                break;
            }
            updates += 1;
        }
    }
    let elapsed = begun.elapsed();
    drop(input);
    gateway.abort();
    agent.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    if updates < DELTAS {
        return Err(format!("{updates} updates came of {DELTAS}"));
    }
    Ok(updates as f64 / elapsed.as_secs_f64())
}

/// One request, as a gateway would answer it.
async fn answer(
    mut socket: TcpStream,
    prompted: &watch::Sender<Option<String>>,
    mut key: watch::Receiver<Option<String>>,
) -> std::io::Result<()> {
    let (path, body) = request(&mut socket).await?;
    let answer = match path.split(['?', ' ']).next().unwrap_or_default() {
        "/v1/sessions" | "/v1/sessions/ses_1" => json!({"id": "ses_1", "head": 1}),
        "/v1/sessions/ses_1/snapshot" => snapshot(),
        "/v1/agents" => json!({"agents": []}),
        "/v1/sessions/ses_1/prompts" => {
            prompted.send_replace(body["key"].as_str().map(str::to_owned));
            json!({"prompt": "p1", "position": 0})
        }
        _ => {
            socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").await?;
            let first = r#"{"type":"stream","outcome":"caught_up","generation":"g1","head":1}"#;
            socket.write_all(format!("data: {first}\n\n").as_bytes()).await?;
            let key = key.wait_for(Option::is_some).await.map_err(std::io::Error::other)?.clone();
            socket.write_all(&log(&key.unwrap_or_default())).await?;
            // The stream stays open until the client leaves.
            return socket.read_u8().await.map(drop).or(Ok(()));
        }
    };
    let body = answer.to_string();
    let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    socket.write_all((head + &body).as_bytes()).await
}

/// The target of a request, and its body.
async fn request(socket: &mut TcpStream) -> std::io::Result<(String, Value)> {
    let mut reader = BufReader::new(socket);
    let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first).await?;
    loop {
        line.clear();
        if reader.read_line(&mut line).await? <= 2 {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().map_err(std::io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await?;
    let target = first.split(' ').nth(1).unwrap_or_default().to_owned();
    Ok((target, serde_json::from_slice(&body).unwrap_or_default()))
}

fn snapshot() -> Value {
    let state = Fold::of(Event::from_json(CREATED).iter()).into_state();
    let generation = Generation::new("g1").ok();
    let snapshot = generation.map(|generation| Snapshot { generation, state });
    serde_json::to_value(snapshot).unwrap_or_default()
}

/// A turn of one long answer, as a gateway streams it.
fn log(key: &str) -> Vec<u8> {
    let head = [
        format!(r#""type":"prompt.accepted","prompt":"p1","key":"{key}","content":[]"#),
        r#""type":"turn.started","turn":"t1","origin":"prompt","prompts":["p1"]"#.to_owned(),
        r#""type":"prompt.taken","turn":"t1","prompt":"p1""#.to_owned(),
        r#""type":"item.started","turn":"t1","item":"i1","kind":"message","role":"assistant""#.to_owned(),
    ];
    let delta = r#""type":"item.delta","turn":"t1","item":"i1","text":"a few words ""#.to_owned();
    let tail = [
        r#""type":"item.ended","turn":"t1","item":"i1","state":"completed""#.to_owned(),
        r#""type":"turn.ended","turn":"t1","outcome":"completed","stop_reason":"end_turn""#.to_owned(),
    ];
    let deltas = std::iter::repeat_n(delta, DELTAS as usize);
    let mut out = Vec::new();
    for (seq, event) in head.into_iter().chain(deltas).chain(tail).enumerate() {
        let seq = seq + 2;
        let kind = event.split('"').nth(3).unwrap_or_default();
        let frame = format!("id: g1:{seq}\nevent: {kind}\ndata: {{\"seq\":{seq},\"time\":2,{event}}}\n\n");
        out.extend_from_slice(frame.as_bytes());
    }
    out
}
