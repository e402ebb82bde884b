//! A gateway is killed, and the next one asks the server how the work ended or goes on.

use super::playback::{Desk, Playback};
use crate::codex::recorded_usage::RecordedUsage;
use crate::desk::{Driver, End};
use serde_json::{Value, json};
use std::path::Path;
use turnstream_adapter::{Fate, Observed};
use turnstream_model::event::ApprovalOutcome;
use turnstream_model::event::StopReason::EndTurn;
use turnstream_model::fold::ItemStage;
use turnstream_model::time::Time;
use turnstream_testkit::lawful::Tail;

const DONE: End = End::Completed(EndTurn);

/// A capture with two connections, or two processes: what the driver wrote and the server said on each.
fn connections(file: &str) -> [Vec<(bool, Value)>; 2] {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/codex").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let mut connections = [Vec::new(), Vec::new()];
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let connection = line["proc"].as_u64().unwrap_or(0) as usize;
        connections[connection].push((line["dir"] == "out", line["line"].clone()));
    }
    connections
}

/// Plays the first connection up to its end, and leaves open what is open then.
fn first(lines: &[(bool, Value)]) -> Desk {
    let (mut desk, mut driver) = (Playback::desk(), Playback::default());
    for (place, (is_output, line)) in lines.iter().enumerate() {
        if *is_output {
            desk.line(&driver.answered(&desk, line).to_string());
        } else {
            driver.drive(&mut desk, line, place);
        }
    }
    desk
}

/// What the next gateway observes when it resumes the thread. The server lists the turns that it had in its
/// answer to `thread/resume`: the newest is first in a list.
fn resume(desk: &mut Desk, lines: &[(bool, Value)], adopted: bool, turns: &[Value]) -> Vec<Fate> {
    let thread = desk.state().session.native_id.unwrap();
    let result =
        |id: u64| &lines.iter().find(|(is_output, line)| *is_output && line["id"] == id).unwrap().1["result"];
    let (greeting, mut resumed) = (result(0).clone(), result(1).clone());
    resumed["thread"]["turns"] = json!([]);
    let turns: Vec<Value> = turns.iter().rev().cloned().collect();
    desk.recover(|desk, open_work| {
        let now = Time(desk.now);
        let conversation = &mut desk.conversation;
        conversation.recover(Some(thread), open_work, adopted, now);
        let answers = [greeting, resumed, json!({"data": []}), json!({"data": turns})];
        for (id, result) in answers.iter().enumerate() {
            conversation.line(json!({"id": id, "result": result}).to_string().as_bytes(), now);
        }
        std::iter::from_fn(|| conversation.next_observed()).collect::<Vec<Observed>>()
    })
}

/// The turns in the answer to `thread/resume`.
fn turns(lines: &[(bool, Value)]) -> Vec<Value> {
    let answer = lines.iter().find(|(_, line)| line["result"]["thread"]["turns"].is_array()).unwrap();
    answer.1["result"]["thread"]["turns"].as_array().unwrap().clone()
}

#[test]
fn a_turn_that_went_on_without_a_gateway_is_continued_and_its_answer_is_whole() {
    let [before, after] = connections("listener/k_ws_reconnect_running_thread.ndjson");
    let mut desk = first(&before);
    assert_eq!(desk.ends(), [End::Open]);
    assert_eq!(resume(&mut desk, &after, true, &turns(&after)), []);
    assert_eq!(desk.ends(), [End::Open], "it goes on");
    let rest = after.iter().filter(|(is_output, line)| *is_output && line["method"].is_string());
    let end = |line: &Value| line["method"] == "turn/completed";
    let mut whole = None;
    for (_, line) in rest {
        if line["method"] == "item/completed" && whole.is_none() {
            whole = line["params"]["item"]["text"].as_str().map(str::to_owned);
        }
        desk.line(&line.to_string());
        if end(line) {
            break;
        }
    }
    assert_eq!(desk.ends(), [DONE]);
    let item = &desk.state().items[0];
    assert_eq!((item.state, &item.text, item.incomplete), (ItemStage::Completed, &whole, false));
    desk.assert_lawful(Tail::Live);
}

#[test]
fn a_turn_that_its_server_took_into_death_is_lost_with_its_finished_items() {
    let [before, after] = connections("k_kill_then_resume.ndjson");
    // The gateway was killed at any moment before.
    let outputs = before.iter().filter(|(is_output, _)| *is_output).count();
    for cut in 8..=outputs {
        let mut left = cut;
        let seen = before.iter().take_while(|(is_output, _)| {
            left -= usize::from(*is_output);
            left > 0
        });
        let mut desk = first(&seen.cloned().collect::<Vec<_>>());
        if desk.ends() != [End::Open] {
            continue;
        }
        resume(&mut desk, &after, false, &turns(&after));
        assert_eq!(desk.ends(), [End::Lost], "after {cut} messages");
        let items = desk.state().items;
        let finished = items.iter().filter(|item| item.state == ItemStage::Completed);
        let names: Vec<&str> =
            finished.filter_map(|item| item.native_id.as_deref()?.rsplit(':').next()).collect();
        assert_eq!(names, ["msg_fake000184", "call_fake000186"], "after {cut} messages");
        desk.assert_lawful(Tail::Settled);
    }
}

#[test]
fn a_prompt_that_the_server_does_not_have_was_never_seen_if_the_server_still_runs() {
    let [before, after] = connections("k_kill_then_resume.ndjson");
    for (adopted, fate) in [(true, Fate::NeverSeen), (false, Fate::Unknown)] {
        let opened = before.iter().position(|(_, line)| line["method"] == "turn/start").unwrap();
        let mut desk = first(&before[..opened]);
        desk.say("ses_1.p1", "Read it");
        assert_eq!(resume(&mut desk, &after, adopted, &turns(&after)), [fate]);
    }
}

#[test]
fn a_prompt_is_not_sent_again_if_its_turn_has_just_begun_or_the_list_cannot_be_read() {
    let [before, after] = connections("k_kill_then_resume.ndjson");
    let begun = before.iter().find(|(_, line)| line["result"]["turn"].is_object()).unwrap();
    let begun = begun.1["result"]["turn"].clone();
    for (turn, fate) in [(begun, Fate::Taken), (Value::Null, Fate::Unknown)] {
        let opened = before.iter().position(|(_, line)| line["method"] == "turn/start").unwrap();
        let mut desk = first(&before[..opened]);
        desk.say("ses_1.p1", "Read it");
        assert_eq!(resume(&mut desk, &after, true, &[turn]), [fate]);
    }
}

#[test]
fn a_turn_that_the_server_does_not_have_is_lost() {
    let [before, after] = connections("k_kill_then_resume.ndjson");
    let mut desk = first(&before);
    resume(&mut desk, &after, true, &[]);
    assert_eq!(desk.ends(), [End::Lost]);
    desk.assert_lawful(Tail::Settled);
}

/// A server that runs repeats no totals to a new connection that leaves out the turns.
#[test]
fn a_call_that_ends_after_a_restart_is_charged_with_its_own_tokens_and_not_with_those_of_the_thread() {
    let [lines, _] = connections("h_two_turns.ndjson");
    let started = |line: &Value| line["result"]["turn"].is_object();
    let second = lines.iter().rposition(|(_, line)| started(line)).unwrap();
    let shown =
        second + lines[second..].iter().position(|(_, line)| line["params"]["delta"].is_string()).unwrap();
    let mut desk = first(&lines[..=shown]);
    assert_eq!(desk.ends(), [DONE, End::Open]);
    let open = lines[second].1["result"]["turn"].clone();
    resume(&mut desk, &lines, true, &[open]);
    let rest: Vec<Value> = lines[shown + 1..].iter().map(|(_, line)| line.clone()).collect();
    desk.lines(&rest);
    assert_eq!(desk.ends(), [DONE, DONE]);
    let turns = desk.state().turns;
    let calls = turns.iter().flat_map(|turn| &turn.attempts);
    let tokens: Vec<_> = calls.filter_map(|call| call.usage.clone()).collect();
    assert_eq!(tokens, vec![tokens[0].clone(); 3], "each call had the same");
    assert_eq!(turns[1].usage, Some(tokens[0].clone()));
}

/// The next gateway recovers with the answers of a capture, up to this line. Its driver asked for the same
/// threads, and not for the models.
fn recover_as_captured(desk: &mut Desk, thread: String, after: &[(bool, Value)], listed: usize) {
    let fates = desk.recover(|desk, open_work| {
        let now = Time(desk.now);
        let conversation = &mut desk.conversation;
        conversation.recover(Some(thread), open_work, true, now);
        for (_, line) in after[..=listed].iter().filter(|(is_output, _)| *is_output) {
            let mut line = line.clone();
            if let Some(id) = line["id"].as_u64().filter(|id| *id > 1 && line["method"].is_null()) {
                line["id"] = json!(id + 1);
            }
            conversation.line(line.to_string().as_bytes(), now);
        }
        std::iter::from_fn(|| conversation.next_observed()).collect::<Vec<Observed>>()
    });
    assert_eq!(fates, []);
    let is_about_thread =
        |line: &&Value| line["method"] == "thread/resume" || line["method"] == "thread/turns/list";
    let about = |line: &Value| (line["method"].clone(), line["params"]["threadId"].clone());
    let driver = after.iter().map(|(_, line)| line).filter(is_about_thread).map(about);
    let ours = desk.written.iter().filter(is_about_thread).map(about);
    assert_eq!(ours.collect::<Vec<_>>(), driver.collect::<Vec<_>>(), "subagents are resumed too");
}

/// The server's open request on the new connection.
fn repeated_ask(after: &[(bool, Value)]) -> &Value {
    let mut asks = after.iter().filter(|(is_output, line)| *is_output && !line["id"].is_null());
    &asks.find(|(_, line)| line["method"].is_string()).unwrap().1
}

#[test]
fn a_subagent_of_a_subagent_is_recovered_with_its_permission() {
    let [before, after] = connections("listener/j_subagent_of_subagent_then_reconnect.ndjson");
    let mut desk = first(&before);
    assert_eq!(desk.ends(), [End::Open]);
    let thread = desk.state().session.native_id.unwrap();
    let listed = after.iter().position(|(is_output, line)| *is_output && line["id"] == 6).unwrap();
    recover_as_captured(&mut desk, thread, &after, listed);
    let ask = repeated_ask(&after);
    let key = desk.conversation.key_of_ask(&ask["id"]).unwrap();
    desk.approve(key.as_str(), ApprovalOutcome::AllowOnce, None);
    let rest = after[listed + 1..].iter().filter(|(is_output, _)| *is_output);
    desk.lines(&rest.map(|(_, line)| line.clone()).collect::<Vec<_>>());
    assert_eq!(desk.ends(), [DONE]);
    desk.assert_lawful(Tail::Live);
    let items = desk.state().items;
    let title = |item: &turnstream_model::fold::Item| {
        let title = item.tool.as_ref().and_then(|tool| tool.title.clone());
        title.or_else(|| item.text.clone()).unwrap_or_default()
    };
    // Each with its parent and its grandparent.
    let lines: Vec<String> = items
        .iter()
        .inspect(|item| assert_eq!(item.state, ItemStage::Completed, "{item:?}"))
        .map(|item| {
            let parent = |item: &turnstream_model::fold::Item| {
                items.iter().find(|other| Some(&other.id) == item.parent.as_ref())
            };
            let depth = std::iter::successors(Some(item), |item| parent(item)).count();
            format!("{depth} {}", title(item))
        })
        .collect();
    let expected = [
        "1 I start one.",
        "1 Run subagent: CHILD LEVEL1: delegate",
        "1 Subagents: wait",
        "2 I delegate.",
        "2 Run subagent: GRANDCHILD TASK: do it",
        "2 Subagents: wait",
        "3 I do it.",
        "3 Run touch made.txt",
        "3 Level two done.",
        "2 Level one done.",
        "1 All done.",
    ];
    assert_eq!(
        lines.iter().collect::<std::collections::BTreeSet<_>>(),
        expected.map(str::to_owned).iter().collect()
    );
}

#[test]
fn a_permission_for_a_tool_of_an_mcp_server_is_recovered_with_the_turn() {
    let [before, after] = connections("listener/n_mcp_approval_then_reconnect.ndjson");
    let mut desk = first(&before);
    let thread = desk.state().session.native_id.unwrap();
    let listed = after.iter().position(|(is_output, line)| *is_output && line["id"] == 2).unwrap();
    let ask = after.iter().position(|(_, line)| line["method"] == "mcpServer/elicitation/request").unwrap();
    recover_as_captured(&mut desk, thread, &after, listed.max(ask));
    let key = desk.conversation.key_of_ask(&repeated_ask(&after)["id"]).unwrap();
    desk.approve(key.as_str(), ApprovalOutcome::AllowOnce, None);
    let answers = |lines: &[Value]| -> Vec<Value> {
        lines.iter().filter(|line| line["result"]["action"].is_string()).cloned().collect()
    };
    let captured: Vec<Value> = after.iter().map(|(_, line)| line.clone()).collect();
    assert_eq!(answers(&desk.written), answers(&captured));
    let rest = after[listed.max(ask) + 1..].iter().filter(|(is_output, _)| *is_output);
    desk.lines(&rest.map(|(_, line)| line.clone()).collect::<Vec<_>>());
    assert_eq!(desk.ends(), [DONE]);
    assert_eq!(desk.state().approvals.len(), 1, "it was asked once");
    desk.assert_lawful(Tail::Live);
}

/// Calls that end while no gateway runs are in the file of the thread.
#[test]
fn tokens_of_calls_that_ended_without_a_gateway_are_counted_once() {
    let [lines, _] = connections("h_two_turns.ndjson");
    let started = |line: &Value| line["result"]["turn"].is_object();
    let second = lines.iter().rposition(|(_, line)| started(line)).unwrap();
    let turn = lines[second].1["result"]["turn"].clone();
    let reports: Vec<&Value> = lines
        .iter()
        .map(|(_, line)| &line["params"])
        .filter(|params| params["tokenUsage"].is_object())
        .collect();
    let of_turn = reports.iter().filter(|params| params["turnId"] == turn["id"]);
    // The last call ended before the gateway was back, and its report comes nevertheless, or not.
    for repeated in [false, true] {
        let mut desk = first(&lines[..=second]);
        let file: Vec<String> = of_turn
            .clone()
            .map(|params| {
                let usage = &params["tokenUsage"];
                let (turn, total) = (&turn["id"], &usage["total"]);
                let call = json!({"turn_id": turn, "usage": usage["last"], "thread_token_usage": total});
                json!({"type": "token_usage_record", "payload": call}).to_string()
            })
            .collect();
        let recorded = RecordedUsage::of(&file.join("\n"));
        let thread = desk.state().session.native_id.unwrap();
        let opened =
            lines.iter().find(|(_, line)| line["result"]["thread"].is_object()).unwrap().1["result"].clone();
        let greeting =
            lines.iter().find(|(is_output, line)| *is_output && line["id"] == 0).unwrap().1["result"].clone();
        desk.recover(|desk, open_work| {
            let now = Time(desk.now);
            let conversation = &mut desk.conversation;
            conversation.recover(Some(thread), open_work, true, now);
            conversation.line(json!({"id": 0, "result": greeting}).to_string().as_bytes(), now);
            conversation.line(json!({"id": 1, "result": opened}).to_string().as_bytes(), now);
            conversation.recorded(recorded);
            conversation.line(json!({"id": 3, "result": {"data": [turn]}}).to_string().as_bytes(), now);
            std::iter::from_fn(|| conversation.next_observed()).collect::<Vec<Observed>>()
        });
        let rest: Vec<Value> = lines[second + 1..].iter().map(|(_, line)| line.clone()).collect();
        let is_report = |line: &Value| line["params"]["tokenUsage"].is_object();
        desk.lines(&rest.into_iter().filter(|line| repeated || !is_report(line)).collect::<Vec<_>>());
        assert_eq!(desk.ends(), [DONE, DONE]);
        let turns = desk.state().turns;
        let one_call = turns[0].attempts[0].usage.clone();
        assert!(one_call.is_some());
        assert_eq!(turns[1].usage, one_call, "it had one call, and each call had the same");
    }
}

#[test]
fn the_work_and_the_permission_of_a_subagent_are_recovered_with_the_turn() {
    let [before, after] = connections("listener/j_subagent_asks_then_reconnect.ndjson");
    let named =
        before.iter().position(|(_, line)| line["params"]["item"]["receiverThreadIds"][0].is_string());
    // Killed when all is known, and when only the name of the subagent is.
    for seen in [before.len(), named.unwrap() + 1] {
        let mut desk = first(&before[..seen]);
        let thread = desk.state().session.native_id.unwrap();
        // The driver asked for the turns of the subagent last.
        let listed = after.iter().position(|(is_output, line)| *is_output && line["id"] == 4).unwrap();
        recover_as_captured(&mut desk, thread, &after, listed);
        let asked = |line: &&(bool, Value)| {
            line.1["method"].as_str().is_some_and(|method| method.ends_with("requestApproval"))
        };
        let asks: Vec<&Value> = after.iter().filter(asked).map(|(_, line)| line).collect();
        assert_eq!(asks.len(), 2);
        for ask in asks {
            let key = desk.conversation.key_of_ask(&ask["id"]).unwrap();
            desk.approve(key.as_str(), ApprovalOutcome::AllowOnce, None);
            let answer = json!({"id": ask["id"], "result": {"decision": "accept"}});
            assert_eq!(*desk.written.last().unwrap(), answer);
        }
        let rest = after[listed + 1..].iter().filter(|(is_output, _)| *is_output);
        desk.lines(&rest.map(|(_, line)| line.clone()).collect::<Vec<_>>());
        assert_eq!(desk.ends(), [DONE], "after {seen} messages");
        desk.assert_lawful(Tail::Live);
        let state = desk.state();
        let of_subagent = state.items.iter().filter(|item| item.parent.is_some());
        let names: Vec<&str> = of_subagent
            .inspect(|item| assert_eq!(item.state, ItemStage::Completed, "{item:?}"))
            .filter_map(|item| item.native_id.as_deref()?.rsplit(':').next())
            .collect();
        assert_eq!(names, ["msg_7", "call_8", "msg_10"], "after {seen} messages");
        // Two calls of the subagent, and two of the thread.
        let tokens = state.turns[0].usage.as_ref().unwrap();
        assert_eq!((tokens.output, tokens.reasoning), (Some(4 * 40), Some(4 * 20)));
    }
}
