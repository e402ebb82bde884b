//! Agents that cannot be reached for a while, although their link is up: prompts wait for them.

use crate::puppet::*;
use crate::support::*;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Receiver;
use tokio::sync::watch;
use turnstream_agents::{Command, Observed, Observer};
use turnstream_gateway::Gateway;
use turnstream_model::event::SessionPatch;
use turnstream_model::fold::{PromptStage, Snapshot};
use turnstream_model::id::SessionId;
use turnstream_model::signal::Signal;

const HEARD: &str = "heard";

/// Runs every prompt, and says whether it is away when the test does.
async fn work(mut is_away: watch::Receiver<bool>, mut commands: Receiver<Command>, observer: Observer) {
    let mut turns = 0;
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(Command::Prompt { native_id, .. }) => {
                    turns += 1;
                    let name = format!("n{turns}");
                    began(&observer, &name, &[&native_id]).await;
                    says(&observer, &format!("k{turns}")).await;
                    let _ = observer.signal(done(&name)).await;
                }
                Some(_) => {}
                None => return,
            },
            Ok(()) = is_away.changed() => {
                let now = *is_away.borrow_and_update();
                say_whether(now, &observer).await;
            }
        }
    }
}

/// A title behind it shows that it was heard.
async fn say_whether(is_away: bool, observer: &Observer) {
    let observed = if is_away { Observed::Away("it restarts".to_owned()) } else { Observed::Back };
    let _ = observer.observed(observed).await;
    let patch = SessionPatch { title: Some(HEARD.to_owned()), ..SessionPatch::default() };
    let _ = observer.signal(Signal::Session(patch)).await;
}

/// A session with one turn, whose agent is away.
async fn away(home: &Home) -> (Gateway, SessionId, watch::Sender<bool>) {
    let (sender, is_away) = watch::channel(false);
    let gateway =
        stage(home, false, move |_, commands, observer| work(is_away.clone(), commands, observer)).await;
    let id = session(&gateway, home, "puppet").await;
    prompt(&gateway, &id, json!([])).await;
    settled(&gateway, &id, 1).await;
    sender.send_replace(true);
    heard(&gateway, &id).await;
    (gateway, id, sender)
}

async fn heard(gateway: &Gateway, id: &SessionId) {
    let is_heard = |snapshot: &Snapshot| snapshot.state.session.title.as_deref() == Some(HEARD);
    until(gateway, id, "the title", is_heard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_waits_for_an_agent_that_is_away_and_is_sent_when_it_is_back() {
    let home = Home::new();
    let (gateway, id, is_away) = away(&home).await;
    let waiting = prompt(&gateway, &id, json!([])).await;
    // What the keeper does after it has taken a prompt it has done when it answers the next request.
    let withdrawn = prompt(&gateway, &id, json!([])).await;
    gateway.withdraw(&id, &withdrawn).await.unwrap();
    let snapshot = gateway.snapshot(&id).await.unwrap();
    let queue: Vec<_> = snapshot.state.queue.iter().map(|prompt| (&prompt.prompt, prompt.state)).collect();
    assert_eq!(queue, [(&waiting, PromptStage::Waiting)]);
    is_away.send_replace(false);
    let snapshot = settled(&gateway, &id, 2).await;
    assert_eq!(outcomes(&snapshot), ["completed end_turn", "completed end_turn"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_stays_away_fails_each_prompt_after_the_time_to_connect() {
    let mut home = Home::new();
    home.settings.connect = Duration::from_secs(1);
    let (gateway, id, _is_away) = away(&home).await;
    let begun = Instant::now();
    prompt(&gateway, &id, json!([])).await;
    prompt(&gateway, &id, json!([])).await;
    let snapshot = settled(&gateway, &id, 3).await;
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(outcomes(&snapshot), ["completed end_turn", "failed unreachable", "failed unreachable"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_to_begin_stands_still_while_the_agent_is_away() {
    let mut home = Home::new();
    home.settings.start = Duration::from_secs(2);
    let gateway = stage(&home, false, |_, mut commands, observer| async move {
        while let Some(command) = commands.recv().await {
            if let Command::Prompt { native_id, .. } = command {
                let _ = observer.observed(Observed::Away("it restarts".to_owned())).await;
                tokio::time::sleep(Duration::from_secs(3)).await;
                let _ = observer.observed(Observed::Back).await;
                began(&observer, "n1", &[&native_id]).await;
                says(&observer, "k1").await;
                let _ = observer.signal(done("n1")).await;
            }
        }
    })
    .await;
    let id = session(&gateway, &home, "puppet").await;
    prompt(&gateway, &id, json!([])).await;
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["completed end_turn"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_whose_agent_panics_as_it_is_connected_names_the_agent() {
    let home = Home::new();
    let gateway =
        stage(&home, false, |_, _, _| -> std::future::Ready<()> { panic!("as the test wants") }).await;
    let id = session(&gateway, &home, "puppet").await;
    prompt(&gateway, &id, json!([])).await;
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["failed unreachable"]);
    let message = snapshot.state.turns[0].error.clone().unwrap().message;
    assert!(message.contains("puppet") && !message.contains("this agent"), "{message}");
    home.close(gateway).await;
}
