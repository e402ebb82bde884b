//! Half a character in what opencode says: it cuts texts by UTF-16 units, and its JSON then has half a pair
//! of escapes.

use crate::lab::{Lab, Line, slowly};
use crate::seen::Seen;
use crate::support::ANSWER;
use serde_json::{Value, json};
use turnstream_fake_provider::{Completion, Part, Step};
use turnstream_testkit::agents::Opencode;
use turnstream_testkit::proxy::{Action, Ending, EventMatch, Fault, Point, Rest, Rule};

const EMOJI: &str = "\u{1F600}";
/// What is read, printed, and read when the stream is cut.
const CASES: [&str; 4] = ["Read it.", "Print it.", "Read it, unheard.", "Print it, unheard."];

fn script() -> Vec<Step> {
    let read = || Part::tool_call("read", json!({"filePath": "emoji.txt"}));
    // More than opencode hands to the model.
    let print = format!("for i in $(seq 1 60); do printf 'a'; printf '{}'; done; echo", EMOJI.repeat(1_001));
    let print = || Part::tool_call("bash", json!({"command": print, "description": "Print many"}));
    let call = |place: usize| if place.is_multiple_of(2) { read() } else { print() };
    let steps = CASES.iter().enumerate().flat_map(|(place, words)| {
        let first = Step::new(Completion::of([call(place)])).for_user_text(words);
        [first, Step::text(ANSWER).delivered(slowly(20)).for_user_text(words)]
    });
    steps.collect()
}

/// What opencode itself made of the only call: what it hands to the model.
fn own_output(lab: &Lab, words: &str) -> String {
    let calls = lab.provider.calls();
    let asked = |call: &&turnstream_fake_provider::Request| {
        call.asked.model == Opencode::MODEL && call.asked.user_text.contains(words)
    };
    let last = calls.iter().rfind(asked).unwrap();
    let messages = last.body["messages"].as_array().unwrap();
    let result = messages.iter().find(|message| message["role"] == "tool").unwrap();
    result["content"].as_str().unwrap().to_owned()
}

/// What the only call has brought, its result and what else is told of it.
fn brought(seen: &Seen) -> &Value {
    let calls = seen.calls();
    let [(_, call)] = calls[..] else { panic!("{} calls", calls.len()) };
    assert_eq!(call.members["status"], "completed");
    &call.members["rawOutput"]
}

fn assert_whole(lab: &Lab, words: &str, seen: &Seen) {
    assert_eq!((seen.text().as_str(), seen.end().as_str()), (ANSWER, "end_turn"), "{words}");
    let (brought, own) = (brought(seen), own_output(lab, words));
    let output = brought["output"].as_str().unwrap();
    assert!(output == own, "{words}: {} of {} bytes", output.len(), own.len());
    // Where it cuts what is printed depends on how that comes to it.
    let is_cut = output.contains(char::REPLACEMENT_CHARACTER);
    assert!(is_cut || words.starts_with("Print"), "opencode cut no character: {words}");
    assert_eq!(lab.model_calls(words), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_whose_output_was_cut_in_a_character_is_whole_and_its_turn_ends() {
    let lab = Lab::start(script()).await;
    std::fs::write(lab.opencode.work().join("emoji.txt"), format!("a{}\n", EMOJI.repeat(1_500))).unwrap();
    for words in &CASES[..2] {
        let line = lab.line().await;
        let seen = line.ask(words).ended().await;
        assert_whole(&lab, words, &seen);
        assert!(!seen.notices().contains(&"gap"), "nothing was unreadable: {:?}", seen.notices());
    }
    for words in &CASES[2..] {
        let line = lab.line().await;
        cut_after_the_call(&lab, &line);
        assert_whole(&lab, words, &line.ask(words).ended().await);
    }
}

/// The stream breaks when the call is first told of: what came of it is known only by what the server has
/// stored.
fn cut_after_the_call(lab: &Lab, line: &Line) {
    let point = Point::AfterEvent(tool_event(line));
    lab.proxy.add(Rule::new(Fault::At(point, Action::Cut(Ending::Rst))).on_request(line.is_stream()));
}

fn tool_event(line: &Line) -> EventMatch {
    let session = line.session.id.clone();
    EventMatch::new(move |event| {
        let data = event.data();
        data.contains(&session) && data.contains("\"type\":\"tool\"")
    })
}

/// What the server has stored cannot be read at all, and its stream breaks: its status says that the turn
/// is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_whose_stored_messages_cannot_be_read_ends_with_a_notice() {
    let lab = Lab::start(script()).await;
    std::fs::write(lab.opencode.work().join("emoji.txt"), format!("a{}\n", EMOJI.repeat(1_500))).unwrap();
    let line = lab.line().await;
    cut_after_the_call(&lab, &line);
    let garbage = Action::Splice(b"this is no JSON ".to_vec(), Rest::Keep);
    let garbage = Rule::new(Fault::At(Point::BodyByte(0), garbage)).always();
    let stored = format!("/session/{}/message?", line.session.id);
    let rule = lab.proxy.add(garbage.on_request(move |request| request.target.starts_with(&stored)));
    let seen = line.ask(CASES[0]).ended().await;
    assert!(lab.proxy.fired(rule) > 0, "nobody asked for the messages");
    assert_eq!((seen.text().as_str(), seen.end().as_str()), (ANSWER, "end_turn"));
    assert!(seen.notices().contains(&"corrupt"), "{:?}", seen.notices());
}
