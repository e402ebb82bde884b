//! What each kind of event becomes, message by message.

use super::client::Screen;
use super::{encode, log, messages};
use serde_json::{Value, json};
use turnstream_dialects::acp::{AcpEvent, Encoder};
use turnstream_model::event::Shown;

const TURN: &str = r#"{"type":"turn.started","turn":"t1","origin":"prompt","prompts":[]}"#;
const MESSAGE: &str =
    r#"{"type":"item.started","turn":"t1","item":"i1","kind":"message","role":"assistant","text":""}"#;
const CALL: &str = r#"{"type":"item.started","turn":"t1","item":"i2","kind":"tool","tool":{"name":"bash","kind":"execute","title":"Run ls","status":"in_progress","input":{"command":"ls"}}}"#;

fn update(rest: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"ses_1","update":{{"sessionUpdate":{rest}}}}}}}"#
    )
}

fn ours(method: &str, rest: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"_turnstream/{method}","params":{{"sessionId":"ses_1"{rest}}}}}"#)
}

#[test]
fn text_and_reasoning_are_chunks_of_their_own_messages() {
    let got = messages(&[
        TURN,
        MESSAGE,
        r#"{"type":"item.started","turn":"t1","item":"i2","kind":"reasoning","text":"Hm"}"#,
        r#"{"type":"item.delta","turn":"t1","item":"i1","text":"Hel\"\n"}"#,
        r#"{"type":"item.delta","turn":"t1","item":"i2","text":"m."}"#,
        r#"{"type":"item.ended","turn":"t1","item":"i1","state":"completed"}"#,
    ]);
    let chunk = |kind: &str, item: &str, text: &str| {
        update(&format!(r#""{kind}","content":{{"type":"text","text":"{text}"}},"messageId":"{item}""#))
    };
    let want = [
        chunk("agent_thought_chunk", "i2", "Hm"),
        chunk("agent_message_chunk", "i1", r#"Hel\"\n"#),
        chunk("agent_thought_chunk", "i2", "m."),
    ];
    assert_eq!(got, want);
}

#[test]
fn rewritten_text_is_a_mark_and_never_text_twice() {
    let got = messages(&[
        TURN,
        MESSAGE,
        r#"{"type":"item.delta","turn":"t1","item":"i1","text":"Helo\n"}"#,
        r#"{"type":"item.replaced","turn":"t1","item":"i1","text":"Hello"}"#,
    ]);
    let mark = r#""agent_message_chunk","content":{"type":"text","text":""},"messageId":"i1","_meta":{"turnstream":{"replace":{"field":"text","text":"Hello"}}}"#;
    assert_eq!(got[1..], [update(mark)]);
}

#[test]
fn what_was_never_shown_is_simply_shown_when_it_is_rewritten() {
    let got =
        messages(&[TURN, MESSAGE, r#"{"type":"item.replaced","turn":"t1","item":"i1","text":"Hello"}"#]);
    assert_eq!(
        got,
        [update(r#""agent_message_chunk","content":{"type":"text","text":"Hello"},"messageId":"i1""#)]
    );
}

#[test]
fn a_repeated_model_call_voids_what_the_first_one_showed() {
    let lines = [
        TURN,
        r#"{"type":"attempt.started","turn":"t1","attempt":"a1","step":1}"#,
        r#"{"type":"item.started","turn":"t1","attempt":"a1","item":"i1","kind":"message","role":"assistant","text":"Hal"}"#,
        r#"{"type":"item.started","turn":"t1","attempt":"a1","item":"i2","kind":"tool","tool":{"name":"x","status":"pending"}}"#,
        r#"{"type":"item.started","turn":"t1","attempt":"a1","item":"i3","kind":"message","role":"assistant","text":""}"#,
        r#"{"type":"attempt.started","turn":"t1","attempt":"a2","step":1}"#,
        r#"{"type":"attempt.superseded","turn":"t1","attempt":"a1","by":"a2","items":["i1","i2","i3"]}"#,
        r#"{"type":"item.started","turn":"t1","attempt":"a2","item":"i4","kind":"message","role":"assistant","text":"Hello"}"#,
    ];
    let got = messages(&lines);
    let void = r#""_meta":{"turnstream":{"void":"superseded"}}"#;
    assert_eq!(
        got[2..4],
        [
            update(&format!(
                r#""agent_message_chunk","content":{{"type":"text","text":""}},"messageId":"i1",{void}"#
            )),
            update(&format!(r#""tool_call_update","toolCallId":"i2","status":"failed",{void}"#)),
        ]
    );
    let screen = Screen::of(&encode(&log(&lines)));
    assert_eq!(screen.messages.keys().collect::<Vec<_>>(), ["i4"]);
    assert!(screen.calls.is_empty());
}

#[test]
fn a_call_is_announced_once_and_never_left_open() {
    let got = messages(&[
        TURN,
        CALL,
        r#"{"type":"item.delta","turn":"t1","item":"i2","field":"output","text":"a\n"}"#,
        r#"{"type":"item.updated","turn":"t1","item":"i2","tool":{"output":"a\n"}}"#,
        r#"{"type":"item.ended","turn":"t1","item":"i2","state":"unknown","caused_by":"agent_exited"}"#,
    ]);
    let want = [
        r#""tool_call","toolCallId":"i2","title":"Run ls","name":"bash","kind":"execute","status":"in_progress","rawInput":{"command":"ls"}"#,
        r#""tool_call_update","toolCallId":"i2","_meta":{"turnstream":{"delta":{"field":"output","text":"a\n"}}}"#,
        r#""tool_call_update","toolCallId":"i2","rawOutput":{"output":"a\n"}"#,
        r#""tool_call_update","toolCallId":"i2","status":"failed","_meta":{"turnstream":{"ended":{"state":"unknown","causedBy":"agent_exited"}}}"#,
    ];
    assert_eq!(got, want.map(update));
}

#[test]
fn a_call_that_ends_as_its_status_said_is_not_updated_again() {
    let got = messages(&[
        TURN,
        CALL,
        r#"{"type":"item.updated","turn":"t1","item":"i2","tool":{"status":"completed","output":{"ok":true}}}"#,
        r#"{"type":"item.ended","turn":"t1","item":"i2","state":"completed"}"#,
    ]);
    assert_eq!(
        got[1..],
        [update(r#""tool_call_update","toolCallId":"i2","status":"completed","rawOutput":{"ok":true}"#)]
    );
}

#[test]
fn what_a_subagent_does_names_its_call_and_its_sessions() {
    let got = messages(&[
        r#"{"type":"session.updated","native_id":"ses_parent"}"#,
        TURN,
        r#"{"type":"item.started","turn":"t1","item":"i1","kind":"tool","tool":{"name":"task","subagent_session":"ses_child"}}"#,
        r#"{"type":"item.started","turn":"t1","item":"i2","parent":"i1","kind":"message","role":"assistant","text":"Mine"}"#,
        r#"{"type":"item.started","turn":"t1","item":"i3","parent":"i1","kind":"tool","tool":{"name":"task","subagent_session":"ses_grandchild"}}"#,
        r#"{"type":"item.started","turn":"t1","item":"i4","parent":"i3","kind":"reasoning","text":"Deep"}"#,
        r#"{"type":"item.started","turn":"t1","item":"i5","parent":"i1","kind":"plan","text":"- [ ] child"}"#,
    ]);
    let meta = |message: &String| {
        serde_json::from_str::<Value>(message).unwrap()["params"]["update"]["_meta"]["turnstream"].clone()
    };
    assert_eq!(meta(&got[0]), json!({"tool": {"subagent_session": "ses_child"}}));
    let child = json!({"parent": "i1", "session": "ses_child", "parentSession": "ses_parent"});
    assert_eq!(meta(&got[1]), child);
    assert_eq!(meta(&got[2])["parent"], "i1");
    assert_eq!(
        meta(&got[3]),
        json!({"parent": "i3", "session": "ses_grandchild", "parentSession": "ses_child"})
    );
    // A plan of a subagent would take the place of the agent's own.
    let tag = r#","_meta":{"turnstream":{"parent":"i1","session":"ses_child","parentSession":"ses_parent"}}"#;
    let note = |news: &str| ours("item", &format!(r#","item":"i5","kind":"plan","news":{news}{tag}"#));
    assert_eq!(got[4..], [note(r#""started""#), note(r#""delta","text":"- [ ] child""#)]);
}

#[test]
fn a_message_that_turns_out_to_be_a_subagents_is_moved() {
    let lines = [
        TURN,
        r#"{"type":"item.started","turn":"t1","item":"i1","kind":"message","role":"assistant","text":"Mine"}"#,
        CALL,
        r#"{"type":"item.updated","turn":"t1","item":"i1","parent":"i2"}"#,
    ];
    let got = messages(&lines);
    let moved = r#""agent_message_chunk","content":{"type":"text","text":""},"messageId":"i1","_meta":{"turnstream":{"parent":"i2"}}"#;
    assert_eq!(got[2], update(moved));
}

#[test]
fn a_prompt_is_shown_once_though_the_agent_repeats_it() {
    let got = messages(&[
        r#"{"type":"prompt.accepted","prompt":"p1","content":[{"type":"text","text":"Hi"},{"type":"resource_link","name":"a.rs","uri":"file:///a.rs"}]}"#,
        r#"{"type":"prompt.sent","prompt":"p1","native_id":"msg_1"}"#,
        r#"{"type":"turn.started","turn":"t1","origin":"prompt","prompts":["p1"]}"#,
        r#"{"type":"prompt.taken","turn":"t1","prompt":"p1"}"#,
        r#"{"type":"item.started","turn":"t1","item":"i1","kind":"message","role":"user","text":""}"#,
        r#"{"type":"item.delta","turn":"t1","item":"i1","text":"Hi\n"}"#,
        r#"{"type":"item.ended","turn":"t1","item":"i1","state":"completed"}"#,
        r#"{"type":"item.started","turn":"t1","item":"i2","kind":"message","role":"user","text":"Somebody else's"}"#,
        r#"{"type":"item.started","turn":"t1","item":"i3","kind":"message","role":"user","synthetic":true,"text":"Hi"}"#,
    ]);
    let said = |rest: &str| update(&format!(r#""user_message_chunk","content":{rest}"#));
    let want = [
        said(r#"{"type":"text","text":"Hi"},"messageId":"p1""#),
        said(r#"{"type":"resource_link","name":"a.rs","uri":"file:///a.rs"},"messageId":"p1""#),
        said(r#"{"type":"text","text":"Somebody else's"},"messageId":"i2""#),
        said(r#"{"type":"text","text":"Hi"},"messageId":"i3","_meta":{"turnstream":{"synthetic":true}}"#),
    ];
    assert_eq!(got, want);
}

#[test]
fn a_plan_is_whole_each_time() {
    let got = messages(&[
        TURN,
        r#"{"type":"item.started","turn":"t1","item":"i1","kind":"plan","text":""}"#,
        r#"{"type":"item.delta","turn":"t1","item":"i1","text":"[{\"content\":\"Read\",\"status\":\"pending\",\"priority\":\"high\"}]"}"#,
        r#"{"type":"item.replaced","turn":"t1","item":"i1","text":"[{\"content\":\"Read\",\"status\":\"completed\",\"priority\":\"high\"}]"}"#,
        r#"{"type":"item.ended","turn":"t1","item":"i1","state":"completed"}"#,
    ]);
    let plan = |status: &str| {
        update(&format!(r#""plan","entries":[{{"content":"Read","priority":"high","status":"{status}"}}]"#))
    };
    assert_eq!(got, [plan("pending"), plan("completed")]);
}

#[test]
fn a_plan_that_is_written_token_by_token_is_sent_line_by_line() {
    let mut lines = vec![TURN.to_owned()];
    lines.push(r#"{"type":"item.started","turn":"t1","item":"i1","kind":"plan","text":""}"#.to_owned());
    for token in ["-", " [ ]", " one", "\n- [ ] ", "two", " more"] {
        lines.push(json!({"type": "item.delta", "turn": "t1", "item": "i1", "text": token}).to_string());
    }
    lines.push(r#"{"type":"item.ended","turn":"t1","item":"i1","state":"completed"}"#.to_owned());
    let got = messages(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(got.len(), 3, "{got:#?}");
    let entry =
        |content: &str| format!(r#"{{"content":"{content}","priority":"medium","status":"pending"}}"#);
    assert_eq!(got[2], update(&format!(r#""plan","entries":[{},{}]"#, entry("one"), entry("two more"))));
}

#[test]
fn a_permission_is_a_request_that_is_taken_back_when_it_is_settled() {
    let got = messages(&[
        TURN,
        CALL,
        r#"{"type":"approval.requested","turn":"t1","item":"i2","approval":"q1","tool":{"name":"bash","input":{"command":"ls"}},"options":[{"id":"o","kind":"reject_always","name":"Never"}]}"#,
        r#"{"type":"approval.resolved","turn":"t1","approval":"q1","outcome":"reject","by":"client"}"#,
        r#"{"type":"approval.requested","turn":"t1","approval":"q2","options":[]}"#,
    ]);
    let request = |id: &str, rest: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":"ses_1/{id}","method":"session/request_permission","params":{{"sessionId":"ses_1","toolCall":{rest}}}}}"#
        )
    };
    assert_eq!(
        got[1..],
        [
            request("q1", r#"{"toolCallId":"i2","name":"bash","rawInput":{"command":"ls"}},"options":[{"optionId":"o","name":"Never","kind":"reject_always"}]"#),
            r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"ses_1/q1","_meta":{"turnstream":{"outcome":"reject"}}}}"#.to_owned(),
            request("q2", r#"{"toolCallId":"q2","title":"Permission"},"options":[{"optionId":"allow_once","name":"Allow once","kind":"allow_once"},{"optionId":"allow_always","name":"Always allow","kind":"allow_always"},{"optionId":"reject","name":"Reject","kind":"reject_once"}]"#),
        ]
    );
}

#[test]
fn a_question_is_ours_or_a_form() {
    let out = encode(&log(&[
        TURN,
        CALL,
        r#"{"type":"question.asked","turn":"t1","item":"i2","question":"u1","questions":[{"id":"0","text":"DB?","options":[{"label":"PG","description":"Big"},{"label":"Lite"}],"multiple":false,"custom":true},{"id":"1","text":"Which?","options":[{"label":"A"}],"multiple":true,"custom":false},{"id":"2","text":"Name?"}]}"#,
    ]));
    let AcpEvent::Question(question) = &out[1] else { panic!("{out:?}") };
    assert_eq!(
        out[1].to_json("ses_1"),
        r#"{"jsonrpc":"2.0","id":"ses_1/u1","method":"_turnstream/question","params":{"sessionId":"ses_1","question":"u1","toolCallId":"i2","questions":[{"id":"0","text":"DB?","options":[{"label":"PG","description":"Big"},{"label":"Lite"}],"multiple":false,"custom":true},{"id":"1","text":"Which?","options":[{"label":"A"}],"multiple":true,"custom":false},{"id":"2","text":"Name?","options":[],"multiple":false,"custom":false}]}}"#
    );
    super::judge::Judge::get().check(&out[1]);
    let form = serde_json::to_value(question.to_elicitation("ses_1")).unwrap();
    let choice = |label: &str| json!({"const": label, "title": label});
    assert_eq!(form["message"], "The agent has 3 questions.");
    assert_eq!(form["requestedSchema"]["required"], json!(["1", "2"]));
    let properties = &form["requestedSchema"]["properties"];
    let with_text = json!({"const": "PG", "title": "PG", "description": "Big"});
    assert_eq!(
        properties["0"],
        json!({"type": "string", "title": "DB?", "oneOf": [with_text, choice("Lite")]})
    );
    assert_eq!(properties["0.other"], json!({"type": "string", "title": "DB? (other)"}));
    assert_eq!(properties["1"]["items"]["anyOf"], json!([choice("A")]));
    assert_eq!(properties["2"], json!({"type": "string", "title": "Name?"}));
}

#[test]
fn status_notices_and_signs_of_life_are_extensions() {
    let got = messages(&[
        r#"{"type":"session.status","status":"retrying","attempt":2,"reason":"overloaded","until":1794771760000}"#,
        r#"{"type":"notice","code":"gap","message":"cut","detail":{"a":1}}"#,
        r#"{"type":"session.ended","reason":"deleted"}"#,
        r#"{"type":"brand.new","x":1}"#,
    ]);
    let want = [
        ours("status", r#","status":"retrying","attempt":2,"reason":"overloaded","until":1794771760000"#),
        ours("notice", r#","code":"gap","message":"cut","detail":{"a":1}"#),
        ours("session_ended", r#","reason":"deleted""#),
    ];
    assert_eq!(got, want);
    assert_eq!(AcpEvent::KeepAlive.to_json("ses_1"), ours("keep_alive", ""));
}

#[test]
fn the_session_tells_its_title_and_how_full_its_context_is() {
    let got = messages(&[
        r#"{"type":"session.updated","title":"T","model":"m","mode":"build","context":{"used":10}}"#,
        r#"{"type":"session.updated","context":{"used":12,"size":100}}"#,
        TURN,
        r#"{"type":"turn.ended","turn":"t1","outcome":"completed","stop_reason":"end_turn","cost":{"amount":0.25,"currency":"USD"}}"#,
        r#"{"type":"session.updated","context":{"used":13,"size":100}}"#,
    ]);
    let info =
        update(r#""session_info_update","title":"T","_meta":{"turnstream":{"model":"m","mode":"build"}}"#);
    let usage = |used: u8, rest: &str| update(&format!(r#""usage_update","used":{used},"size":100{rest}"#));
    let cost = r#","cost":{"amount":0.25,"currency":"USD"}"#;
    assert_eq!(got[..3], [info, usage(12, ""), usage(12, cost)]);
    assert_eq!(got[4], usage(13, cost));
}

#[test]
fn late_news_is_no_update_of_a_turn_that_is_over() {
    let got = messages(&[
        TURN,
        MESSAGE,
        CALL,
        r#"{"type":"item.ended","turn":"t1","item":"i1","state":"abandoned","incomplete":true}"#,
        r#"{"type":"item.ended","turn":"t1","item":"i2","state":"unknown"}"#,
        r#"{"type":"turn.ended","turn":"t1","outcome":"cancelled"}"#,
        r#"{"type":"item.revised","turn":"t1","item":"i1","late":true,"state":"completed","text":"All of it"}"#,
        r#"{"type":"item.revised","turn":"t1","item":"i2","late":true,"state":"completed","tool":{"status":"completed","output":"ok"}}"#,
        r#"{"type":"item.removed","item":"i2"}"#,
    ]);
    let want = [
        r#","item":"i1","kind":"message","role":"assistant","turn":"t1","state":"completed","text":"All of it""#,
        r#","item":"i2","kind":"tool","turn":"t1","state":"completed","toolCall":{"toolCallId":"i2","status":"completed","rawOutput":{"output":"ok"}}"#,
        r#","item":"i2","kind":"tool","void":"removed""#,
    ];
    assert_eq!(got[got.len() - 3..], want.map(|rest| ours("revised", rest)));
}

#[test]
fn what_acp_has_no_place_for_is_a_note_and_never_the_agents_text() {
    let got = messages(&[
        TURN,
        r#"{"type":"item.started","turn":"t1","item":"i1","kind":"compaction","text":"Summary"}"#,
        r#"{"type":"item.ended","turn":"t1","item":"i1","state":"completed"}"#,
    ]);
    let note = |news: &str| ours("item", &format!(r#","item":"i1","kind":"compaction","news":{news}"#));
    let want = [
        note(r#""started""#),
        note(r#""delta","text":"Summary""#),
        note(r#""ended","ended":{"state":"completed"}"#),
    ];
    assert_eq!(got, want);
}

#[test]
fn a_repeated_delivery_says_nothing() {
    let log = log(&[
        TURN,
        CALL,
        r#"{"type":"item.updated","turn":"t1","item":"i2","tool":{"status":"completed"}}"#,
    ]);
    let (mut encoder, mut out) = (Encoder::new(), Vec::new());
    for event in log.iter().chain(&log) {
        encoder.encode(event, &mut out);
    }
    assert_eq!(out, encode(&log));
}

#[test]
fn the_documentation_maps_every_event() {
    let page = include_str!("../../../../docs/acp.md");
    let mapping = page.split("## Mapping").nth(1).unwrap().split("\n## ").next().unwrap();
    for shown in Shown::ALL {
        let name = format!("`{}`", shown.as_str());
        assert!(mapping.contains(&name), "the mapping in docs/acp.md lacks {name}");
    }
}
