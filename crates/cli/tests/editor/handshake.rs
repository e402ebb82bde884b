//! The beginning of a connection, and what is not part of the protocol.

use crate::driver::Editor;
use crate::support::{Home, set_token};
use serde_json::{Value, json};

fn code(answer: Result<Value, Value>) -> i64 {
    answer.unwrap_err()["code"].as_i64().unwrap()
}

#[test]
fn the_version_is_negotiated_and_what_nobody_knows_is_refused() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let mut editor = Editor::start(&home, &[]);
    // Before initialize nothing else is answered with a result.
    let early = json!({"cwd": home.path("work"), "mcpServers": []});
    assert_eq!(code(editor.ask("session/new", early)), -32600);
    for version in [65_535, 2, 1] {
        let initialized = editor.ask("initialize", json!({"protocolVersion": version})).unwrap();
        assert_eq!(initialized["protocolVersion"], 1);
        assert_eq!(initialized["agentInfo"]["name"], "turnstream");
        let capabilities = &initialized["agentCapabilities"];
        assert_eq!(capabilities["loadSession"], true);
        for method in ["list", "delete", "resume", "close"] {
            assert!(capabilities["sessionCapabilities"][method].is_object(), "{method}: {capabilities}");
        }
    }
    assert_eq!(code(editor.ask("_vendor/method", json!({}))), -32601);
    assert_eq!(code(editor.ask("session/fork", json!({}))), -32601);
    editor.notify("_vendor/news", json!({"a": 1}));
    editor.send_raw("this is not JSON\n\n[]\n");
    for expected in [-32700, -32600] {
        let refused = editor.until("refusal", |message| message["id"].is_null());
        assert_eq!(refused["error"]["code"], expected);
    }
    let text_id = json!({"jsonrpc": "2.0", "id": "seven", "method": "_vendor/method"});
    editor.send(&text_id);
    editor.until("answer with a text id", |message| message["id"] == "seven");
    assert_eq!(editor.ask("authenticate", json!({"methodId": "gateway-token"})), Ok(json!({})));
    assert_eq!(code(editor.ask("authenticate", json!({"methodId": "other"}))), -32602);
    assert_eq!(code(editor.ask("session/new", json!({"cwd": "relative", "mcpServers": []}))), -32602);
    assert_eq!(editor.close().code(), Some(0));
}

#[test]
fn an_editor_may_send_everything_before_it_reads_the_first_answer() {
    let home = Home::new();
    let _serving = home.serve(&[]);
    let mut first = Editor::ready(&home, &[], json!({}));
    let session = first.new_session(&home);
    let mut editor = Editor::start(&home, &[]);
    let initialize = editor.request("initialize", json!({"protocolVersion": 1}));
    let load = json!({"sessionId": session, "cwd": home.path("work"), "mcpServers": []});
    let load = editor.request("session/load", load);
    let turn = editor.play(&session, &json!([{"do": "text", "text": "All at once."}]));
    assert_eq!(editor.answer(turn).unwrap()["stopReason"], "end_turn");
    let places: Vec<usize> =
        [initialize, load, turn].into_iter().map(|id| editor.place_of_answer(id)).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(editor.text(&session), "All at once.");
}

#[test]
fn without_the_token_of_the_gateway_the_editor_must_authenticate() {
    let home = Home::new();
    let serving = home.serve(&[]);
    let url = format!("http://{}", serving.address);
    let mut editor = Editor::ready(&home, &["--url", &url, "--token", "a-token-that-is-wrong"], json!({}));
    let refused = editor.ask("session/new", json!({"cwd": home.path("work"), "mcpServers": []}));
    let refused = refused.unwrap_err();
    assert_eq!(refused["code"], -32000, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("TURNSTREAM_TOKEN"), "{refused}");
    assert_eq!(code(editor.ask("authenticate", json!({"methodId": "gateway-token"}))), -32000);
    set_token(&serving.address, "");
}
