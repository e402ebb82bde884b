//! The providers' own client libraries (npm `openai` and `@anthropic-ai/sdk`) read recordings through the
//! proxy as they read the originals: equal objects.

use crate::harness::{FORMATS, Gateway, route_to};
use crate::providers;
use crate::recordings::{directory, read};
use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use turnstream_llm::{Format, Profile, Repair, StreamEnd};
use turnstream_provider::Route;
use turnstream_proxy::Limits;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/official/read.mjs");
const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/agents");

/// One answer, and what the proxy may do with it.
struct Recording {
    name: String,
    format: Format,
    profile: &'static Profile,
    body: Bytes,
}

/// The fixtures of this repository, and the recordings if they are there.
fn recordings() -> Vec<Recording> {
    let mut all = Vec::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/llm");
    for (format, _) in FORMATS {
        let Ok(entries) = std::fs::read_dir(fixtures.join(format.name())) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let (name, body) = (path.display().to_string(), std::fs::read(&path).unwrap().into());
            all.push(Recording { name, format, profile: Route::default_profile(format), body });
        }
    }
    let Some(directory) = directory() else { return all };
    let index = std::fs::read_to_string(directory.join("INDEX.tsv")).unwrap();
    for line in index.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let (format, _) = FORMATS.into_iter().find(|(format, _)| format.name() == fields[0]).unwrap();
        let body = std::fs::read(directory.join(fields[0]).join(fields[1])).unwrap().into();
        let name = format!("{}/{}", fields[0], fields[1]);
        all.push(Recording { name, format, profile: providers::profile(fields[2]), body });
    }
    all
}

/// A provider that answers with the recording whose number is the model of the request.
async fn provider(bodies: Vec<Bytes>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let bodies = Arc::new(bodies);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let bodies = bodies.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let bodies = bodies.clone();
                async move {
                    let asked = request.into_body().collect().await.unwrap().to_bytes();
                    let asked: Value = serde_json::from_slice(&asked).unwrap();
                    let number: usize = asked["model"].as_str().unwrap().parse().unwrap();
                    let response = Response::builder().header("content-type", "text/event-stream");
                    let response = response.body(Body::from(bodies[number].clone())).unwrap();
                    Ok::<_, Infallible>(response)
                }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(socket), service));
        }
    });
    address
}

/// What the libraries read, by name.
async fn read_by_clients(jobs: &[Value]) -> BTreeMap<String, Value> {
    let agents =
        std::env::var_os("TURNSTREAM_AGENTS").map_or_else(|| PathBuf::from(INSTALLED), PathBuf::from);
    let clients = agents.join("clients");
    assert!(clients.join("node_modules/openai").exists(), "`cargo xtask agents` installs the libraries");
    let mut node = tokio::process::Command::new("node");
    node.arg(SCRIPT).arg(&clients).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut node = node.spawn().unwrap();
    let mut stdin = node.stdin.take().unwrap();
    let lines: String = jobs.iter().map(|job| format!("{job}\n")).collect();
    tokio::spawn(async move {
        stdin.write_all(lines.as_bytes()).await.unwrap();
    });
    let output = node.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{}", output.status);
    let results = String::from_utf8(output.stdout).unwrap();
    let results = results.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    results.map(|result| (result["name"].as_str().unwrap().to_owned(), result)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn official_clients_read_the_same_objects_through_the_proxy() {
    let recordings = recordings();
    let provider = provider(recordings.iter().map(|recording| recording.body.clone()).collect()).await;
    // A route for each format and profile.
    let mut routes: BTreeMap<String, Route> = BTreeMap::new();
    let mut names = Vec::new();
    for Recording { format, profile, .. } in &recordings {
        let name = format!("{}-{}", format.name(), profile.name);
        names.push(name.clone());
        routes.entry(name.clone()).or_insert_with(|| Route {
            name,
            attempts: 1,
            profile: (*profile).clone(),
            ..route_to(*format, provider)
        });
    }
    let gateway = Gateway::start(routes.into_values(), Limits::default()).await;
    let job = |(number, (recording, route)): (usize, (&Recording, &String))| {
        let version = if recording.format == Format::Messages { "" } else { "/v1" };
        json!({"name": recording.name, "format": recording.format.name(), "model": number.to_string(),
            "direct": format!("http://{provider}{version}"),
            "proxied": format!("http://{}/llm/{route}{version}", gateway.address)})
    };
    let jobs: Vec<Value> = recordings.iter().zip(&names).enumerate().map(job).collect();
    let results = read_by_clients(&jobs).await;
    let (mut equal, mut mended, mut shortened, mut refused) = (0, 0, 0, 0);
    let mut problems = Vec::new();
    for Recording { name, format, profile, body } in &recordings {
        let result = &results[name];
        let (outcome, is_tainted) = read(*format, profile, body);
        let is_sound = outcome.ended == StreamEnd::Complete && outcome.withheld.is_empty() && !is_tainted;
        let has_run_together =
            outcome.repairs.of(Repair::MissingBlankLine) + outcome.repairs.of(Repair::NotANumber) > 0;
        let ours_is_whole = result["ours"]["error"].is_null();
        if is_sound && result["equal"] == true {
            equal += 1;
        } else if is_sound && has_run_together && ours_is_whole && result["original"]["error"].is_string() {
            // The library cannot read the original, and can read ours.
            mended += 1;
        } else if is_sound && outcome.ignored_from.is_some() && result["prefix"] == true && ours_is_whole {
            // The original has a second answer after the end.
            shortened += 1;
        } else if !is_sound && !ours_is_whole {
            refused += 1;
        } else {
            problems.push(format!("{name} ({:?}): {result}", outcome.ended));
        }
    }
    println!("equal {equal}, mended {mended}, without a second answer {shortened}, refused {refused}");
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    assert!(equal * 10 > recordings.len() * 9, "{equal} of {}", recordings.len());
}
