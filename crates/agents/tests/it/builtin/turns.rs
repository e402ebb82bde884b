//! Whole turns: what the model is asked, what the tools do, and what the log shows.

use super::{Bench, FORMATS, bash, call};
use serde_json::{Value, json};
use turnstream_fake_provider::{
    Asked, Bytes, Completion, Finish, Identity, Part, Raw, Refusal, Reply, Step, WireFormat, render,
};
use turnstream_llm::Format;
use turnstream_model::event::{ErrorClass, ItemKind, Outcome, StopReason};
use turnstream_model::fold::ItemStage;

#[tokio::test]
async fn a_turn_reads_a_file_edits_it_and_answers_in_every_format() {
    for format in FORMATS {
        let both = [
            Part::reasoning("I look first."),
            Part::text("Let me look."),
            Part::tool_call("read", json!({"path": "a.txt"})),
            Part::tool_call("list", json!({})),
        ];
        let edit = json!({"path": "a.txt", "old_text": "one", "new_text": "two"});
        let steps = [
            Step::new(Completion::of(both)),
            call("edit", edit),
            Step::text("It says two now."),
            Step::text("Yes."),
        ];
        let mut bench = Bench::in_format(format, steps).await;
        bench.write("a.txt", "one\n");
        bench.write("AGENTS.md", "Never use tabs.");
        bench.run("Change one to two.").await;
        let turn = bench.keeper.turn();
        assert_eq!(turn.outcome, Some(Outcome::Completed), "{}", bench.keeper.show());
        assert_eq!(turn.stop_reason, Some(StopReason::EndTurn));
        assert_eq!((turn.attempts.len(), turn.usage.as_ref().unwrap().input), (3, Some(300)));
        assert_eq!(bench.keeper.file("a.txt").unwrap(), "two\n");
        let results: Vec<_> = (0..3).map(|place| bench.result(place)).collect();
        assert_eq!(results, ["one\n", "AGENTS.md\na.txt", "changed 1 place in a.txt"], "{format:?}");
        let items = bench.keeper.items();
        assert!(items.iter().all(|item| item.state == ItemStage::Completed), "{}", bench.keeper.show());
        let said: Vec<_> = items.iter().filter(|item| item.kind == ItemKind::Message).collect();
        let said: Vec<_> = said.iter().map(|item| item.text.as_deref().unwrap()).collect();
        assert_eq!(said, ["Let me look.", "It says two now."]);

        bench.run("Sure?").await;
        let bodies = bench.bodies();
        assert_eq!(bodies.len(), 4);
        assert!(bodies[0].to_string().contains("Never use tabs."));
        assert_eq!(skeleton(format, &bodies[3]), expected(format), "{format:?}: {:#}", bodies[3]);
        assert_eq!(bench.keeper.turns().len(), 2);
    }
}

/// An answer of chat completions in which the first `from` is `to`.
fn changed(usual: &Step, from: &str, to: &str) -> Step {
    let asked = Asked { model: "scripted-1".to_owned(), stream: true, ..Asked::default() };
    let identity = Identity { serial: 1, created: 1_700_000_000, asked };
    let body = String::from_utf8(render(WireFormat::Chat, usual, &identity).unwrap().body()).unwrap();
    assert!(body.contains(from), "{body}");
    let body = Bytes::Text(body.replacen(from, to, 1));
    Step::new(Reply::Raw(Raw { status: 200, content_type: "text/event-stream".to_owned(), body }))
}

#[tokio::test]
async fn a_call_is_sent_back_with_its_own_members_and_not_with_those_of_its_message() {
    let answer = Step::new(Completion::of([Part::tool_call("list", json!({}))]));
    let more = "\"provider_metadata\":{\"vertex\":{\"region\":\"x\"}},\"tool_calls\":[{\
                \"extra_content\":{\"google\":{\"thought_signature\":\"c2ln\"}},";
    let answer = changed(&answer, "\"tool_calls\":[{", more);
    let mut bench = Bench::in_format(Format::Chat, [answer, Step::text("Done.")]).await;
    bench.run("List the files.").await;
    assert_eq!(bench.keeper.turn().outcome, Some(Outcome::Completed), "{}", bench.keeper.show());
    let sent = &bench.bodies()[1]["messages"][2];
    let call = sent["tool_calls"][0].as_object().unwrap();
    let mut members: Vec<&str> = call.keys().map(String::as_str).collect();
    members.sort_unstable();
    assert_eq!(members, ["extra_content", "function", "id", "type"], "{sent}");
    assert_eq!(call["extra_content"], json!({"google": {"thought_signature": "c2ln"}}));
    assert!(!bench.bodies()[1].to_string().contains("provider_metadata"), "{sent}");
}

#[tokio::test]
async fn a_call_is_sent_back_with_unknown_members_of_its_function() {
    let answer = Step::new(Completion::of([Part::tool_call("list", json!({}))]));
    let answer = changed(&answer, "\"function\":{", "\"function\":{\"signature\":\"c2ln\",");
    let mut bench = Bench::in_format(Format::Chat, [answer, Step::text("Done.")]).await;
    bench.run("List the files.").await;
    let sent = &bench.bodies()[1]["messages"][2];
    let function = json!({"name": "list", "arguments": "{}", "signature": "c2ln"});
    assert_eq!(sent["tool_calls"][0]["function"], function, "{sent}");
}

/// The conversation of a request in short.
fn skeleton(format: Format, body: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let kind = |value: &Value| value["type"].as_str().unwrap_or_default().to_owned();
    match format {
        Format::Chat => {
            let message = |message: &Value| {
                let role = message["role"].as_str().unwrap();
                match (list(&message["tool_calls"]).len(), message["tool_call_id"].as_str()) {
                    (0, None) => role.to_owned(),
                    (calls, None) => format!("{role} with {calls} calls"),
                    (_, Some(_)) => format!("{role}: {}", message["content"].as_str().unwrap()),
                }
            };
            list(&body["messages"]).iter().map(message).collect()
        }
        Format::Responses => list(&body["input"]).iter().map(kind).collect(),
        Format::Messages => {
            let message = |message: &Value| {
                let kinds: Vec<String> = list(&message["content"]).iter().map(kind).collect();
                format!("{}: {}", message["role"].as_str().unwrap(), kinds.join(", "))
            };
            list(&body["messages"]).iter().map(message).collect()
        }
    }
}

fn expected(format: Format) -> Vec<&'static str> {
    match format {
        Format::Chat => vec![
            "system",
            "user",
            "assistant with 2 calls",
            "tool: one\n",
            "tool: AGENTS.md\na.txt",
            "assistant with 1 calls",
            "tool: changed 1 place in a.txt",
            "assistant",
            "user",
        ],
        Format::Responses => vec![
            "message",
            "message",
            "function_call",
            "function_call",
            "function_call_output",
            "function_call_output",
            "function_call",
            "function_call_output",
            "message",
            "message",
        ],
        Format::Messages => vec![
            "user: text",
            "assistant: thinking, text, tool_use, tool_use",
            "user: tool_result, tool_result",
            "assistant: tool_use",
            "user: tool_result",
            "assistant: text",
            "user: text",
        ],
    }
}

#[tokio::test]
async fn a_call_that_cannot_be_used_is_told_to_the_model_and_the_turn_goes_on() {
    let steps = [
        call("fly", json!({})),
        call("read", json!({"file": "a.txt"})),
        call("read", json!({"path": "../secret"})),
        bash("echo no; exit 7"),
        Step::text("I give up."),
    ];
    let mut bench = Bench::new(steps).await;
    bench.run("Go on.").await;
    assert_eq!(bench.keeper.turn().outcome, Some(Outcome::Completed), "{}", bench.keeper.show());
    assert!(bench.tools().iter().all(|item| item.state == ItemStage::Failed), "{}", bench.keeper.show());
    assert!(bench.result(0).contains("there is no tool \"fly\"; the tools are read, write"));
    assert!(bench.result(1).contains("the arguments of read cannot be used"), "{}", bench.result(1));
    assert!(bench.result(2).contains("outside of the session's directory"));
    assert_eq!(bench.result(3), "no\n[exit code 7]");
    let told = bench.bodies()[4]["messages"].to_string();
    assert!(told.contains("there is no tool") && told.contains("[exit code 7]"), "{told}");
}

#[tokio::test]
async fn the_output_of_a_command_is_in_the_log_while_it_runs() {
    let wait = "echo first; while ! [ -e go ]; do sleep 0.02; done; echo second";
    let mut bench = Bench::new([bash(wait), Step::text("Done.")]).await;
    bench.keeper.prompt("Go on.").await.unwrap();
    bench
        .keeper
        .until_signal(|signal| {
            matches!(signal, turnstream_model::signal::Signal::TextDelta { text, .. } if text == "first\n")
        })
        .await;
    bench.write("go", "");
    bench.keeper.until_quiet().await.unwrap();
    assert_eq!(bench.result(0), "first\nsecond\n");
    assert_eq!(bench.keeper.turn().outcome, Some(Outcome::Completed));
}

#[tokio::test]
async fn a_model_that_never_stops_is_stopped() {
    let mut bench = Bench::new([call("list", json!({})).always()]).await;
    bench.run("Go on.").await;
    let turn = bench.keeper.turn();
    assert_eq!(turn.stop_reason, Some(StopReason::MaxTurnRequests), "{}", bench.keeper.show());
    assert_eq!(turn.attempts.len(), 20);
}

#[tokio::test]
async fn a_refused_request_and_an_answer_that_is_cut_by_its_limit_end_the_turn_as_they_are() {
    let long = Completion::text("This is long").finished(Finish::Length);
    let steps = [Step::new(Refusal::new(400, "invalid_request_error", "no")), Step::new(long)];
    let mut bench = Bench::new(steps).await;
    bench.run("Go on.").await;
    let turn = bench.keeper.turn();
    let error = turn.error.as_ref().unwrap();
    assert_eq!((turn.outcome, error.class), (Some(Outcome::Failed), ErrorClass::InvalidRequest));
    assert_eq!(error.status, Some(400));
    bench.run("Again.").await;
    assert_eq!(bench.keeper.turns()[1].stop_reason, Some(StopReason::MaxTokens), "{}", bench.keeper.show());
    let messages = &bench.bodies()[1]["messages"];
    assert_eq!(messages.as_array().unwrap().len(), 3, "the failed turn has no answer: {messages:#}");
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_shortened_and_says_so_until_nothing_is_left() {
    let overflow = || {
        let mut refusal = Refusal::new(400, "invalid_request_error", "too long");
        refusal.error.code = Some("context_length_exceeded".to_owned());
        Step::new(refusal)
    };
    let steps = [
        call("read", json!({"path": "a.txt"})),
        call("list", json!({})),
        overflow(),
        Step::text("Done."),
        overflow(),
        overflow(),
        overflow(),
    ];
    let mut bench = Bench::new(steps).await;
    bench.write("a.txt", "a very long text");
    bench.run("Go on.").await;
    assert_eq!(bench.keeper.turn().outcome, Some(Outcome::Completed), "{}", bench.keeper.show());
    let compactions = |bench: &Bench| {
        let items = bench.keeper.items().iter().filter(|item| item.kind == ItemKind::Compaction);
        items.map(|item| item.text.clone().unwrap()).collect::<Vec<_>>()
    };
    let first =
        "The conversation is longer than the context of model-1. Older results of tools were left out.";
    assert_eq!(compactions(&bench), [first]);
    let bodies = bench.bodies();
    assert!(bodies[2].to_string().contains("a very long text"));
    assert!(!bodies[3].to_string().contains("a very long text"));
    assert!(bodies[3].to_string().contains("a.txt"), "the newest result stays");

    bench.run("And now?").await;
    let turn = &bench.keeper.turns()[1];
    assert_eq!(turn.error.as_ref().unwrap().class, ErrorClass::ContextOverflow, "{}", bench.keeper.show());
    assert_eq!(compactions(&bench).len(), 3, "{:?}", compactions(&bench));
    let last = bench.bodies()[6]["messages"].clone();
    assert_eq!(last.as_array().unwrap().len(), 2, "only the system prompt and the prompt: {last:#}");
    bench.keeper.assert_lawful(turnstream_model::check::Tail::Settled);
}

#[tokio::test]
async fn secrets_are_not_in_the_journal_and_a_deleted_session_leaves_nothing() {
    use turnstream_model::attempts::Ledger;
    const SECRET: &str = "sk-ant-api03-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let said = format!("the key is {SECRET}");
    let steps = [bash(&format!("echo {SECRET}")), Step::text(&said)];
    let mut bench = Bench::new(steps).await;
    bench.run("Go on.").await;
    assert!(bench.bodies()[1].to_string().contains(SECRET), "the model still knows it");
    assert!(!bench.journal().contains(SECRET), "{}", bench.journal());
    let session = turnstream_model::id::SessionId::from("ses_1");
    assert_eq!(bench.attempts.attempts(session.clone()).await.unwrap().len(), 2);
    bench.keeper.stop().await;
    bench.keeper.agent().forget(&session).await.unwrap();
    assert_eq!(std::fs::read_dir(bench.state.path().join("journals")).unwrap().count(), 0);
    assert_eq!(bench.attempts.attempts(session).await.unwrap().len(), 0);
}
