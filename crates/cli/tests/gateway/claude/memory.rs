//! What Claude Code remembers: its transcript may be lost, its totals go on, and its MCP servers are the
//! session's.

use super::{Lab, accepted, of_type, outcomes, prompt};
use crate::support::{ask, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use turnstream_fake_provider::Step;
use turnstream_testkit::agents::ClaudeVersion;

/// The texts of the user in the last call to the model.
fn last_call(lab: &Lab) -> String {
    lab.provider.calls().last().unwrap().asked.user_texts.join("\n")
}

#[test]
fn a_forgotten_session_refuses_prompts_until_a_client_chooses_how_to_go_on() {
    for (choice, is_told) in [("fresh", false), ("transcript", true)] {
        let lab = Lab::new([Step::text("The secret word is plum.").always()]);
        let serving = lab.serve();
        let session = lab.session(&serving);
        accepted(&serving, &session, "Tell me a word");
        lab.ended(&session, 1);
        serving.end(Signal::TERM);
        std::fs::remove_file(lab.transcript()).unwrap();

        let serving = lab.serve();
        let (head, answer) = prompt(&serving, &session, "What was it?");
        assert!(head.starts_with("http/1.1 409 "), "{head} {answer}");
        assert!(answer["type"].as_str().unwrap().ends_with("agent-forgot"), "{answer}");
        let path = format!("/v1/sessions/{session}/resume");
        let (head, answer) = ask(&serving.address, "POST", &path, &json!({"as": choice}));
        assert!(head.starts_with("http/1.1 2"), "{head} {answer}");
        accepted(&serving, &session, "What was it?");
        let log = lab.ended(&session, 2);
        assert_eq!(outcomes(&log), ["completed", "completed"], "{log:#?}");
        assert_eq!(last_call(&lab).contains("Tell me a word"), is_told, "{choice}: {}", last_call(&lab));
        // It is not forgotten any more, also after another start.
        serving.end(Signal::TERM);
        let serving = lab.serve();
        accepted(&serving, &session, "And now?");
        assert_eq!(outcomes(&lab.ended(&session, 3)), ["completed"; 3]);
        assert!(last_call(&lab).contains("What was it?"), "{}", last_call(&lab));
    }
}

/// 2.1.325 goes on with its totals when it is resumed, 2.1.197 begins at zero. Turns cost the same in both.
#[test]
fn a_turn_after_a_resume_costs_what_it_used() {
    for version in [ClaudeVersion::V2_1_197, ClaudeVersion::V2_1_325] {
        let lab = Lab::of(version, [Step::text("Yes.").always()]);
        let mut session = None;
        for turn in 1..=2 {
            let serving = lab.serve();
            let session = session.get_or_insert_with(|| lab.session(&serving));
            accepted(&serving, session, &format!("Prompt {turn}"));
            lab.ended(session, turn);
            serving.end(Signal::TERM);
        }
        let serving = lab.serve();
        let log = lab.log(&session.unwrap());
        let ends = of_type(&log, "turn.ended");
        let used = |end: &Value| (end["usage"]["input"].clone(), end["cost"]["amount"].clone());
        assert_eq!(used(ends[0]), used(ends[1]), "{version:?}");
        assert_eq!(ends[0]["usage"]["output"], json!(10), "{version:?}");
        drop(serving);
    }
}

#[test]
fn mcp_servers_of_a_session_are_passed_on() {
    let lab = Lab::new([Step::text("Yes.").always()]);
    let serving = lab.serve();
    let seen = lab.home.path("mcp-was-started");
    let command = format!("echo \"$SEEN_KEY\" > '{}'; cat > /dev/null", seen.display());
    let server = json!({
        "name": "notes", "command": "/bin/sh", "args": ["-c", command],
        "env": [{"name": "SEEN_KEY", "value": "a-key-of-mcp"}],
    });
    let session = lab.session_with(&serving, json!({"mcp": [server]}));
    accepted(&serving, &session, "Hello");
    lab.ended(&session, 1);
    let key = wait_for(|| std::fs::read_to_string(&seen).ok().filter(|text| text.ends_with('\n')));
    assert_eq!(key, "a-key-of-mcp\n");
    let (_, shown) = ask(&serving.address, "GET", &format!("/v1/sessions/{session}"), &json!({}));
    assert_eq!(shown["mcp"], json!(["notes"]));
    assert!(!shown.to_string().contains("a-key-of-mcp"));
}

/// A process that is killed early may leave a transcript without any message. Claude Code refuses to resume
/// such a session, and to begin another one under the same id.
#[test]
fn a_transcript_without_a_message_does_not_block_its_session() {
    for version in [ClaudeVersion::V2_1_197, ClaudeVersion::V2_1_325] {
        let lab = Lab::of(version, [Step::text("Yes.").always()]);
        let serving = lab.serve();
        let session = lab.session(&serving);
        accepted(&serving, &session, "Hello");
        lab.ended(&session, 1);
        serving.end(Signal::TERM);
        // What it wrote before the first message, in a session that was never used.
        let transcript = lab.transcript();
        let whole = std::fs::read_to_string(&transcript).unwrap();
        let before: Vec<&str> = whole.lines().take_while(|line| !line.contains("\"message\"")).collect();
        assert!(!before.is_empty());
        std::fs::write(&transcript, before.join("\n") + "\n").unwrap();
        let note = lab.note();
        let noted = std::fs::read_to_string(&note).unwrap();
        std::fs::write(&note, noted.replace("\"used\":true", "\"used\":false")).unwrap();

        let serving = lab.serve();
        accepted(&serving, &session, "And now?");
        let log = lab.ended(&session, 2);
        assert_eq!(outcomes(&log), ["completed"; 2], "{version:?}: {log:#?}");
        serving.end(Signal::TERM);
        let serving = lab.serve();
        accepted(&serving, &session, "Do you remember?");
        assert_eq!(outcomes(&lab.ended(&session, 3)), ["completed"; 3], "{version:?}");
        assert!(last_call(&lab).contains("And now?"), "{version:?}: {}", last_call(&lab));
        serving.end(Signal::TERM);
        // A conversation that has lost its messages is forgotten.
        let transcripts = lab.transcripts();
        transcripts.iter().for_each(|path| std::fs::write(path, before.join("\n") + "\n").unwrap());
        let serving = lab.serve();
        let (head, answer) = prompt(&serving, &session, "And then?");
        assert!(head.starts_with("http/1.1 409 "), "{version:?}: {head} {answer}");
    }
}
