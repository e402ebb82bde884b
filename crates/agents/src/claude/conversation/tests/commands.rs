//! What the keeper asks for, step by step. The agent's lines are those of captures.

use super::playback::{Capture, Desk};
use crate::playback::{End, Fault};
use serde_json::{Value, json};
use turnstream_adapter::Command;
use turnstream_model::event::ErrorClass::InvalidRequest;
use turnstream_model::event::StopReason::EndTurn;
use turnstream_model::event::{ApprovalOutcome, Body, NoticeCode, Origin};
use turnstream_testkit::lawful::Tail;

const DONE: End = End::Completed(EndTurn);
const PROMPT: &str = "11111111-1111-4111-8111-111111111111";
const NEXT: &str = "22222222-2222-4222-8222-222222222222";

/// The lines of a capture that the agent printed.
fn outputs(name: &str) -> Vec<Value> {
    Capture::load(name).into_outputs()
}

fn request(desk: &Desk, subtype: &str) -> Vec<Value> {
    let is_it = |line: &&Value| line["request"]["subtype"] == subtype;
    desk.written.iter().filter(is_it).cloned().collect()
}

fn answer(request: &Value, response: Value) -> Value {
    let id = &request["request_id"];
    json!({"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": response}})
}

fn notices(desk: &Desk) -> Vec<(NoticeCode, String)> {
    let notice = |body: &Body| match body {
        Body::Notice { code, message, .. } => Some((*code, message.clone())),
        _ => None,
    };
    desk.log.iter().filter_map(|event| notice(&event.draft.body)).collect()
}

#[test]
fn a_prompt_is_written_under_its_own_uuid_in_the_agents_content_blocks() {
    let mut desk = Desk::new();
    let content = vec![
        json!({"type": "text", "text": "two\nlines"}),
        json!({"type": "image", "mimeType": "image/png", "data": "AA=="}),
        json!({"type": "image", "mimeType": "image/png", "uri": "https://example.org/a.png"}),
        json!({"type": "resource_link", "uri": "file:///w/a.rs", "name": "a.rs"}),
        json!({"type": "resource", "resource": {"uri": "file:///w/b.txt", "text": "b"}}),
        json!({"type": "resource", "resource": {"uri": "file:///w/c.pdf", "mimeType": "application/pdf", "blob": "AA=="}}),
    ];
    desk.prompt(PROMPT, content);
    let source = json!({"type": "base64", "media_type": "image/png", "data": "AA=="});
    let pdf = json!({"type": "base64", "media_type": "application/pdf", "data": "AA=="});
    let content = json!([
        {"type": "text", "text": "two\nlines"},
        {"type": "image", "source": source},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "text", "text": "[@a.rs](file:///w/a.rs)"},
        {"type": "text", "text": "<resource uri=\"file:///w/b.txt\">\nb\n</resource>"},
        {"type": "document", "source": pdf},
    ]);
    let line = json!({"type": "user", "message": {"role": "user", "content": content},
        "parent_tool_use_id": null, "session_id": "", "uuid": PROMPT});
    assert_eq!(desk.written, [line]);
}

#[test]
fn a_block_that_the_agent_cannot_take_refuses_the_prompt_and_writes_nothing() {
    for block in [
        json!({"type": "audio", "mimeType": "audio/wav", "data": "AA=="}),
        json!({"type": "image", "mimeType": "image/png", "uri": "file:///w/a.png"}),
        json!({"type": "resource", "resource": {"uri": "file:///w/a.zip", "mimeType": "application/zip", "blob": "AA=="}}),
    ] {
        assert!(crate::claude::prompt_content::check(&block).is_err(), "{block}");
        let mut desk = Desk::new();
        desk.prompt(PROMPT, vec![block]);
        assert_eq!((desk.ends(), desk.written.len()), (vec![End::Failed(InvalidRequest, None)], 0));
    }
}

#[test]
fn a_prompt_that_is_sent_while_background_work_wakes_the_agent_gets_its_own_turn() {
    let lines = outputs("j_bash_background");
    let results: Vec<usize> = (0..lines.len()).filter(|at| lines[*at]["type"] == "result").collect();
    let begin = lines.iter().position(|line| line["subtype"] == "task_updated").unwrap();
    // The prompt is written just before the agent shows why it works, and just after.
    for sent in [begin, begin + 1, begin + 2, begin + 3, begin + 4] {
        let mut desk = Desk::new();
        desk.say(PROMPT, "Run in background");
        desk.lines(&lines[..sent]);
        desk.say(NEXT, "And now?");
        desk.lines(&lines[sent..]);
        // Its own turn follows: the lines of the first capture with a second turn.
        desk.lines(&outputs("h_two_turns_state_events")[..1]);
        let turns = desk.state().turns;
        let origins: Vec<Origin> = turns.iter().map(|turn| turn.origin).collect();
        assert_eq!(origins[..2], [Origin::Prompt, Origin::Agent], "at {sent}");
        assert_eq!(desk.ends()[..2], [DONE, DONE], "at {sent}");
        assert_eq!(desk.conversation.prompts.len(), 1, "the prompt still waits for its turn, at {sent}");
        assert_eq!(results.len(), 2);
    }
}

#[test]
fn a_cancelled_prompt_is_taken_from_the_queue_and_never_runs() {
    let mut desk = Desk::new();
    desk.say(PROMPT, "Hello");
    desk.cancel_prompt(PROMPT);
    let withdraw = &request(&desk, "cancel_async_message")[0].clone();
    assert_eq!(withdraw["request"]["message_uuid"], PROMPT);
    assert_eq!(desk.ends(), [], "nobody knows yet");
    desk.lines(&[answer(withdraw, json!({"cancelled": true}))]);
    assert_eq!(desk.ends(), [End::Cancelled]);
    assert_eq!(request(&desk, "interrupt"), [] as [Value; 0]);
}

#[test]
fn a_prompt_that_has_left_the_queue_is_interrupted_when_its_turn_shows() {
    let lines = outputs("e_interrupt_mid_stream");
    let result = lines.iter().position(|line| line["type"] == "result").unwrap();
    let mut desk = Desk::new();
    desk.say(PROMPT, "Write a long text");
    desk.cancel_prompt(PROMPT);
    let withdraw = &request(&desk, "cancel_async_message")[0].clone();
    desk.lines(&[answer(withdraw, json!({"cancelled": false}))]);
    assert_eq!(request(&desk, "interrupt").len(), 0);
    desk.lines(&lines[..=result]);
    assert_eq!(request(&desk, "interrupt").len(), 1);
    assert_eq!(desk.ends(), [End::Cancelled]);
    // A repeat for a turn that is over interrupts nothing.
    desk.cancel_prompt(PROMPT);
    desk.cancel();
    assert_eq!(request(&desk, "interrupt").len(), 1);
    desk.assert_lawful(Tail::Live);
}

/// 2.1.325 answers an interrupt with the prompts that it has not begun with, and then runs them.
#[test]
fn an_interrupt_that_came_before_the_prompt_began_is_repeated_once_it_has() {
    let lines = outputs("e_interrupt_mid_stream");
    let init = lines.iter().position(|line| line["subtype"] == "init").unwrap();
    let result = lines.iter().position(|line| line["type"] == "result").unwrap();
    let mut desk = Desk::new();
    desk.say(PROMPT, "Write a long text");
    desk.lines(&lines[..=init]);
    desk.cancel();
    let first = &request(&desk, "interrupt")[0].clone();
    desk.lines(&[answer(first, json!({"still_queued": [PROMPT]}))]);
    assert_eq!(request(&desk, "interrupt").len(), 1, "nothing shows yet that it runs");
    desk.lines(&lines[init + 1..=init + 1]);
    let second = &request(&desk, "interrupt")[1].clone();
    desk.lines(&[answer(second, json!({"still_queued": []}))]);
    desk.lines(&lines[init + 2..=result]);
    assert_eq!(request(&desk, "interrupt").len(), 2);
    assert_eq!(desk.ends(), [End::Cancelled]);
    desk.assert_lawful(Tail::Live);
}

#[test]
fn an_answer_has_the_input_the_call_and_the_chosen_rule_and_is_given_once() {
    let lines = outputs("d_permission_allow_always");
    let asked = lines.iter().position(|line| line["type"] == "control_request").unwrap();
    let key = lines[asked]["request_id"].as_str().unwrap().to_owned();
    let rules = &lines[asked]["request"]["permission_suggestions"];
    let input = &lines[asked]["request"]["input"];
    let base = json!({"behavior": "allow", "updatedInput": input, "toolUseID": "toolu_fake000029"});
    let with = |rule: &Value| {
        let mut response = base.clone();
        response["updatedPermissions"] = json!([rule]);
        response
    };
    let denied = json!({"behavior": "deny", "message": "The user rejected this tool use.",
        "toolUseID": "toolu_fake000029"});
    for (outcome, option, response) in [
        (ApprovalOutcome::AllowOnce, None, base.clone()),
        (ApprovalOutcome::AllowAlways, None, with(&rules[0])),
        (ApprovalOutcome::AllowAlways, Some("always"), with(&rules[0])),
        (ApprovalOutcome::AllowAlways, Some("always-3"), with(&rules[2])),
        (ApprovalOutcome::Reject, Some("reject"), denied),
    ] {
        let mut desk = Desk::new();
        desk.say(PROMPT, "Create a file");
        desk.lines(&lines[..=asked]);
        desk.approve(&key, outcome, option);
        desk.approve(&key, outcome, option);
        let response = json!({"subtype": "success", "request_id": key, "response": response});
        assert_eq!(desk.written[1..], [json!({"type": "control_response", "response": response})]);
    }
}

#[test]
fn several_answers_to_a_question_are_one_text_under_the_question() {
    let lines = outputs("l_ask_user_question");
    let asked = lines.iter().position(|line| line["type"] == "control_request").unwrap();
    let key = lines[asked]["request_id"].as_str().unwrap().to_owned();
    let mut desk = Desk::new();
    desk.say(PROMPT, "Ask me");
    desk.lines(&lines[..=asked]);
    let labels = json!({"0": ["Postgres", "SQLite"]});
    desk.answer(&key, labels.as_object().cloned());
    let response = &desk.written[1]["response"]["response"];
    assert_eq!(
        response["updatedInput"]["answers"],
        json!({"Which database should we use?": "Postgres, SQLite"})
    );
    assert_eq!(response["updatedInput"]["questions"], lines[asked]["request"]["input"]["questions"]);
}

#[test]
fn a_setting_that_the_agent_refuses_is_reported() {
    let mut desk = Desk::new();
    let (model, mode) = (Some("opus".to_owned()), Some("plan".to_owned()));
    desk.command(Command::Change { model, mode, permissions: None });
    let bodies: Vec<&Value> = desk.written.iter().map(|line| &line["request"]).collect();
    let expected = [
        json!({"subtype": "set_model", "model": "opus"}),
        json!({"subtype": "set_permission_mode", "mode": "plan"}),
    ];
    assert_eq!(bodies, expected.iter().collect::<Vec<_>>());
    let refused = outputs("m_controls").into_iter().find(|line| line["response"]["subtype"] == "error");
    let mut refused = refused.unwrap();
    refused["response"]["request_id"] = desk.written[1]["request_id"].clone();
    desk.lines(&[refused]);
    let [(NoticeCode::Degraded, message)] = &notices(&desk)[..] else { panic!("{:?}", notices(&desk)) };
    assert!(message.contains("\"plan\""), "{message}");
}

#[test]
fn a_request_that_is_not_known_is_answered_with_an_error() {
    let mut desk = Desk::new();
    // No capture has one: only the subtype of a captured request is changed.
    let asked = outputs("l_ask_user_question").into_iter().find(|line| line["type"] == "control_request");
    let mut asked = asked.unwrap();
    asked["request"]["subtype"] = json!("no_such_subtype");
    desk.lines(&[asked.clone()]);
    let error = "the request \"no_such_subtype\" is not supported";
    let response = json!({"subtype": "error", "request_id": asked["request_id"], "error": error});
    assert_eq!(desk.written, [json!({"type": "control_response", "response": response})]);
}

#[test]
fn unknown_lines_are_reported_once_and_end_nothing() {
    let lines = outputs("a_plain_text");
    let mut desk = Desk::new();
    desk.say(PROMPT, "Say hello");
    for line in &lines {
        desk.lines(&[
            json!({"type": "new_thing"}),
            json!({"type": "system", "subtype": "new", "status": {}}),
        ]);
        desk.lines(std::slice::from_ref(line));
    }
    assert_eq!(desk.ends(), [DONE]);
    let unknown =
        |kind: &str| (NoticeCode::UnknownEvent, format!("Claude Code sent {kind:?}, which is not known"));
    assert_eq!(notices(&desk), [unknown("new_thing"), unknown("system/new")]);
}

#[test]
fn half_a_character_at_the_end_of_a_delta_waits_for_its_other_half() {
    let mut desk = Desk::new();
    desk.say(PROMPT, "Say hello");
    let mut deltas = 0;
    for line in outputs("a_plain_text") {
        let mut line = line.to_string();
        if line.contains("text_delta") {
            deltas += 1;
            // The captured texts have no such character: a half is added to two of them.
            let begin = line.find("\"text\":\"").unwrap() + 8;
            let end = begin + line[begin..].find('"').unwrap();
            match deltas {
                1 => line.insert_str(end, "\\ud83d"),
                2 => line.insert_str(begin, "\\ude00"),
                _ => {}
            }
        }
        desk.line(&line);
    }
    let delta = |body: &Body| match body {
        Body::ItemDelta { text, .. } => Some(text.clone()),
        _ => None,
    };
    let texts: Vec<String> = desk.log.iter().filter_map(|event| delta(&event.draft.body)).collect();
    assert!(texts[1].starts_with('😀'), "{texts:?}");
    assert!(!texts.concat().contains('\u{FFFD}'), "{texts:?}");
    assert_eq!((desk.ends(), notices(&desk)), (vec![DONE], Vec::new()));
}

#[test]
fn a_missed_result_is_made_up_for_by_the_idle_that_follows() {
    let lines = outputs("h_two_turns_state_events");
    let result = lines.iter().position(|line| line["type"] == "result").unwrap();
    assert_eq!(lines[result + 1]["state"], "idle");
    let mut desk = Desk::new();
    desk.say(PROMPT, "One");
    desk.lines(&lines[..result]);
    desk.conversation.oversized(1 << 30, turnstream_model::time::Time(desk.now));
    desk.lines(&lines[result + 1..=result + 1]);
    desk.pass(60_000);
    assert_eq!(desk.ends(), [DONE]);
}

/// Each turn has what the cumulative numbers of the process grew by; an interrupted call is not zero.
#[test]
fn the_usage_of_a_turn_is_the_difference_of_two_results() {
    let used = |name: &str| -> Vec<Option<(u64, u64)>> {
        let turns = Capture::load(name).play(Fault::None).state().turns;
        let usage = |turn: &turnstream_model::fold::Turn| {
            turn.usage.as_ref().map(|usage| (usage.input.unwrap(), usage.output.unwrap()))
        };
        turns.iter().map(usage).collect()
    };
    // Two calls, then one.
    assert_eq!(used("h_two_turns"), [Some((2400, 84)), Some((1200, 42))]);
    assert_eq!(used("e_interrupt_mid_stream"), [None, Some((1200, 42))]);
    // Counted by nobody: the agent had no answer.
    assert_eq!(used("f_401"), [None]);
    // `result.usage` is zero there.
    assert_eq!(used("g_cut_clean_eof"), [Some((1200, 42))]);
    // Three calls of the subagent and of the turn it wakes.
    assert_eq!(used("j_subagent_background"), [Some((2400, 84)), Some((3600, 126))]);
    // A new process counts from zero.
    assert_eq!(used("k_kill_then_resume")[1], Some((1200, 42)));
}
