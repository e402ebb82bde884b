//! A command that was started for an agent ends with it, also when the owner was killed and the command has
//! cleared its environment.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;
use turnstream_agent_process::{Output, ProcessSpec, Record, StdioProcess, end};
use turnstream_redact::Rules;

async fn agent(home: &Path) -> StdioProcess<()> {
    let spec = ProcessSpec {
        kind: "The program",
        name: "test".to_owned(),
        command: "/bin/sh".into(),
        cwd: home.to_owned(),
        env: Vec::new(),
        exit_status: None,
    };
    let output = Output::new(home.join("printed.log"), Rules::default());
    let arguments = ["-c".to_owned(), "read line".to_owned()];
    StdioProcess::start(&spec, &arguments, (), &home.join("record.json"), output).await.unwrap()
}

/// Without the mark of the agent.
fn terminal() -> Child {
    Command::new("sleep").arg("3600").env_clear().process_group(0).spawn().unwrap()
}

#[tokio::test]
async fn the_next_owner_ends_it_by_the_record() {
    let home = tempfile::tempdir().unwrap();
    let mut process = agent(home.path()).await;
    let (mut noted, mut stranger) = (terminal(), terminal());
    process.add_other(noted.id()).unwrap();
    // What the next owner finds after a kill of this one.
    let record = Record::<()>::read(&home.path().join("record.json")).unwrap().unwrap();
    end(&record, Duration::from_millis(200)).await.unwrap();
    noted.wait().unwrap();
    assert!(stranger.try_wait().unwrap().is_none(), "it belongs to nobody");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    drop(process);
}

#[tokio::test]
async fn it_ends_with_the_agent() {
    let home = tempfile::tempdir().unwrap();
    let mut process = agent(home.path()).await;
    let mut noted = terminal();
    process.add_other(noted.id()).unwrap();
    process.stop().await.unwrap();
    noted.wait().unwrap();
    assert!(!home.path().join("record.json").exists());
}
