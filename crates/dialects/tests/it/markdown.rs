//! The Markdown page of captured sessions, compared whole, and of texts that try to break it.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use turnstream_dialects::markdown::document;
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::event::Event;
use turnstream_model::export::Header;
use turnstream_model::fold::{Fold, State};
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// When the captured sessions are said to have begun.
const BEGIN: u64 = 1_794_771_760_000;

/// Writes the pages instead of comparing them.
const UPDATE: &str = "TURNSTREAM_UPDATE";

fn header(state: &State, left_out: u64) -> Header {
    Header {
        turnstream: "0.1.0".to_owned(),
        session: state.session.id.clone().unwrap_or_else(|| SessionId::from("ses_1")),
        agent: state.session.agent.clone(),
        generation: Generation::new("g1").unwrap(),
        first: Seq(1),
        head: state.seq,
        exported: Time(BEGIN),
        left_out,
        base: None,
    }
}

/// The log of a capture of the real agent. It was kept without times: one second passes with each event.
fn captured(name: &str) -> State {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../opencode-client/tests/opencode/logs");
    let log = std::fs::read_to_string(logs.join(format!("{name}.jsonl"))).unwrap();
    let mut fold = Fold::new();
    for (index, line) in log.lines().enumerate() {
        let mut event: Value = serde_json::from_str(line).unwrap();
        event["time"] = json!(BEGIN + 1_000 * index as u64);
        fold.apply(&Event::from_json(&event.to_string()).unwrap());
    }
    fold.into_state()
}

fn compare(name: &str, page: &str) {
    let path: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/pages").join(format!("{name}.md"));
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, page).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == expected,
        "the page of {name} is not {}; {UPDATE}=1 writes it anew. It is:\n{page}",
        path.display()
    );
}

/// One of each kind: plain text, reasoning, several tools with a diff, permissions, questions, ends of
/// turns, subagents.
const CAPTURES: &[&str] = &[
    "a-plain",
    "b-reasoning",
    "c-multistep",
    "d1-permission-once",
    "d3-permission-reject-message",
    "d4-permission-edit-always",
    "e1-question-reply",
    "f1-abort-stream",
    "f2-abort-tool",
    "h-provider-429",
    "g1-provider-500-retry",
    "j4-finish-length",
    "k3-busy-other-endpoints",
    "m-subagent",
    "o3-long-tool-output",
    "s1-todo",
    "s3-auto-compaction",
    "s7-revert-removes",
];

#[test]
fn captured_sessions_become_pages() {
    for name in CAPTURES {
        let state = captured(name);
        compare(name, &document(&state, &header(&state, 0)));
    }
}

#[test]
fn what_is_superseded_or_removed_is_not_on_the_page() {
    for name in ["g1-provider-500-retry", "s7-revert-removes"] {
        let state = captured(name);
        let page = document(&state, &header(&state, 0));
        for item in &state.items {
            let text = item.text.as_deref().unwrap_or_default();
            assert!(
                item.incomplete || page.contains(text.lines().next().unwrap_or_default()),
                "{name}: {text}"
            );
        }
    }
    let reverted = captured("s7-revert-removes");
    assert!(reverted.counters.items as usize > reverted.items.len(), "the capture has removed items");
}

fn page_of(lines: &[&str], left_out: u64) -> String {
    let state = Fold::of(&crate::log(lines)).into_state();
    document(&state, &header(&state, left_out))
}

/// A session in which the agent says this and a tool puts it out.
fn saying(text: &str) -> String {
    let start = |item: &str, kind: &str, more: Value| {
        let mut event =
            json!({"type": "item.started", "turn": "t1", "item": item, "kind": kind, "role": "assistant"});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event.to_string()
    };
    let end = |item: &str| {
        json!({"type": "item.ended", "turn": "t1", "item": item, "state": "completed"}).to_string()
    };
    let tool = json!({"tool": {"name": text, "title": text, "kind": "execute", "input": {"command": text},
        "content": [{"type": "content", "content": {"type": "text", "text": text}},
                    {"type": "diff", "path": text, "oldText": text, "newText": format!("{text}\nx")}]}});
    let lines = [
        json!({"type": "session.created", "session": "ses_1", "agent": text, "cwd": text, "title": text})
            .to_string(),
        json!({"type": "turn.started", "turn": "t1", "origin": "agent", "prompts": []}).to_string(),
        start("i1", "reasoning", json!({"text": text})),
        end("i1"),
        start("i2", "message", json!({"text": text})),
        end("i2"),
        start("i3", "tool", tool),
        end("i3"),
        start("i4", "message", json!({"text": "THE LAST WORD"})),
        end("i4"),
        json!({"type": "turn.ended", "turn": "t1", "outcome": "failed",
               "error": {"class": "internal", "message": text}})
        .to_string(),
    ];
    page_of(&lines.iter().map(String::as_str).collect::<Vec<_>>(), 0)
}

/// Lines that are in no block of code, by the rules of fences. The end of a quotation ends a fence in it.
fn outside_fences(page: &str) -> Vec<&str> {
    let mut fence: Option<(bool, char, usize)> = None;
    let mut outside = Vec::new();
    for line in page.lines() {
        let is_quoted = line.starts_with('>');
        let inner = line.strip_prefix("> ").unwrap_or(line);
        fence = fence.filter(|(in_quotation, ..)| !in_quotation || is_quoted);
        let mark = inner.chars().next().filter(|mark| "`~".contains(*mark)).unwrap_or('`');
        let length = inner.len() - inner.trim_start_matches(mark).len();
        let rest = &inner[length..];
        match fence {
            Some((_, of, open)) if of == mark && length >= open && rest.is_empty() => fence = None,
            Some(_) => {}
            None if length >= 3 && !rest.contains('`') => fence = Some((is_quoted, mark, length)),
            None => outside.push(line),
        }
    }
    assert!(
        fence.is_none_or(|(in_quotation, ..)| in_quotation),
        "a fence swallows the end of the page:\n{page}"
    );
    outside
}

#[test]
fn no_text_can_break_out_of_its_place() {
    for text in [
        "</details>",
        "</summary></details>\n\n<script>alert(1)</script>",
        "```\nnever closed",
        "`````\n```\n</details>\n",
        "- a\n  ```\n</details>",
        "> ```\n</details>",
        "~~~\n</details>",
        "<!-- comment",
        "| a | b |\n|---|---|",
        "# heading\n===\n---",
        "\u{1b}[31m\u{202e}red\u{7}",
        "`` ` ``` ````",
        "<pre>",
        "[x]: https://example.invalid\n[x]",
    ] {
        let page = saying(text);
        let outside = outside_fences(&page);
        let count = |wanted: &str| outside.iter().filter(|line| **line == wanted).count();
        assert_eq!((count("<details>"), count("</details>")), (1, 1), "{text:?}:\n{page}");
        for line in &outside {
            let is_ours = ["<details>", "</details>"].contains(line) || line.starts_with("<summary>");
            // The cells of our own tables are code, which is closed in its cell.
            let code = line.find('`').zip(line.rfind('`')).filter(|_| line.starts_with("| "));
            let cell = code.map(|(start, end)| format!("{}{}", &line[..start], &line[end..]));
            let line = cell.as_deref().unwrap_or(line);
            let tag = ["<details", "</details", "<script", "<pre", "<!--"]
                .iter()
                .find(|tag| line.match_indices(**tag).any(|(at, _)| !line[..at].ends_with('\\')));
            assert!(is_ours || tag.is_none(), "{text:?}: {line:?}\n{page}");
        }
        assert!(outside.contains(&"THE LAST WORD"), "{text:?}:\n{page}");
        assert!(!page.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{text:?}");
    }
}

#[test]
fn what_was_going_on_or_is_not_whole_is_named_and_not_shown() {
    let page = page_of(
        &[
            r#"{"type":"session.created","session":"ses_1","agent":"a","cwd":"/w"}"#,
            r#"{"type":"turn.started","turn":"t1","origin":"agent","prompts":[]}"#,
            r#"{"type":"item.started","turn":"t1","item":"i1","kind":"message","role":"assistant","text":"half of it"}"#,
            r#"{"type":"item.ended","turn":"t1","item":"i1","state":"abandoned","incomplete":true}"#,
            r#"{"type":"item.started","turn":"t1","item":"i2","kind":"tool","tool":{"name":"rm","output":"gone?"}}"#,
            r#"{"type":"item.ended","turn":"t1","item":"i2","state":"unknown"}"#,
            r#"{"type":"turn.ended","turn":"t1","outcome":"lost"}"#,
        ],
        7,
    );
    compare("not-whole", &page);
    assert!(!page.contains("half of it") && !page.contains("gone?"));
}
