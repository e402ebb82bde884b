//! The sending of a prompt, step by step: an answer proves nothing, a sign of work does, and a repeat is
//! the same prompt.

use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use turnstream_adapter::{Command, Observed};
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;
use turnstream_opencode_client::conversation::{
    Answer, Budget, Call, Conversation, Pace, PromptAnswer, SessionSnapshot,
};
use turnstream_opencode_client::event::Event;

const SESSION: &str = "ses_1";
pub(crate) const PROMPT: &str = "msg_1e0bba842001m4GyH0hPa967vW";
const START: u64 = 1_794_770_000_000;

pub(crate) struct Talk {
    pub(crate) conversation: Conversation,
    pub(crate) now: u64,
}

impl Talk {
    pub(crate) fn new() -> Self {
        let budget = Budget { time: Some(Duration::from_secs(60)), ..Budget::default() };
        Self { conversation: Conversation::new(SESSION, Pace::default(), budget, Time(START)), now: START }
    }

    pub(crate) fn prompted() -> Self {
        let mut talk = Self::new();
        talk.conversation.connected(None, Time(talk.now));
        let content = vec![json!({"type": "text", "text": "go"})];
        talk.conversation.command(Command::Prompt { native_id: PROMPT.to_owned(), content }, Time(talk.now));
        assert_eq!(talk.calls(), ["prompt"]);
        talk
    }

    /// The next prompt.
    pub(crate) fn prompt_again(&mut self) {
        let content = vec![json!({"type": "text", "text": "go on"})];
        self.conversation.command(Command::Prompt { native_id: PROMPT.to_owned(), content }, Time(self.now));
    }

    /// The calls to make, in a word each.
    pub(crate) fn calls(&mut self) -> Vec<&'static str> {
        let word = |call: Call| match call {
            Call::Prompt { message, .. } => {
                assert_eq!(message, PROMPT, "always the same prompt");
                "prompt"
            }
            Call::Snapshot { .. } => "snapshot",
            Call::NewestMessages => "past",
            Call::Abort => "abort",
            Call::Message { .. } => "message",
            Call::Reply { .. } => "reply",
            Call::Answer { .. } => "answer",
            Call::Refuse(_) => "refuse",
            Call::Adopt(_) => "adopt",
        };
        std::iter::from_fn(|| self.conversation.next_call()).map(word).collect()
    }

    /// How the prompt was refused, if it was.
    pub(crate) fn refused(&mut self) -> Option<ErrorClass> {
        let refusal = |observed: Observed| match observed {
            Observed::Signal(Signal::PromptRefused { native_id, error }) if native_id == PROMPT => {
                Some(error.class)
            }
            _ => None,
        };
        std::iter::from_fn(|| self.conversation.next_observed()).filter_map(refusal).last()
    }

    pub(crate) fn answer(&mut self, answer: Answer) {
        self.conversation.answer(answer, Time(self.now));
    }

    pub(crate) fn pass(&mut self, seconds: u64) {
        self.now += seconds * 1_000;
        self.conversation.tick(Time(self.now));
    }

    pub(crate) fn event(&mut self, kind: &str, mut properties: Value) {
        properties["sessionID"] = json!(SESSION);
        let event = json!({"type": kind, "properties": properties}).to_string();
        self.conversation.event(&Arc::new(Event::parse(event.as_bytes()).unwrap()), Time(self.now));
    }

    pub(crate) fn status(&mut self, status: &str) {
        self.event("session.status", json!({"status": {"type": status}}));
    }

    pub(crate) fn empty_shelf(&mut self) {
        self.answer(Answer::Snapshot(Ok(Box::default())));
    }
}

#[test]
fn a_prompt_that_shows_no_sign_is_asked_about_sent_again_once_and_then_refused() {
    let mut talk = Talk::prompted();
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Accepted));
    talk.pass(4);
    assert_eq!(talk.calls(), [""; 0]);
    talk.pass(1);
    assert_eq!(talk.calls(), ["snapshot"]);
    talk.empty_shelf();
    assert_eq!(talk.calls(), ["prompt"]);
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Accepted));
    talk.pass(5);
    assert_eq!(talk.calls(), ["snapshot"]);
    talk.empty_shelf();
    assert_eq!(talk.refused(), Some(ErrorClass::NotStarted));
    assert_eq!(talk.calls(), [""; 0], "no third time");
}

#[test]
fn a_sign_of_work_is_enough() {
    let mut talk = Talk::prompted();
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Accepted));
    talk.status("busy");
    talk.pass(10);
    assert_eq!((talk.calls(), talk.refused()), (vec![], None));
}

#[test]
fn a_busy_server_counts_as_a_sign_when_the_event_was_missed() {
    let mut talk = Talk::prompted();
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Accepted));
    talk.pass(5);
    assert_eq!(talk.calls(), ["snapshot"]);
    talk.answer(Answer::Snapshot(Ok(Box::new(SessionSnapshot { busy: true, ..SessionSnapshot::default() }))));
    let began = std::iter::from_fn(|| talk.conversation.next_observed())
        .any(|observed| matches!(observed, Observed::Signal(Signal::TurnBegan { prompts, .. }) if prompts == [PROMPT]));
    assert!(began);
    assert_eq!(talk.calls(), [""; 0]);
}

#[test]
fn a_request_that_broke_is_asked_about_and_sent_again_under_the_same_name() {
    let mut talk = Talk::prompted();
    let broken = TurnError::new(ErrorClass::TransportLost, "broke");
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Unclear(broken)));
    talk.pass(0);
    assert_eq!(talk.calls(), ["snapshot"]);
    talk.empty_shelf();
    assert_eq!(talk.calls(), ["prompt"]);
}

#[test]
fn what_the_server_will_not_take_is_refused_at_once() {
    let mut talk = Talk::prompted();
    let refused = TurnError::new(ErrorClass::InvalidRequest, "no");
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Refused(refused)));
    assert_eq!(talk.refused(), Some(ErrorClass::InvalidRequest));
}

#[test]
fn an_error_without_a_start_refuses_the_prompt_with_that_error() {
    // An unknown agent: accepted, an error, and nothing else (capture p-errors).
    let mut talk = Talk::prompted();
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Accepted));
    talk.event(
        "session.error",
        json!({"error": {"name": "UnknownError", "data": {"message": "Agent not found"}}}),
    );
    talk.pass(1);
    assert_eq!(talk.calls(), ["snapshot"]);
    talk.empty_shelf();
    assert_eq!(talk.refused(), Some(ErrorClass::AgentError));
    assert_eq!(talk.calls(), [""; 0], "the same would happen again");
}

#[test]
fn a_busy_session_is_waited_for_and_asked_once_more() {
    let mut talk = Talk::prompted();
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Busy));
    talk.status("busy");
    talk.pass(5);
    assert_eq!(talk.calls(), [""; 0]);
    talk.event("session.idle", json!({}));
    assert_eq!(talk.calls(), ["prompt"]);
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Busy));
    assert_eq!(talk.refused(), Some(ErrorClass::NotStarted));

    // And for half a minute at most.
    let mut talk = Talk::prompted();
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Busy));
    talk.pass(30);
    assert_eq!(talk.calls(), ["prompt"]);
}

#[test]
fn a_turn_past_its_time_is_stopped_and_fails_for_that() {
    let mut talk = Talk::prompted();
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Accepted));
    talk.status("busy");
    for _ in 0..3 {
        talk.pass(19);
        talk.status("busy");
    }
    talk.calls();
    talk.pass(3);
    assert!(talk.calls().contains(&"abort"));
    // It stops, and says so as if somebody had asked for it.
    talk.event(
        "session.error",
        json!({"error": {"name": "MessageAbortedError", "data": {"message": "Aborted"}}}),
    );
    talk.status("idle");
    // One that was asked before the idle, and one after it.
    talk.empty_shelf();
    talk.empty_shelf();
    let said: Vec<ErrorClass> = std::iter::from_fn(|| talk.conversation.next_observed())
        .filter_map(|observed| match observed {
            Observed::Signal(Signal::Failed(error)) => Some(error.class),
            _ => None,
        })
        .collect();
    assert_eq!(said, [ErrorClass::Budget]);
}

/// A revert by another client takes effect with the next prompt, and its removals name messages alone
/// (capture s7).
#[test]
fn a_prompt_in_an_older_session_leaves_when_what_was_there_before_is_known() {
    let older = || {
        let mut talk = Talk::new();
        talk.conversation.continue_session();
        talk.conversation.connected(None, Time(talk.now));
        talk.prompt_again();
        assert_eq!(talk.calls(), ["past"]);
        talk
    };
    let mut talk = older();
    talk.answer(Answer::NewestMessages(Vec::new()));
    assert_eq!(talk.calls(), ["prompt"]);

    // It is not worth more than a few seconds.
    let mut talk = older();
    assert_eq!(talk.conversation.deadline(), Some(Time(talk.now + 5_000)));
    talk.pass(5);
    assert_eq!(talk.calls(), ["prompt"]);
    talk.answer(Answer::NewestMessages(Vec::new()));
    assert_eq!(talk.calls(), [""; 0]);

    let mut talk = older();
    talk.conversation.command(Command::Cancel, Time(talk.now));
    assert_eq!(talk.refused(), Some(ErrorClass::Cancelled));
    talk.answer(Answer::NewestMessages(Vec::new()));
    assert_eq!(talk.calls(), [""; 0]);

    assert_eq!(Call::NewestMessages.unanswered(), Some(Answer::NewestMessages(Vec::new())));
}
