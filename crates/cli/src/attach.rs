//! `turnstream attach SESSION`: follows a session and answers its agent's asks.

use crate::client::{Client, ClientError, Reach, connect_unless, segment};
use crate::escape::{Untrusted, safe};
use crate::exit::Exit;
use crate::out;
use crate::record::Record;
use crate::run::{Answerer, Follower, Following, Form, Goal, Interrupts, RunError, asks, person_can_answer};
use serde_json::{Value, json};
use std::io;
use std::process::ExitCode;

/// Follow an existing session, and answer what its agent asks
///
/// It starts with the open turn, whoever sent the prompt. Ctrl-C leaves; the session goes on. Exit codes: 0
/// when the session has ended, 4 when the gateway does not answer, 130 after Ctrl-C.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The session id, or its unique beginning
    session: String,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, RunError> {
    let mut interrupts = Interrupts::take().map_err(RunError::Signals)?;
    let connected = connect_unless(&args.reach, None, interrupts.reach(1)).await?;
    let done = attach(&connected.client, &args, interrupts).await;
    connected.end().await;
    match done {
        // The reader closed the pipe, for example `head`.
        Err(RunError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(Exit::ReaderGone.into())
        }
        done => Ok(done?.into()),
    }
}

async fn attach(client: &Client, args: &Args, mut interrupts: Interrupts) -> Result<Exit, RunError> {
    let found = async {
        let id = client.session_id(&args.session).await?;
        let snapshot = snapshot(client, &id).await?;
        Ok::<_, ClientError>((id, snapshot))
    };
    let (id, snapshot) = tokio::select! {
        biased;
        () = interrupts.reach(1) => return Ok(Exit::Cancelled),
        found = found => found?,
    };
    let id = &id;
    let state = Record(&snapshot);
    let session = state.member("session");
    if let Some(reason) = session.some_text("ended") {
        out::note(safe!["session ", Untrusted(id), " has ended: ", reason]);
        return Ok(Exit::Completed);
    }
    out::note(safe![
        "session ",
        Untrusted(id),
        " with ",
        session.text("agent"),
        ": ",
        session.text("status")
    ]);
    let after = format!("{}:{}", state.text("generation").exact(), state.number("seq").unwrap_or(0));
    let events = client.events(id, &after);
    let answerer = if person_can_answer() { Answerer::Person } else { Answerer::Others };
    let (goal, asks) = (Goal::Session, asks(session));
    let (reach, session) = (&args.reach, id.to_owned());
    let following =
        Following { client, reach, session, goal, answerer, asks, form: Form::Text, may_continue: false };
    let mut follower = Follower::new(following);
    for event in so_far(state) {
        follower.event("", Record(&event)).await?;
    }
    follower.follow(events, interrupts).await
}

async fn snapshot(client: &Client, id: &str) -> Result<Value, ClientError> {
    client.get(&format!("/v1/sessions/{}/snapshot", segment(id))).await
}

/// The open turn as a list of events: its prompts, model calls and items, then its open asks.
fn so_far(state: Record<'_>) -> Vec<Value> {
    let Some(turn) = state.list("turns").find(|turn| !turn.has("outcome")) else { return Vec::new() };
    let is_in_it = |one: &Record<'_>| one.text("turn") == turn.text("turn");
    let waits = |one: &Record<'_>| !one.has("outcome");
    let mut events: Vec<Value> =
        state.list("prompts").filter(is_in_it).map(|prompt| as_event(prompt, "prompt.accepted")).collect();
    // Items of a repeated call that are still in the snapshot are final.
    let current = turn.list("attempts").filter(|attempt| !attempt.has("superseded_by"));
    events.extend(current.map(|attempt| as_event(attempt, "attempt.started")));
    for item in state.list("items").filter(is_in_it) {
        events.push(as_event(item, "item.started"));
        if !item.is("state", "streaming") {
            events.push(as_event(item, "item.ended"));
        }
    }
    let ended = turn.list("attempts").filter(|attempt| attempt.is_true("ended"));
    events.extend(ended.map(|attempt| as_event(attempt, "attempt.ended")));
    let asked = state.list("approvals").filter(waits).map(|ask| as_event(ask, "approval.requested"));
    events.extend(asked);
    events.extend(state.list("questions").filter(waits).map(|ask| as_event(ask, "question.asked")));
    events
}

/// An entry of a snapshot has the members of the event that started it.
fn as_event(value: Record<'_>, kind: &str) -> Value {
    let mut event = value.0.as_object().cloned().unwrap_or_default();
    event.insert("type".to_owned(), json!(kind));
    Value::Object(event)
}
