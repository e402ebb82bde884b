//! The real agents on `PATH`, without a configuration.

use super::{Lab, of_type};
use crate::support::{ask, install, stderr, stdout, wait_for};
use serde_json::{Value, json};
use std::path::Path;
use turnstream_fake_provider::Step;
use turnstream_testkit::agents::Opencode;

/// The agents of the gateway, by name, once no version is on its way.
fn listed(address: &str) -> Value {
    wait_for(|| {
        let (_, answer) = ask(address, "GET", "/v1/agents", &json!({}));
        let agents = answer["agents"].as_array().unwrap();
        let is_late =
            |agent: &Value| agent["notice"].as_str().is_some_and(|text| text.contains("not known yet"));
        let by_name = agents.iter().map(|agent| (agent["name"].as_str().unwrap().to_owned(), agent.clone()));
        (!agents.iter().any(is_late)).then(|| by_name.collect())
    })
}

/// A script that runs a real agent with variables of its own, which keep it on loopback.
fn wrapper(program: &Path, env: &[(String, String)]) -> String {
    let set = env.iter().map(|(name, value)| format!("export {name}='{value}'\n"));
    format!("{}exec '{}' \"$@\"", set.collect::<String>(), program.display())
}

#[test]
#[cfg(target_os = "linux")]
fn real_agents_on_the_path_are_described_and_the_usable_one_runs_a_turn() {
    let lab = Lab::new([Step::text("It was found.").always()]);
    let opencode = lab.opencode.command().unwrap();
    let claude = opencode.with_file_name("claude");
    let plain = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        (name.into_string().unwrap(), value.into_string().unwrap())
    };
    let env: Vec<(String, String)> = lab.opencode.environment().into_iter().map(plain).collect();
    let opencode = install(&lab.home, "opencode", &wrapper(&opencode, &env));
    let claude = install(&lab.home, "claude", &wrapper(&claude, &[]));
    let serving = lab.home.serve_armed(&[], |command| {
        command.env("PATH", lab.home.path("bin")).env("TURNSTREAM_TIMEOUTS_CONNECT", "5m");
        command.env("TURNSTREAM_TIMEOUTS_START", "5m");
    });
    let agents = listed(&serving.address);
    let told =
        |agent: &Value| ["version", "path", "login", "notice", "problem"].map(|member| agent[member].clone());
    assert_eq!(
        told(&agents["opencode"]),
        [json!("1.18.33"), json!(opencode), json!("unknown"), Value::Null, Value::Null]
    );
    assert_eq!(
        told(&agents["claude"]),
        [
            json!("2.1.197"),
            json!(claude),
            json!("logged_out"),
            Value::Null,
            json!("Claude Code is not logged in; run `claude auth login`")
        ]
    );
    let mut run = lab.home.command(&["run", "Say something", "--permissions", "allow"]);
    let turn = run.output().unwrap();
    assert_eq!((turn.status.code(), stdout(&turn)), (Some(0), "It was found.\n"), "{turn:?}");
    assert!(stderr(&turn).contains(", agent opencode"), "{turn:?}");
    assert_eq!(of_type(&lab.log(), "turn.ended").len(), 1);
    // A server that runs tells its models, on a busy machine not within the time of every list.
    let suffix = format!("/{}", Opencode::MODEL);
    wait_for(|| {
        let agents = listed(&serving.address);
        let models = agents["opencode"]["models"].as_array()?;
        models.iter().find(|model| model["id"].as_str().unwrap().ends_with(&suffix)).map(drop)
    });
}
