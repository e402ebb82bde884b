//! The real binary explains provider streams in files, and attempts that were kept.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use turnstream_fake_provider::{Asked, Chunk, Completion, Fault, Identity, Part, Step, WireFormat, render};
use turnstream_log::Attempts;
use turnstream_model::attempts::{
    AttemptName, Begun, Completion as Seen, Count, Ended, Evidence, Findings, Ledger, Loss, Tokens, Verdict,
};
use turnstream_model::event::{ErrorClass, Usage};
use turnstream_model::time::Time;

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_turnstream")).args(args).output().expect("the binary runs")
}

#[track_caller]
fn stdout(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).expect("UTF-8 output")
}

#[track_caller]
fn assert_refused(output: &Output, says: &str) {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains(says), "{says:?} is not in {message:?}");
}

fn save(directory: &Path, format: WireFormat, step: &Step) -> String {
    let asked = Asked { model: "m".to_owned(), stream: true, ..Asked::default() };
    let identity = Identity { serial: 1, created: 1_794_809_255, asked };
    let answer = render(format, step, &identity).expect("a step that can be played");
    let bytes = answer.chunks.into_iter().flat_map(|chunk| match chunk {
        Chunk::Write { bytes, .. } => bytes,
        Chunk::Stall(_) => Vec::new(),
    });
    let path = directory.join("stream.sse");
    std::fs::write(&path, bytes.collect::<Vec<u8>>()).expect("a file");
    path.to_str().expect("a UTF-8 path").to_owned()
}

fn called() -> Completion {
    let arguments = serde_json::json!({"path": "a.rs", "text": "some more"});
    Completion::of([Part::text("I shall edit it."), Part::tool_call("edit", arguments)])
}

#[test]
fn a_whole_stream_is_trusted_in_every_format() {
    let directory = tempfile::TempDir::new().expect("a directory");
    for (format, name) in
        [(WireFormat::Chat, "chat"), (WireFormat::Responses, "responses"), (WireFormat::Messages, "messages")]
    {
        let file = save(directory.path(), format, &Step::new(called()));
        let output = run(&["inspect", &file, "--format", name]);
        let text = stdout(&output);
        assert!(text.starts_with("complete\n"), "{text}");
        assert!(text.contains("All of it may be trusted."), "{text}");
        assert!(text.contains(r#"may run: edit {"path":"a.rs","text":"some more"}"#), "{text}");
    }
}

#[test]
fn calls_of_a_step_that_ran_out_of_tokens_are_not_to_be_trusted() {
    let directory = tempfile::TempDir::new().expect("a directory");
    for (format, name) in
        [(WireFormat::Chat, "chat"), (WireFormat::Responses, "responses"), (WireFormat::Messages, "messages")]
    {
        let step = Step::new(called().finished(turnstream_fake_provider::Finish::Length));
        let file = save(directory.path(), format, &step);
        let output = run(&["inspect", &file, "--format", name]);
        let text = stdout(&output);
        assert!(text.contains("Lost: a call of \"edit\""), "{name}: {text}");
        assert!(text.contains("All of it may be trusted, except for what is lost."), "{name}: {text}");
        assert!(!text.contains("may run"), "{name}: {text}");
    }
}

#[test]
fn a_finish_that_acts_on_the_terminal_is_shown_and_does_not() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let file = save(directory.path(), WireFormat::Chat, &Step::text("Hi."));
    let stream = std::fs::read_to_string(&file).expect("the stream");
    let hostile = stream.replace(r#""finish_reason":"stop""#, r#""finish_reason":"\u001b[2Jstop""#);
    assert_ne!(stream, hostile);
    std::fs::write(&file, hostile).expect("written");
    let output = run(&["inspect", &file, "--format", "chat"]);
    assert!(!stdout(&output).contains('\u{1b}'), "{:?}", stdout(&output));
}

#[test]
fn a_splice_is_explained_with_both_completions_and_what_is_void() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let splice = Fault::Splice { after: 1500, second: Completion::text("Another one.") };
    let file = save(directory.path(), WireFormat::Chat, &Step::new(called()).fault(splice));
    let output = run(&["inspect", &file, "--format", "chat"]);
    let text = stdout(&output);
    assert!(text.starts_with("stream_spliced: "), "{text}");
    assert_eq!(text.matches("- Completion \"chatcmpl-").count(), 2, "{text}");
    assert!(text.contains("another answer, which nobody asked for here"), "{text}");
    assert!(text.contains("Lost: the rest of the text"), "{text}");
    assert!(text.contains("Nothing of it may be trusted."), "{text}");
    let object: Value = serde_json::from_str(stdout(&run(&["inspect", &file, "--format", "chat", "--json"])))
        .expect("a JSON object");
    assert_eq!(object["verdict"], "failed");
    assert_eq!(object["findings"]["completions"].as_array().map(Vec::len), Some(2));
    // As an event stream it is shown as before.
    assert!(stdout(&run(&["inspect", &file])).contains("offset"));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let file = save(directory.path(), WireFormat::Chat, &Step::text("Hi."));
    let data = directory.path().to_str().expect("a UTF-8 path");
    assert_refused(
        &run(&["inspect", &file, "--format", "chat", "--profile", "x"]),
        "there are: unknown, openai",
    );
    assert_refused(&run(&["inspect"]), "<FILE>");
    assert_refused(&run(&["inspect", "--attempt", "ses_1", "--data", data]), "SESSION/TURN/NUMBER");
    assert_refused(&run(&["inspect", "--attempts", "ses_1", "--data", data]), "there are no attempts in");
}

fn begun(number: u32) -> Begun {
    Begun {
        name: AttemptName { session: "ses_1".into(), turn: "t1".into(), number },
        step: 1,
        route: "main".to_owned(),
        format: "chat".to_owned(),
        model: "m".to_owned(),
        request: "00ff".to_owned(),
        started: Time(1_794_809_255_000),
    }
}

fn spliced() -> Ended {
    let completion = |id: &str, from, to| Seen { id: Some(id.to_owned()), from, to, whole: false };
    Ended {
        verdict: Verdict::Failed,
        class: Some(ErrorClass::StreamSpliced),
        problem: Some("a second completion began".to_owned()),
        status: Some(200),
        request_id: Some("req_7".to_owned()),
        headers: vec![("cf-ray".to_owned(), "8f0c-FRA".to_owned())],
        finish: None,
        tokens: Tokens::Estimated(Usage { output: Some(9), ..Usage::default() }),
        findings: Findings {
            bytes: 900,
            events: 12,
            repairs: vec![Count { what: "missing blank line".to_owned(), times: 2, at: None }],
            anomalies: vec![Count { what: "glued events".to_owned(), times: 1, at: Some(700) }],
            completions: vec![completion("chatcmpl-A", 0, 700), completion("chatcmpl-B", 700, 900)],
            committed: Vec::new(),
            lost: vec![
                Loss { what: "text".to_owned(), bytes: 36, shown: true },
                Loss { what: "edit".to_owned(), bytes: 5, shown: false },
            ],
        },
        ended: Time(1_794_809_256_500),
        evidence: Some(Evidence {
            head: b"data: {\"id\":\"chatcmpl-A\"}\n\x1b[2J".to_vec(),
            omitted: 7,
            tail: b"data: [DONE]\n".to_vec(),
        }),
    }
}

#[tokio::test]
async fn a_kept_attempt_is_explained_beside_its_owner() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let attempts = Attempts::open(directory.path()).expect("a ledger");
    attempts.begin(begun(1)).await.expect("a row");
    attempts.end(begun(1).name, spliced()).await.expect("an end");
    attempts.begin(begun(2)).await.expect("a row");
    let data = directory.path().to_str().expect("a UTF-8 path");

    let list = run(&["inspect", "--attempts", "ses_1", "--data", data]);
    let expected = "\
ses_1/t1/1  step 1  Mon, 16 Nov 2026 06:07:35 GMT  failed     stream_spliced    main  m
ses_1/t1/2  step 1  Mon, 16 Nov 2026 06:07:35 GMT  no end     -                 main  m
";
    assert_eq!(stdout(&list), expected);

    let one = run(&["inspect", "--attempt", "ses_1/t1/1", "--data", data]);
    let expected = r#"attempt   ses_1/t1/1 (step 1): failed
asked     Mon, 16 Nov 2026 06:07:35 GMT of m by route main (chat)
request   SHA-256 00ff
ended     after 1.5s, HTTP 200, request id req_7
why       stream_spliced: a second completion began
tokens    at least 9 written, estimated from what came
bytes     900 in 12 events
- Completion "chatcmpl-A": bytes 0 to 700, and it has no end.
- Completion "chatcmpl-B" begins at byte 700: another answer, which nobody asked for here. Nothing of it was used. Something on the way repeated the request.
- Damaged: glued events from byte 700.
- Mended without loss: missing blank line, 2 times.
- Lost: the rest of the text, of which 36 bytes came. It may be shown, marked as incomplete.
- Lost: a call of "edit", of whose arguments 5 bytes came. It was not run and must not be.
- Nothing of it may be trusted.

kept, redacted, text replaced by its <length>:
data: {"id":"chatcmpl-A"}
\u{1b}[2J
… 7 bytes were not kept …
data: [DONE]
"#;
    assert_eq!(stdout(&one), expected);

    let report = run(&["inspect", "--attempt", "ses_1/t1/1", "--report", "--data", data]);
    for line in [
        "request id    req_7",
        "cf-ray: 8f0c-FRA",
        "glued events from byte 700 on",
        "a tool call: 5 bytes came",
    ] {
        assert!(stdout(&report).contains(line), "{line:?} in {}", stdout(&report));
    }
    for theirs in ["edit", "a second completion began", "data:"] {
        assert!(!stdout(&report).contains(theirs), "{theirs:?} in {}", stdout(&report));
    }
    assert_refused(&run(&["inspect", "--report", "--attempts", "ses_1", "--data", data]), "--attempt");
    let running = run(&["inspect", "--attempt", "ses_1/t1/2", "--data", data]);
    assert!(stdout(&running).contains("- It has no end yet."));
    let object: Value =
        serde_json::from_str(stdout(&run(&["inspect", "--attempt", "ses_1/t1/1", "--data", data, "--json"])))
            .expect("a JSON object");
    assert_eq!(object["verdict"], "failed");
    assert_eq!(object["evidence"]["omitted"], 7);
    assert_refused(
        &run(&["inspect", "--attempt", "ses_1/t1/9", "--data", data]),
        "there is no attempt ses_1/t1/9",
    );
    assert_refused(&run(&["inspect", "--attempts", "ses_9", "--data", data]), "has no attempts");

    // Its owner goes away without an end: from then on nobody knows.
    attempts.close();
    drop(Attempts::open(directory.path()).expect("a ledger"));
    let orphan = run(&["inspect", "--attempt", "ses_1/t1/2", "--data", data]);
    assert!(stdout(&orphan).contains("whether the request left, was answered and billed is not known"));
}
