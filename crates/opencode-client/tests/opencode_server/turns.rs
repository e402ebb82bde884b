//! Turns that go well: text, thoughts, tools, stop reasons, tokens and money.

use crate::lab::{Lab, slowly};
use crate::support::ANSWER;
use serde_json::json;
use turnstream_fake_provider::{Completion, Finish, Part, Step, Usage};

const THOUGHT: &str = "First I think about it, in a few pieces.";

fn long_text() -> String {
    (0..).map(|number| format!("Line {number} of many, with an ümlaut.\n")).take(5_800).collect()
}

fn script() -> Vec<Step> {
    let bash =
        |command: &str| Part::tool_call("bash", json!({"command": command, "description": "As scripted"}));
    let thinking = Completion::of([Part::reasoning(THOUGHT), Part::text(ANSWER)]);
    let usage = Usage { input: 1_000, cached: 200, output: 100, reasoning: 40 };
    let paid = |part: Part| Completion { usage, ..Completion::of([part]) };
    let ended = |finish: Finish| Step::new(Completion::text(ANSWER).finished(finish));
    vec![
        Step::text("The first answer.").for_user_text("Number 1").always(),
        Step::text("The second answer.").for_user_text("Number 2").always(),
        Step::text("The third answer.").for_user_text("Number 3").always(),
        Step::new(thinking).for_user_text("Think"),
        Step::new(Completion::of([
            Part::text("I make a file. "),
            bash("printf made > made.txt && echo done"),
        ]))
        .for_user_text("Use tools"),
        Step::new(Completion::of([
            Part::tool_call("read", json!({"filePath": "made.txt"})),
            bash("echo failing; exit 3"),
        ]))
        .for_user_text("Use tools"),
        Step::text("It is made.").for_user_text("Use tools"),
        ended(Finish::Length).for_user_text("Say too much"),
        ended(Finish::ContentFilter).for_user_text("Say what must not be said"),
        Step::new(paid(bash("true"))).for_user_text("Cost something"),
        Step::new(paid(Part::text(ANSWER))).for_user_text("Cost something"),
        Step::text(&long_text()).for_user_text("Say very much"),
        Step::text("Left, left, left, left, left.").delivered(slowly(50)).for_user_text("To the left"),
        Step::text("Right, right, right, right.").delivered(slowly(50)).for_user_text("To the right"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_that_go_well() {
    let lab = Lab::start(script()).await;
    tokio::join!(
        three_messages_one_after_the_other(&lab),
        a_thought_is_no_text(&lab),
        a_turn_of_several_steps_shows_each_call_once(&lab),
        a_model_that_was_cut_off_says_so(&lab),
        tokens_and_money_are_on_the_terminator(&lab),
        two_sessions_of_one_directory_do_not_leak(&lab),
    );
    an_answer_of_200_kilobytes_is_exact(&lab).await;
}

async fn three_messages_one_after_the_other(lab: &Lab) {
    let session = lab.session().await;
    let answers = ["The first answer.", "The second answer.", "The third answer."];
    for (place, answer) in answers.into_iter().enumerate() {
        let seen = lab.ask(&session, &format!("Number {}", place + 1)).ended().await;
        assert_eq!((seen.text().as_str(), seen.end().as_str()), (answer, "end_turn"));
    }
    // Also when they are sent all at once: each waits for the one before.
    let watches = ["Number 1", "Number 2", "Number 3"].map(|text| lab.ask(&session, text));
    for (watch, answer) in watches.into_iter().zip(answers) {
        assert_eq!(watch.ended().await.text(), answer);
    }
    assert_eq!((lab.prompts(&session), lab.aborts(&session)), (6, 0));
}

async fn a_thought_is_no_text(lab: &Lab) {
    let session = lab.session().await;
    let seen = lab.ask(&session, "Think").ended().await;
    let expected = (THOUGHT.to_owned(), ANSWER.to_owned(), Vec::new(), "end_turn".to_owned());
    assert_eq!(seen.whole(), expected);
}

async fn a_turn_of_several_steps_shows_each_call_once(lab: &Lab) {
    let session = lab.session().await;
    let seen = lab.ask(&session, "Use tools").ended().await;
    assert_eq!((seen.text().as_str(), seen.end().as_str()), ("I make a file. It is made.", "end_turn"));
    let [(_, made), (_, read), (_, failing)] = seen.calls()[..] else { panic!("{:?}", seen.calls()) };
    assert_eq!(
        seen.call_lines(),
        [
            "execute | Run printf made > made.txt && echo done | completed",
            "read | Read made.txt | completed",
            "execute | Run echo failing; exit 3 | failed",
        ]
    );
    assert_eq!(made.members["rawInput"]["command"], "printf made > made.txt && echo done");
    assert_eq!(made.members["rawOutput"]["output"], "done\n");
    let shown = read.members["content"][0]["content"]["text"].as_str().unwrap();
    assert!(shown.contains("1: made"), "{shown}");
    assert_eq!(failing.members["rawOutput"]["output"], "failing\n");
    assert_eq!(lab.model_calls("Use tools"), 3);
}

async fn a_model_that_was_cut_off_says_so(lab: &Lab) {
    for (text, stop) in [("Say too much", "max_tokens"), ("Say what must not be said", "refusal")] {
        let session = lab.session().await;
        let seen = lab.ask(&session, text).ended().await;
        assert_eq!((seen.text().as_str(), seen.end().as_str()), (ANSWER, stop));
    }
}

async fn tokens_and_money_are_on_the_terminator(lab: &Lab) {
    // Dollars for a million tokens.
    let cost = json!({"input": 10.0, "output": 50.0, "cache_read": 1.0, "cache_write": 0.0});
    let models = json!({"scripted-1": {"cost": cost}});
    let session = lab.session_with(&json!({"provider": {"scripted": {"models": models}}})).await;
    let seen = lab.ask(&session, "Cost something").ended().await;
    assert_eq!(seen.end(), "end_turn");
    let ours = seen.ours();
    // Two calls; opencode counts what was cached and thought apart from the rest.
    let expected = json!({
        "input": 1_600, "output": 120, "reasoning": 80, "cache_read": 400, "cache_write": 0,
        "total": 2_200, "provider": "scripted", "model": "scripted-1",
    });
    assert_eq!(ours["usage"], expected, "{ours}");
    let amount = ours["cost"]["amount"].as_f64().unwrap();
    assert!((amount - 0.0264).abs() < 1e-9, "{ours}");
    assert_eq!(ours["cost"]["currency"], "USD");
    let usage = seen.answer().response.usage.clone().unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (1_600, 120));
}

async fn two_sessions_of_one_directory_do_not_leak(lab: &Lab) {
    let left = lab.session().await;
    let right = lab.session_beside(&left).await;
    let (left, right) = (lab.ask(&left, "To the left"), lab.ask(&right, "To the right"));
    let (left, right) = tokio::join!(left.ended(), right.ended());
    assert_eq!(left.text(), "Left, left, left, left, left.");
    assert_eq!(right.text(), "Right, right, right, right.");
    assert_eq!([left.end(), right.end()], ["end_turn", "end_turn"]);
}

async fn an_answer_of_200_kilobytes_is_exact(lab: &Lab) {
    let session = lab.session().await;
    let seen = lab.ask(&session, "Say very much").ended().await;
    let (text, expected) = (seen.text(), long_text());
    assert!(expected.len() > 200_000);
    assert!(text == expected, "{} bytes of {}", text.len(), expected.len());
    assert_eq!(seen.end(), "end_turn");
}
