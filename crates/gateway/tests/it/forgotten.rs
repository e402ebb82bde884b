//! A session that its agent has forgotten: no prompt runs as if nothing had been said before, and a client
//! chooses how it goes on.

use crate::forgetful::*;
use crate::puppet::lines;
use crate::support::*;
use serde_json::{Value, json};
use std::path::PathBuf;
use turnstream_gateway::{Actor, Gateway, NewPrompt, NewSession, RequestError, Settings};
use turnstream_model::event::ResumeAs;
use turnstream_model::fold::{PromptStage, Snapshot};
use turnstream_model::id::SessionId;
use turnstream_testkit::crash::{KillPoint, Program, role};
use turnstream_testkit::lawful::Tail;

const HOME: &str = "TURNSTREAM_GATEWAY_TEST_HOME";

/// A session with one turn, whose agent has lost its conversation.
async fn forgotten_session(home: &Home) -> (Gateway, SessionId, String) {
    let gateway = open_forgetful(home.directory(), home.settings.clone()).await;
    let id = session(&gateway, home, "forgetful").await;
    gateway.prompt(&id, words("What is blue?")).await.unwrap();
    let native_id = settled(&gateway, &id, 1).await.state.session.native_id.unwrap();
    let gateway = restarted(home, gateway).await;
    Forgetful::of(home.directory()).lose_all();
    (gateway, id, native_id)
}

/// The contents of the prompts that the agent got, by its own id of the session.
fn heard(home: &Home) -> Vec<(String, Value)> {
    Forgetful::of(home.directory()).notes("prompt")
}

fn text(content: &Value, block: usize) -> &str {
    content[block]["text"].as_str().unwrap()
}

async fn of_type(home: &Home, id: &SessionId, r#type: &str) -> Vec<Value> {
    let events = lines(home, id).await;
    let events = events.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["type"] == r#type).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_is_refused_until_a_client_chooses_to_begin_anew() {
    let home = Home::new();
    let (gateway, id, old) = forgotten_session(&home).await;
    let (agent, session, native_id) = ("forgetful".to_owned(), id.clone(), old.clone());
    let forgot = RequestError::AgentForgot { agent, session, native_id };
    for _ in 0..2 {
        assert_eq!(gateway.prompt(&id, words("And red?")).await, Err(forgot.clone()));
    }
    let carol = gateway.on_behalf_of(Actor::new("carol"));
    let resumed = carol.resume(&id, ResumeAs::Fresh).await.unwrap().session;
    assert_eq!((resumed.native_id, resumed.resumed.as_ref().unwrap().pending), (None, false));
    gateway.prompt(&id, words("And red?")).await.unwrap();
    let after = settled(&gateway, &id, 2).await;
    assert_eq!(outcomes(&after), ["completed end_turn", "completed end_turn"]);
    let new = after.state.session.native_id.clone().unwrap();
    assert_ne!(new, old);
    home.close(gateway).await;
    let (session, content) = heard(&home).pop().unwrap();
    assert_eq!((session, content), (new, json!(words("And red?").content)));
    let events = of_type(&home, &id, "session.resumed").await;
    assert_eq!(events.len(), 1);
    assert_eq!(
        (&events[0]["as"], &events[0]["forgot"], &events[0]["actor"]),
        (&json!("fresh"), &json!(old), &json!("carol"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_transcript_goes_to_the_agent_before_the_next_prompt_and_only_once() {
    let home = Home::new();
    let (gateway, id, _) = forgotten_session(&home).await;
    let resumed = gateway.resume(&id, ResumeAs::Transcript).await.unwrap().session;
    assert!(resumed.resumed.unwrap().pending);
    for (turns, question) in [(2, "And red?"), (3, "And green?")] {
        gateway.prompt(&id, words(question)).await.unwrap();
        settled(&gateway, &id, turns).await;
    }
    let session = gateway.session(&id).unwrap().session;
    assert!(!session.resumed.unwrap().pending, "it was handed over");
    let prompts: Vec<Vec<Value>> =
        gateway.snapshot(&id).await.unwrap().state.prompts.into_iter().map(|prompt| prompt.content).collect();
    let asked = ["What is blue?", "And red?", "And green?"].map(|question| words(question).content);
    assert_eq!(prompts, asked, "the log has what the client sent");
    home.close(gateway).await;
    let heard = heard(&home);
    let [(_, first), (_, second), (_, third)] = heard.as_slice() else { panic!("{heard:?}") };
    assert_eq!((first, third), (&json!(asked[0]), &json!(asked[2])));
    assert_eq!(second[1], asked[1][0], "the prompt follows");
    let transcript = text(second, 0);
    assert!(transcript.starts_with("Earlier conversation of this session, restored by Turnstream."));
    assert!(transcript.contains("User:\nWhat is blue?\n\nAssistant:\nhello\n\nEnd of"), "{transcript}");
    assert!(!transcript.contains("And red"), "{transcript}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_choice_may_be_repeated_and_is_refused_while_the_agent_remembers() {
    let home = Home::new();
    let gateway = open_forgetful(home.directory(), home.settings.clone()).await;
    let id = session(&gateway, &home, "forgetful").await;
    let refused = |resumed| {
        let (agent, session) = ("forgetful".to_owned(), id.clone());
        RequestError::NotForgotten { agent, session, resumed }
    };
    assert_eq!(gateway.resume(&id, ResumeAs::Fresh).await, Err(refused(None)), "it has said nothing yet");
    gateway.prompt(&id, words("What is blue?")).await.unwrap();
    settled(&gateway, &id, 1).await;
    assert_eq!(gateway.resume(&id, ResumeAs::Fresh).await, Err(refused(None)), "its link is up");
    let gateway = restarted(&home, gateway).await;
    assert_eq!(gateway.resume(&id, ResumeAs::Transcript).await, Err(refused(None)), "it has its file");
    Forgetful::of(home.directory()).lose_all();
    let first = gateway.resume(&id, ResumeAs::Fresh).await.unwrap();
    assert_eq!(gateway.resume(&id, ResumeAs::Fresh).await.unwrap(), first);
    let other = gateway.resume(&id, ResumeAs::Transcript).await;
    assert_eq!(other, Err(refused(Some(ResumeAs::Fresh))));
    gateway.prompt(&id, words("And red?")).await.unwrap();
    settled(&gateway, &id, 2).await;
    gateway.resume(&id, ResumeAs::Fresh).await.unwrap();
    // It forgets again: that is another choice.
    let gateway = restarted(&home, gateway).await;
    Forgetful::of(home.directory()).lose_all();
    gateway.prompt(&id, words("And green?")).await.unwrap_err();
    gateway.resume(&id, ResumeAs::Transcript).await.unwrap();
    gateway.prompt(&id, words("And green?")).await.unwrap();
    settled(&gateway, &id, 3).await;
    home.close(gateway).await;
    let choices: Vec<Value> =
        of_type(&home, &id, "session.resumed").await.iter().map(|event| event["as"].clone()).collect();
    assert_eq!(choices, ["fresh", "transcript"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_that_shows_only_at_the_link_fails_the_prompt_and_names_the_way_out() {
    let home = Home::new();
    let (gateway, id, old) = forgotten_session(&home).await;
    Forgetful::of(home.directory()).boast();
    gateway.prompt(&id, words("And red?")).await.unwrap();
    let failed = settled(&gateway, &id, 2).await;
    assert_eq!(outcomes(&failed), ["completed end_turn", "failed agent_error"]);
    let message = failed.state.turns[1].error.clone().unwrap().message;
    assert!(message.ends_with("resume the session as `fresh` or as `transcript` to go on"), "{message}");
    assert!(message.contains(&old), "{message}");
    // From here on it is known.
    let refused = gateway.prompt(&id, words("And red?")).await.unwrap_err();
    assert!(matches!(refused, RequestError::AgentForgot { .. }), "{refused}");
    gateway.resume(&id, ResumeAs::Transcript).await.unwrap();
    gateway.prompt(&id, words("And green?")).await.unwrap();
    assert_eq!(outcomes(&settled(&gateway, &id, 3).await)[2], "completed end_turn");
    home.close(gateway).await;
    let heard = heard(&home);
    assert_eq!(heard.len(), 2, "the agent never got the prompt that failed: {heard:?}");
    let transcript = text(&heard[1].1, 0);
    assert!(transcript.contains("User:\nAnd red?\n\n(The turn failed here.)"), "{transcript}");
    let notices = of_type(&home, &id, "notice").await;
    assert_eq!(notices.iter().map(|notice| &notice["code"]).collect::<Vec<_>>(), ["forgotten"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_the_agent_did_not_work_on_does_not_use_up_the_transcript() {
    let home = Home::new();
    let (gateway, id, _) = forgotten_session(&home).await;
    gateway.resume(&id, ResumeAs::Transcript).await.unwrap();
    // The directory is gone, so no link can be made.
    let away = home.path("elsewhere");
    std::fs::rename(home.work(), &away).unwrap();
    gateway.prompt(&id, words("And red?")).await.unwrap();
    assert_eq!(outcomes(&settled(&gateway, &id, 2).await)[1], "failed unreachable");
    std::fs::rename(&away, home.work()).unwrap();
    gateway.prompt(&id, words("And green?")).await.unwrap();
    settled(&gateway, &id, 3).await;
    home.close(gateway).await;
    let transcript = heard(&home)[1].1.clone();
    assert!(text(&transcript, 0).contains("What is blue?") && !text(&transcript, 0).contains("And red"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_prompt_is_known_by_its_key_also_after_the_agent_has_forgotten() {
    let home = Home::new();
    let gateway = open_forgetful(home.directory(), home.settings.clone()).await;
    let id = session(&gateway, &home, "forgetful").await;
    let keyed = NewPrompt { key: Some("k".to_owned()), ..words("What is blue?") };
    let first = gateway.prompt(&id, keyed.clone()).await.unwrap();
    settled(&gateway, &id, 1).await;
    let gateway = restarted(&home, gateway).await;
    Forgetful::of(home.directory()).lose_all();
    assert_eq!(gateway.prompt(&id, keyed).await.unwrap().prompt, first.prompt);
    home.close(gateway).await;
}

// === kills ===

/// The child of the test below: finds or makes the session, resumes it if it was forgotten, and prompts.
#[test]
fn child_that_resumes() {
    if role().as_deref() != Some("resumes") {
        return;
    }
    let home = PathBuf::from(std::env::var(HOME).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let gateway = open_forgetful(&home, Settings::default()).await;
        let key = Some("the one".to_owned());
        let new = NewSession { key, ..new_session_in(&home.join("work"), "forgetful") };
        let id = id_of(&gateway.create(new).await.unwrap());
        until(&gateway, &id, "the end of the recovery", |snapshot| {
            snapshot.state.session.status != turnstream_model::fold::Activity::Recovering
        })
        .await;
        let keyed = NewPrompt { key: Some("second".to_owned()), ..words("And red?") };
        match gateway.prompt(&id, keyed.clone()).await {
            Err(RequestError::AgentForgot { .. }) => {
                gateway.resume(&id, ResumeAs::Transcript).await.unwrap();
                println!("RESUMED");
                gateway.prompt(&id, keyed).await.unwrap();
            }
            Err(error) => panic!("{error}"),
            Ok(_) => {}
        }
        settled(&gateway, &id, 2).await;
        println!("DONE");
        std::future::pending::<()>().await;
    });
}

#[test]
fn a_kill_at_any_step_of_a_resume_leaves_a_choice_to_make_or_one_that_holds() {
    let points = [
        KillPoint::failpoint("keeper.resuming", 1),
        KillPoint::failpoint("keeper.resumed", 1),
        KillPoint::line("RESUMED", 1),
        // The prompt is durable as sent, and has not left.
        KillPoint::failpoint("keeper.durable", 2),
        // The agent got it, and dies with the gateway before it begins.
        KillPoint::line("HANGS", 1),
    ];
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut transcripts = Vec::new();
    for point in points {
        let home = Home::new();
        let id = runtime.block_on(async {
            let gateway = open_forgetful(home.directory(), home.settings.clone()).await;
            let key = Some("the one".to_owned());
            let new = NewSession { key, ..new_session(&home, "forgetful") };
            let id = id_of(&gateway.create(new).await.unwrap());
            gateway.prompt(&id, words("What is blue?")).await.unwrap();
            settled(&gateway, &id, 1).await;
            home.close(gateway).await;
            id
        });
        let agent = Forgetful::of(home.directory());
        agent.lose_all();
        agent.hang_once();
        let run = |point: &KillPoint| {
            let program = Program::this_test("forgotten::child_that_resumes", "resumes").unwrap();
            program.env(HOME, home.directory()).run(point).unwrap()
        };
        run(&point);
        // Whatever the kill left of it, the second child is not held up.
        let _ = std::fs::remove_file(home.path("memory/hangs"));
        run(&KillPoint::line("DONE", 1));
        let state = runtime.block_on(async {
            home.judge(Tail::Live).await;
            let gateway = open_forgetful(home.directory(), home.settings.clone()).await;
            let Snapshot { state, .. } = settled(&gateway, &id, 2).await;
            home.close(gateway).await;
            state
        });
        assert_eq!(state.prompts.len(), 2, "{point:?}");
        assert!(state.prompts.iter().all(|prompt| prompt.state == PromptStage::Taken), "{point:?}");
        let resumed = runtime.block_on(of_type(&home, &id, "session.resumed"));
        assert_eq!(resumed.len(), 1, "{point:?}: {resumed:?}");
        let heard = heard(&home);
        for (_, content) in &heard[1..] {
            assert_eq!(content[1], words("And red?").content[0], "{point:?}");
            transcripts.push(text(content, 0).to_owned());
        }
        // The agent that hung got it twice. After the answer the child may come so far before it is killed.
        let hung = point == KillPoint::line("HANGS", 1);
        let answered = point == KillPoint::line("RESUMED", 1);
        assert!(heard.len() == 2 + usize::from(hung) || answered && heard.len() == 3, "{point:?}: {heard:?}");
    }
    transcripts.dedup();
    assert_eq!(transcripts.len(), 1, "the same bytes every time: {transcripts:#?}");
    assert!(transcripts[0].contains("What is blue?"));
}
