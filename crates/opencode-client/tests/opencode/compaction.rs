//! A compaction that was asked for: the server chooses the id of its message (capture `s2-summarize`).

use serde_json::json;
use std::sync::Arc;
use turnstream_adapter::{Command, Observed};
use turnstream_model::event::ItemKind;
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;
use turnstream_opencode_client::conversation::{
    Answer, Budget, Call, Conversation, Pace, PromptAnswer, SessionSnapshot,
};
use turnstream_opencode_client::event::Kind;
use turnstream_opencode_client::translate::Stored;
use turnstream_opencode_client::{Event, Status};

const NOW: Time = Time(1_794_770_000_000);
const SESSION: &str = "ses_e1f38c485ffeXW0xp04NbKfJoJ";
/// The prompt of the first turn in the capture.
const HELLO: &str = "msg_1e0c73b88001u6DdSiHw5aURqJ";
/// What the gateway calls the compaction, a moment before the server gives its message another name.
const COMPACTION: &str = "msg_1e0c7417e000AAAAAAAAAAAAAA";

fn captured(name: &str) -> String {
    let path = format!("{}/../../fixtures/opencode/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

/// The events of the capture, in two halves: the second one has the compaction.
fn halves() -> [Vec<Arc<Event>>; 2] {
    let text = captured("s2-summarize.sse");
    let events: Vec<Arc<Event>> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| Arc::new(Event::parse(data.as_bytes()).unwrap()))
        .collect();
    let idle = events.iter().position(|event| event.is_idle_of(SESSION)).unwrap();
    let (first, second) = events.split_at(idle + 2);
    [first.to_vec(), second.to_vec()]
}

fn prompted(conversation: &mut Conversation, native_id: &str, text: &str) {
    let content = vec![json!({"type": "text", "text": text})];
    conversation.command(Command::Prompt { native_id: native_id.to_owned(), content }, NOW);
    let sent = std::iter::from_fn(|| conversation.next_call()).find_map(|call| match call {
        Call::Prompt { message, .. } => Some(message),
        _ => None,
    });
    assert_eq!(sent.as_deref(), Some(native_id));
    conversation.answer(Answer::Prompt(native_id.to_owned(), PromptAnswer::Accepted), NOW);
}

fn told(conversation: &mut Conversation) -> Vec<String> {
    let word = |observed: Observed| match observed {
        // A status says that something runs, and not for whom.
        Observed::Signal(Signal::TurnBegan { prompts, .. }) if prompts.is_empty() => None,
        Observed::Signal(Signal::TurnBegan { prompts, .. }) => Some(format!("began {}", prompts.join(" "))),
        Observed::Signal(Signal::AttemptBegan { .. }) => Some("call".to_owned()),
        Observed::Signal(Signal::ItemSeen(item)) if item.kind == ItemKind::Compaction => {
            Some("compaction".to_owned())
        }
        Observed::Signal(Signal::ItemSeen(item)) => Some(format!("{:?}", item.kind)),
        Observed::Signal(Signal::TurnIdle { .. }) => Some("idle".to_owned()),
        Observed::Signal(Signal::PromptRefused { .. }) => Some("refused".to_owned()),
        _ => None,
    };
    let mut words: Vec<String> =
        std::iter::from_fn(|| conversation.next_observed()).filter_map(word).collect();
    words.dedup();
    words
}

/// A conversation after its first turn, with a compaction that was sent.
fn compacting() -> (Conversation, Vec<Arc<Event>>) {
    let [first, second] = halves();
    let mut conversation = Conversation::new(SESSION, Pace::default(), Budget::default(), NOW);
    conversation.connected(None, NOW);
    prompted(&mut conversation, HELLO, "Say hello");
    first.iter().for_each(|event| conversation.event(event, NOW));
    assert_eq!(told(&mut conversation), [&format!("began {HELLO}"), "call", "Message", "idle"]);
    prompted(&mut conversation, COMPACTION, "/compact");
    (conversation, second)
}

#[test]
fn its_turn_is_that_of_the_prompt_whatever_the_server_calls_its_message() {
    let (mut conversation, events) = compacting();
    events.iter().for_each(|event| conversation.event(event, NOW));
    assert_eq!(told(&mut conversation), [&format!("began {COMPACTION}"), "call", "compaction", "idle"]);
}

#[test]
fn one_that_ran_in_a_gap_is_found_among_the_stored_messages_and_not_sent_again() {
    let (mut conversation, events) = compacting();
    // Its message and its part are lost. What follows looks like late news of the turn before.
    let begins = events.iter().position(|event| matches!(event.kind, Kind::Status(Status::Busy))).unwrap();
    events[begins..begins + 4].iter().for_each(|event| conversation.event(event, NOW));
    conversation.connected(Some("a test".to_owned()), NOW);
    let snapshot: serde_json::Value = serde_json::from_str(&captured("s2-summarize.snapshot.json")).unwrap();
    let messages: Vec<Stored> = snapshot["after"][SESSION]["message"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| serde_json::from_value(message.clone()).unwrap())
        .collect();
    let mut sent = 0;
    for step in 1..=40 {
        let now = NOW.plus_millis(step * 500);
        while let Some(call) = conversation.next_call() {
            match call {
                Call::Snapshot { .. } => {
                    let messages = messages.clone();
                    let snapshot = SessionSnapshot { messages, ..SessionSnapshot::default() };
                    conversation.answer(Answer::Snapshot(Ok(Box::new(snapshot))), now);
                }
                Call::Prompt { .. } => sent += 1,
                _ => {}
            }
        }
        conversation.tick(now);
    }
    let words = told(&mut conversation);
    assert_eq!(words[..3], [&format!("began {COMPACTION}"), "call", "compaction"], "{words:?}");
    assert!(words.contains(&"idle".to_owned()), "{words:?}");
    assert_eq!((sent, words.contains(&"refused".to_owned())), (0, false), "{words:?}");
}
