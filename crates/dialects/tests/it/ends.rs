//! The terminator: which stop reason, which code, how often.

use super::judge::Judge;
use super::{encode, log};
use serde_json::{Value, json};
use turnstream_dialects::acp::AcpEvent;
use turnstream_dialects::acp::schema::RequestId;
use turnstream_model::event::ErrorClass;

/// The answer to the prompt of a turn that ended so, after a model call with this finish.
fn answer(finish: Option<&str>, ended: &Value) -> Value {
    let mut attempt = json!({"type": "attempt.ended", "turn": "t1", "attempt": "a1"});
    if let Some(finish) = finish {
        attempt["finish"] = finish.into();
    }
    let mut end = json!({"type": "turn.ended", "turn": "t1"});
    end.as_object_mut().unwrap().extend(ended.as_object().unwrap().clone());
    let log = log(&[
        r#"{"type":"session.created","session":"ses_1","agent":"opencode","cwd":"/srv/project"}"#,
        r#"{"type":"turn.started","turn":"t1","origin":"prompt","prompts":["p1"]}"#,
        r#"{"type":"attempt.started","turn":"t1","attempt":"a1","step":1}"#,
        &attempt.to_string(),
        &end.to_string(),
    ]);
    let out = encode(&log);
    let terminators: Vec<&AcpEvent> = out.iter().filter(|event| event.is_terminator()).collect();
    let [only] = terminators.as_slice() else { panic!("{out:?}") };
    Judge::get().check(only);
    let mut response = Vec::new();
    assert!(only.write_response(&RequestId::Number(4), &mut response));
    let response: Value = serde_json::from_slice(&response).unwrap();
    assert_eq!(response["id"], 4);
    response
}

#[test]
fn every_end_has_its_stop_reason() {
    let completed = |reason: &str| json!({"outcome": "completed", "stop_reason": reason});
    let failed = |class: &str| json!({"outcome": "failed", "error": {"class": class, "message": "m"}});
    let table = [
        (Some("stop"), completed("end_turn"), "end_turn"),
        (None, completed("end_turn"), "end_turn"),
        (Some("unknown"), completed("end_turn"), "end_turn"),
        (Some("tool-calls"), completed("end_turn"), "end_turn"),
        // opencode goes idle the same way whether the model was done or cut off (capture j4): its last
        // finish tells.
        (Some("length"), completed("end_turn"), "max_tokens"),
        (Some("max_tokens"), completed("end_turn"), "max_tokens"),
        (Some("content-filter"), completed("end_turn"), "refusal"),
        (Some("content_filter"), completed("end_turn"), "refusal"),
        (Some("stop"), completed("max_tokens"), "max_tokens"),
        (Some("stop"), completed("max_turn_requests"), "max_turn_requests"),
        (Some("stop"), completed("refusal"), "refusal"),
        // A person said no: not a success, and not the model's refusal.
        (Some("tool-calls"), completed("rejected"), "cancelled"),
        (Some("stop"), json!({"outcome": "cancelled"}), "cancelled"),
        (Some("length"), json!({"outcome": "cancelled"}), "cancelled"),
        (None, failed("cancelled"), "cancelled"),
        (None, failed("output_limit"), "max_tokens"),
        (None, failed("refused"), "refusal"),
    ];
    for (finish, ended, want) in table {
        let response = answer(finish, &ended);
        assert_eq!(response["result"]["stopReason"], want, "{finish:?} {ended}");
        assert_eq!(response["result"]["_meta"]["turnstream"]["outcome"], ended["outcome"]);
        assert_eq!(response["result"]["_meta"]["turnstream"]["stopReason"], ended["stop_reason"]);
    }
}

#[test]
fn every_class_of_error_has_its_code() {
    let code = |class: ErrorClass, status: Option<u16>| {
        let mut error = json!({"class": class, "message": "m"});
        if let Some(status) = status {
            error["status"] = status.into();
        }
        let response = answer(None, &json!({"outcome": "failed", "error": error}));
        response["error"]["code"].as_i64()
    };
    let answered = [ErrorClass::Cancelled, ErrorClass::OutputLimit, ErrorClass::Refused];
    let timeouts = [ErrorClass::Stalled, ErrorClass::NotStarted, ErrorClass::Timeout];
    let streams = [
        ErrorClass::Unreachable,
        ErrorClass::TransportLost,
        ErrorClass::StreamCorrupt,
        ErrorClass::StreamSpliced,
        ErrorClass::Incomplete,
        ErrorClass::NotAStream,
        ErrorClass::AgentExited,
    ];
    for &class in ErrorClass::ALL {
        let want = match class {
            class if answered.contains(&class) => None,
            class if timeouts.contains(&class) => Some(-1),
            class if streams.contains(&class) => Some(-3),
            _ => Some(-2),
        };
        assert_eq!(code(class, None), want, "{class}");
        if want.is_some() {
            assert_eq!(code(class, Some(503)), Some(503), "{class}");
            assert_eq!(
                code(class, Some(200)),
                want,
                "{class}: a failure inside of a 200 has no status of its own"
            );
        }
    }
}

#[test]
fn an_error_says_what_is_known_of_it_and_quotes_at_most_200_characters() {
    let error = json!({
        "class": "rate_limited", "message": "é".repeat(5_000), "status": 429, "retry_at": 1_794_771_760_000_u64,
        "request_id": "req_1", "name": "APIError"
    });
    let response = answer(
        None,
        &json!({"outcome": "failed", "error": error, "usage": {"input": 3}, "cost": {"amount": 0.5, "currency": "USD"}}),
    );
    assert_eq!(
        response["error"],
        json!({
            "code": 429, "message": "é".repeat(200),
            "data": {
                "class": "rate_limited", "name": "APIError", "status": 429, "requestId": "req_1",
                "retryAt": 1_794_771_760_000_u64, "turn": "t1", "outcome": "failed", "usage": {"input": 3},
                "cost": {"amount": 0.5, "currency": "USD"}
            }
        })
    );
}

#[test]
fn a_lost_turn_is_an_error_also_when_nobody_knows_why() {
    let response = answer(Some("stop"), &json!({"outcome": "lost"}));
    let message = "it cannot be known any more how the turn ended";
    let data = json!({"class": "transport_lost", "turn": "t1", "outcome": "lost"});
    assert_eq!(response["error"], json!({"code": -3, "message": message, "data": data}));
}

#[test]
fn tokens_and_cost_are_on_the_terminator_and_what_is_unknown_is_not_zero() {
    let usage = json!({"input": 100, "output": 5, "reasoning": 2, "cache_read": 1000, "cache_write": 7});
    let cost = json!({"amount": 0.01, "currency": "USD"});
    let ended = json!({"outcome": "completed", "stop_reason": "end_turn", "usage": usage, "cost": cost});
    let result = &answer(Some("stop"), &ended)["result"];
    assert_eq!(
        result["usage"],
        json!({"totalTokens": 1114, "inputTokens": 100, "outputTokens": 5, "thoughtTokens": 2,
            "cachedReadTokens": 1000, "cachedWriteTokens": 7})
    );
    assert_eq!(result["_meta"]["turnstream"]["usage"], usage);
    assert_eq!(result["_meta"]["turnstream"]["cost"], cost);
    let ended = json!({"outcome": "completed", "stop_reason": "end_turn", "usage": {"output": 5}});
    let result = &answer(Some("stop"), &ended)["result"];
    assert_eq!(result["usage"], Value::Null);
    assert_eq!(result["_meta"]["turnstream"]["usage"], json!({"output": 5}));
}

#[test]
fn only_the_last_model_call_decides() {
    let out = encode(&log(&[
        r#"{"type":"turn.started","turn":"t1","origin":"prompt","prompts":[]}"#,
        r#"{"type":"attempt.started","turn":"t1","attempt":"a1","step":1}"#,
        r#"{"type":"attempt.ended","turn":"t1","attempt":"a1","finish":"length"}"#,
        r#"{"type":"attempt.started","turn":"t1","attempt":"a2","step":2}"#,
        r#"{"type":"attempt.ended","turn":"t1","attempt":"a2","finish":"stop"}"#,
        r#"{"type":"turn.ended","turn":"t1","outcome":"completed","stop_reason":"end_turn"}"#,
        r#"{"type":"turn.started","turn":"t2","origin":"prompt","prompts":[]}"#,
        r#"{"type":"turn.ended","turn":"t2","outcome":"completed","stop_reason":"end_turn"}"#,
    ]));
    let stops: Vec<String> = out.iter().map(|event| Judge::get().check(event)).collect();
    assert_eq!(stops.len(), 2);
    assert!(stops.iter().all(|stop| stop.contains(r#""stopReason":"end_turn""#)), "{stops:?}");
}

#[test]
fn a_turn_that_took_two_prompts_answers_both_and_a_withdrawn_one_is_answered_too() {
    let out = encode(&log(&[
        r#"{"type":"prompt.accepted","prompt":"p1","content":[{"type":"text","text":"one"}]}"#,
        r#"{"type":"prompt.accepted","prompt":"p2","content":[{"type":"text","text":"two"}]}"#,
        r#"{"type":"prompt.accepted","prompt":"p3","content":[{"type":"text","text":"three"}]}"#,
        r#"{"type":"turn.started","turn":"t1","origin":"prompt","prompts":["p1"]}"#,
        r#"{"type":"prompt.taken","turn":"t1","prompt":"p1"}"#,
        r#"{"type":"prompt.taken","turn":"t1","prompt":"p2"}"#,
        r#"{"type":"prompt.withdrawn","prompt":"p3"}"#,
        r#"{"type":"turn.ended","turn":"t1","outcome":"completed","stop_reason":"end_turn"}"#,
    ]));
    let ends: Vec<_> = out
        .iter()
        .filter_map(|event| match event {
            AcpEvent::End(end) => Some(end.prompts.iter().map(|prompt| prompt.as_str()).collect::<Vec<_>>()),
            _ => None,
        })
        .collect();
    assert_eq!(ends, [["p1", "p2"]]);
    let withdrawn = out.iter().find(|event| matches!(event, AcpEvent::Withdrawn(_))).unwrap();
    let mut response = Vec::new();
    assert!(withdrawn.write_response(&RequestId::Str("x".into()), &mut response));
    assert_eq!(response, br#"{"jsonrpc":"2.0","id":"x","result":{"stopReason":"cancelled"}}"#);
    assert!(!AcpEvent::KeepAlive.write_response(&RequestId::Null, &mut response));
}
