//! Observations that are large together, or large on their own: the log takes them, and the turn goes on.

use crate::puppet::*;
use crate::support::*;
use serde_json::{Value, json};
use turnstream_agents::Command;
use turnstream_gateway::Gateway;
use turnstream_model::event::{Tool, ToolStatus};
use turnstream_model::fold::Snapshot;
use turnstream_model::id::{Key, SessionId};
use turnstream_model::signal::Signal;
use turnstream_testkit::diagnostics::{Capture, Level};

/// An agent whose turn has tool calls with outputs of these sizes.
async fn with_outputs(home: &Home, sizes: &'static [usize]) -> Gateway {
    stage(home, false, move |_, mut commands, observer| async move {
        while let Some(command) = commands.recv().await {
            let Command::Prompt { native_id, .. } = command else { continue };
            let seen = |(index, bytes): (usize, &usize)| Signal::ToolSeen {
                key: Key::from(format!("call-{index}")),
                parent: None,
                tool: Tool {
                    name: Some("read".to_owned()),
                    status: Some(ToolStatus::Completed),
                    output: Some(json!("x".repeat(*bytes))),
                    ..Tool::default()
                },
            };
            let outputs: Vec<Signal> = sizes.iter().enumerate().map(seen).collect();
            began(&observer, "n1", &[&native_id]).await;
            for output in outputs {
                let _ = observer.signal(output).await;
            }
            let _ = observer.signal(done("n1")).await;
        }
    })
    .await
}

async fn played(gateway: &Gateway, home: &Home) -> (SessionId, Snapshot) {
    let id = session(gateway, home, "puppet").await;
    prompt(gateway, &id, json!([])).await;
    let snapshot = settled(gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["completed end_turn"]);
    (id, snapshot)
}

fn output_lengths(snapshot: &Snapshot) -> Vec<usize> {
    let outputs = snapshot.state.items.iter().filter_map(|item| item.tool.as_ref()?.output.as_ref());
    outputs.filter_map(Value::as_str).map(str::len).collect()
}

// One thread: the agent sends all outputs before the keeper looks, so they are one batch.
#[tokio::test]
async fn many_large_outputs_at_once_become_several_appends() {
    let capture = Capture::start();
    let home = Home::new();
    let gateway = with_outputs(&home, &[9 << 20; 8]).await;
    let (_, snapshot) = played(&gateway, &home).await;
    assert_eq!(output_lengths(&snapshot), vec![9 << 20; 8]);
    home.close(gateway).await;
    assert!(capture.at_least(Level::WARN).is_empty(), "{:#?}", capture.at_least(Level::WARN));
}

#[tokio::test]
async fn an_output_that_is_too_large_for_the_log_is_cut_and_the_session_says_so() {
    let home = Home::new();
    let gateway = with_outputs(&home, &[10, 70 << 20, 20]).await;
    let (id, snapshot) = played(&gateway, &home).await;
    let lengths = output_lengths(&snapshot);
    assert_eq!((lengths[0], lengths[2]), (10, 20));
    assert!((1 << 20..8 << 20).contains(&lengths[1]), "{lengths:?}");
    home.close(gateway).await;
    let lines = lines(&home, &id).await;
    let notices = lines.iter().filter(|line| line.contains(r#""type":"notice""#));
    let notices: Vec<&String> = notices.filter(|line| line.contains(r#""code":"budget""#)).collect();
    assert!(!notices.is_empty() && notices.iter().all(|notice| notice.contains("too large")), "{notices:?}");
}
