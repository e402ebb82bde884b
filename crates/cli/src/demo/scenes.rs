//! The scenes: what is broken on purpose, and when.

use super::script::{BEFORE_PAUSE, CUT_COMMAND, PROMPTS};
use super::stage::Stage;
use super::tally::Tally;
use super::viewer::Viewer;
use super::{DemoError, Pace, Sabotage};
use crate::client::{Client, segment};
use crate::escape::{Untrusted, safe};
use crate::record::Record;
use crate::show::{Screen, Style};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

/// The agent of the session.
const AGENT: &str = "builtin";
/// Events that happen while the client is away.
const MISSED: u64 = 3;
/// How often the gateway is asked for the end of the log.
const POLL: Duration = Duration::from_millis(50);

/// Plays all scenes, and collects what is known afterwards.
pub(super) async fn play(
    stage: &mut Stage,
    screen: &mut Screen,
    pace: Pace,
    sabotage: Option<Sabotage>,
) -> Result<Tally, DemoError> {
    introduce(stage, screen)?;
    let body = json!({"agent": AGENT, "cwd": stage.work(), "permissions": "allow"});
    let session = stage.client()?.post("/v1/sessions", &body).await?;
    let session = Record(&session).text("id").exact().to_owned();
    let mut viewer = Viewer::new(stage.client_behind_cable()?, &session, screen, sabotage);
    cut_the_client(stage, &mut viewer, &session).await?;
    pace.pause().await;
    splice_the_provider(stage, &mut viewer, &session).await?;
    pace.pause().await;
    kill_the_gateway(stage, &mut viewer, &session, pace).await?;
    pace.pause().await;
    expire_a_limit(stage, &mut viewer, &session).await?;
    let sent = log(&stage.client()?, &session).await?;
    let received = std::mem::take(&mut viewer.received);
    Ok(Tally::new(sent, received, stage))
}

fn introduce(stage: &Stage, screen: &mut Screen) -> Result<(), DemoError> {
    let gateway = stage.gateway()?;
    screen.line(Style::Strong, &safe!["turnstream demo: no key, no network, one minute"])?;
    let (address, provider) = (format!("http://{}", gateway.address), stage.provider_url());
    screen.line(Style::Faint, &safe!["   gateway   process ", gateway.pid, " at ", Untrusted(&address)])?;
    screen.line(Style::Faint, &safe!["   provider  a fake one at ", Untrusted(&provider)])?;
    Ok(screen.line(Style::Faint, &safe!["   agent     the built-in one, in a temporary directory"])?)
}

async fn cut_the_client(stage: &Stage, viewer: &mut Viewer<'_>, session: &str) -> Result<(), DemoError> {
    viewer.heading(1, "The client's connection is cut in the middle of an answer")?;
    let client = stage.client()?;
    send(&client, session, PROMPTS[0]).await?;
    // The answer after both tools. It pauses there.
    viewer.until_text(BEFORE_PAUSE, 1).await?;
    stage.cable.cut();
    let at = viewer.last();
    viewer.broken(&safe!["cuts the connection after event ", at])?;
    while head(&client, session).await? < at + MISSED {
        sleep(POLL).await;
    }
    stage.cable.mend();
    let outcome = viewer.until_back().await?;
    back(viewer, &outcome)?;
    viewer.until_over(1).await
}

async fn splice_the_provider(stage: &Stage, viewer: &mut Viewer<'_>, session: &str) -> Result<(), DemoError> {
    viewer.heading(2, "The provider's stream is spliced in the middle of a tool call")?;
    let cut = safe!["stops the call at `", CUT_COMMAND, "`; another answer follows on the stream"];
    viewer.broken(&cut)?;
    send(&stage.client()?, session, PROMPTS[1]).await?;
    viewer.until_over(2).await
}

async fn kill_the_gateway(
    stage: &mut Stage,
    viewer: &mut Viewer<'_>,
    session: &str,
    pace: Pace,
) -> Result<(), DemoError> {
    viewer.heading(3, "The gateway is killed in the middle of an answer")?;
    send(&stage.client()?, session, PROMPTS[2]).await?;
    viewer.until_text(BEFORE_PAUSE, 3).await?;
    let pid = stage.gateway()?.pid;
    stage.kill_gateway().await?;
    viewer.broken(&safe!["kill -9 ", pid])?;
    pace.pause().await;
    stage.restart_gateway().await?;
    let pid = stage.gateway()?.pid;
    viewer.broken(&safe!["starts the gateway again: process ", pid])?;
    let outcome = viewer.until_back().await?;
    back(viewer, &outcome)?;
    viewer.until_over(3).await
}

async fn expire_a_limit(stage: &Stage, viewer: &mut Viewer<'_>, session: &str) -> Result<(), DemoError> {
    viewer.heading(4, "The provider refuses: too many requests, come back later")?;
    send(&stage.client()?, session, PROMPTS[3]).await?;
    viewer.until_over(4).await
}

/// Says what the gateway did with the cursor of a client that came back.
fn back(viewer: &mut Viewer<'_>, outcome: &Value) -> Result<(), DemoError> {
    let outcome = Record(outcome);
    let line = match (outcome.number("from"), outcome.number("to")) {
        (Some(from), Some(to)) => safe!["back: events ", from, " to ", to, " are replayed"],
        _ => safe!["back: ", outcome.text("outcome").spaced()],
    };
    Ok(viewer.client_line(&line)?)
}

async fn send(client: &Client, session: &str, text: &str) -> Result<(), DemoError> {
    let body = json!({"content": [{"type": "text", "text": text}], "key": text});
    client.post(&format!("/v1/sessions/{}/prompts", segment(session)), &body).await?;
    Ok(())
}

/// The number of the last event in the log.
async fn head(client: &Client, session: &str) -> Result<u64, DemoError> {
    let snapshot = client.get(&format!("/v1/sessions/{}/snapshot", segment(session))).await?;
    Ok(Record(&snapshot).number("seq").unwrap_or(0))
}

/// All events of the log.
async fn log(client: &Client, session: &str) -> Result<Vec<Value>, DemoError> {
    let mut events: Vec<Value> = Vec::new();
    loop {
        let path = format!("/v1/sessions/{}/log?limit=500&from={}", segment(session), events.len() + 1);
        let page = client.get(&path).await?;
        let before = events.len();
        events.extend(page["events"].as_array().into_iter().flatten().cloned());
        if events.len() == before {
            return Ok(events);
        }
    }
}
