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

/// An agent whose turn has these tool calls.
async fn with_tools(home: &Home, tools: impl Fn() -> Vec<Tool> + Copy + Send + Sync + 'static) -> Gateway {
    stage(home, false, move |_, mut commands, observer| async move {
        while let Some(command) = commands.recv().await {
            let Command::Prompt { native_id, .. } = command else { continue };
            began(&observer, "n1", &[&native_id]).await;
            for (index, tool) in tools().into_iter().enumerate() {
                let key = Key::from(format!("call-{index}"));
                let _ = observer.signal(Signal::ToolSeen { key, parent: None, tool }).await;
            }
            let _ = observer.signal(done("n1")).await;
        }
    })
    .await
}

/// An agent whose turn has tool calls with outputs of these sizes.
async fn with_outputs(home: &Home, sizes: &'static [usize]) -> Gateway {
    let tool = |bytes: &usize| Tool { output: Some(json!("x".repeat(*bytes))), ..ended_tool() };
    with_tools(home, move || sizes.iter().map(tool).collect()).await
}

fn ended_tool() -> Tool {
    Tool { name: Some("read".to_owned()), status: Some(ToolStatus::Completed), ..Tool::default() }
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
    // On a loaded machine a commit of this size may be slow.
    let warned = capture.at_least(Level::WARN).into_iter().filter(|line| line.message != "slow commit");
    assert_eq!(warned.collect::<Vec<_>>(), []);
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
    let notices = budget_notices(&home, &id).await;
    assert!(!notices.is_empty() && notices.iter().all(|notice| notice.contains("too large")), "{notices:?}");
}

// None of the texts is long enough to be cut, and together they are more than one append may hold.
#[tokio::test]
async fn a_list_that_is_too_large_for_the_log_keeps_its_beginning_and_the_session_says_so() {
    const VALUES: usize = 70_000;
    let home = Home::new();
    let content = || Some(vec![json!({"type": "text", "text": "x".repeat(1000)}); VALUES]);
    let gateway = with_tools(&home, move || vec![Tool { content: content(), ..ended_tool() }]).await;
    let (id, snapshot) = played(&gateway, &home).await;
    let kept = snapshot.state.items[0].tool.as_ref().unwrap().content.as_ref().unwrap().len();
    assert!((1_000..VALUES / 2).contains(&kept), "{kept}");
    home.close(gateway).await;
    let notices = budget_notices(&home, &id).await;
    let left_out = format!("{} values of its lists were left out", VALUES - kept);
    assert!(notices.iter().any(|notice| notice.contains(&left_out)), "{notices:?}");
}

async fn budget_notices(home: &Home, id: &SessionId) -> Vec<String> {
    let lines = lines(home, id).await.into_iter();
    let notices = lines.filter(|line| line.contains(r#""type":"notice""#));
    notices.filter(|line| line.contains(r#""code":"budget""#)).collect()
}
