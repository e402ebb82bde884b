//! Prompts and a server that is away for a while: they wait for it, leave once, and are refused only when it
//! stays away.

use crate::prompts::{PROMPT, Talk};
use turnstream_adapter::Observed;
use turnstream_model::event::{ErrorClass, NoticeCode, TurnError};
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;
use turnstream_opencode_client::conversation::{Answer, PromptAnswer};

const WAITS: u64 = 30;

fn refused_connection() -> TurnError {
    TurnError::new(ErrorClass::Unreachable, "cannot connect to opencode: connection refused")
}

fn unsent(talk: &mut Talk) {
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Unsent(refused_connection())));
}

fn broke(talk: &mut Talk) {
    let error = TurnError::new(ErrorClass::TransportLost, "the connection broke");
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Unclear(error)));
}

fn lost(talk: &mut Talk) {
    talk.conversation.lost("the event stream broke", Time(talk.now));
}

fn connected(talk: &mut Talk) {
    talk.conversation.connected(Some("there again".to_owned()), Time(talk.now));
}

fn not_asked(talk: &mut Talk) {
    talk.answer(Answer::Snapshot(Err(refused_connection())));
}

/// Whether prompts are wanted, as far as was said.
fn reach(talk: &mut Talk) -> Vec<&'static str> {
    let word = |observed: Observed| match observed {
        Observed::Away(_) => Some("away"),
        Observed::Back => Some("back"),
        Observed::Signal(_) | Observed::Fate { .. } | Observed::CaughtUp => None,
    };
    std::iter::from_fn(|| talk.conversation.next_observed()).filter_map(word).collect()
}

#[test]
fn a_prompt_that_comes_while_the_server_is_away_leaves_when_it_has_answered_again() {
    let mut talk = Talk::new();
    talk.conversation.connected(None, Time(talk.now));
    lost(&mut talk);
    talk.prompt_again();
    assert_eq!((talk.calls(), reach(&mut talk)), (vec![], vec!["away"]));
    talk.pass(10);
    connected(&mut talk);
    assert_eq!((talk.calls(), reach(&mut talk)), (vec!["snapshot"], vec![]));
    talk.empty_shelf();
    assert_eq!((talk.calls(), reach(&mut talk)), (vec!["prompt"], vec!["back"]));
}

#[test]
fn a_prompt_that_no_connection_could_be_made_for_is_sent_again_until_its_time_is_over() {
    let mut talk = Talk::prompted();
    for _ in 0..WAITS - 1 {
        unsent(&mut talk);
        assert_eq!((talk.calls(), talk.refused()), (vec![], None));
        talk.pass(1);
        assert_eq!(talk.calls(), ["prompt"]);
    }
    unsent(&mut talk);
    talk.pass(1);
    assert_eq!(talk.refused(), Some(ErrorClass::Unreachable));
    assert!(!talk.calls().contains(&"prompt"));
}

#[test]
fn a_prompt_whose_connection_broke_is_asked_about_when_the_server_is_back_and_sent_again_once() {
    let mut talk = Talk::prompted();
    broke(&mut talk);
    lost(&mut talk);
    talk.pass(0);
    assert_eq!(talk.calls(), [""; 0], "there is nobody to ask");
    talk.pass(10);
    connected(&mut talk);
    assert_eq!(talk.calls(), ["snapshot"]);
    talk.empty_shelf();
    assert_eq!(talk.calls(), ["prompt"], "under the same name");
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Accepted));
    talk.status("busy");
    talk.pass(60);
    assert_eq!(talk.refused(), None);
}

#[test]
fn a_server_that_cannot_be_asked_about_a_prompt_is_asked_again_until_its_time_is_over() {
    let mut talk = Talk::prompted();
    broke(&mut talk);
    talk.pass(0);
    assert_eq!(talk.calls(), ["snapshot"]);
    not_asked(&mut talk);
    assert_eq!(talk.refused(), None);
    talk.pass(1);
    assert_eq!(talk.calls(), ["snapshot"]);
    not_asked(&mut talk);
    talk.pass(WAITS);
    assert_eq!(talk.refused(), Some(ErrorClass::Unreachable));
}

#[test]
fn a_server_that_stays_away_refuses_what_waits_for_it_as_unreachable() {
    for sent_before in [true, false] {
        let mut talk = if sent_before { Talk::prompted() } else { Talk::new() };
        if sent_before {
            broke(&mut talk);
        }
        lost(&mut talk);
        if !sent_before {
            talk.prompt_again();
        }
        talk.pass(WAITS - 1);
        assert_eq!(talk.refused(), None);
        talk.pass(1);
        assert_eq!(talk.refused(), Some(ErrorClass::Unreachable), "sent before: {sent_before}");
        connected(&mut talk);
        talk.empty_shelf();
        assert!(!talk.calls().contains(&"prompt"), "it was refused, and never leaves");
    }
}

#[test]
fn a_prompt_that_was_taken_before_the_server_went_away_is_not_sent_again() {
    let mut talk = Talk::prompted();
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Accepted));
    lost(&mut talk);
    connected(&mut talk);
    assert_eq!(talk.calls(), ["snapshot"]);
    let busy = turnstream_opencode_client::conversation::SessionSnapshot { busy: true, ..Default::default() };
    talk.pass(5);
    talk.answer(Answer::Snapshot(Ok(Box::new(busy.clone()))));
    assert_eq!(talk.calls(), ["snapshot"], "the first answer may be older than the question about it");
    talk.answer(Answer::Snapshot(Ok(Box::new(busy))));
    assert_eq!((talk.calls(), talk.refused()), (vec![], None));
}

#[test]
fn a_session_that_was_deleted_while_nobody_listened_is_told_of_and_its_link_ends() {
    let mut talk = Talk::new();
    talk.conversation.connected(None, Time(talk.now));
    lost(&mut talk);
    connected(&mut talk);
    assert_eq!(talk.calls(), ["snapshot"]);
    let mut gone = TurnError::new(ErrorClass::AgentError, "Session not found");
    gone.status = Some(404);
    talk.answer(Answer::Snapshot(Err(gone)));
    let said: Vec<Observed> = std::iter::from_fn(|| talk.conversation.next_observed()).collect();
    let notice = |observed: &Observed| {
        matches!(observed, Observed::Signal(Signal::Notice { code: NoticeCode::Forgotten, .. }))
    };
    assert_eq!(said.iter().filter(|observed| notice(observed)).count(), 1, "{said:#?}");
    assert!(
        said.iter().any(|observed| matches!(observed, Observed::Signal(Signal::LinkLost(_)))),
        "{said:#?}"
    );
}

#[test]
fn a_prompt_for_a_session_that_is_gone_fails_and_the_deletion_is_told_of() {
    let mut talk = Talk::prompted();
    let mut gone = TurnError::new(ErrorClass::AgentError, "Session not found");
    gone.status = Some(404);
    talk.answer(Answer::Prompt(PROMPT.to_owned(), PromptAnswer::Refused(gone.clone())));
    assert_eq!((talk.calls(), talk.refused()), (vec!["snapshot"], Some(ErrorClass::AgentError)));
    talk.answer(Answer::Snapshot(Err(gone)));
    let lost = |observed: Observed| matches!(observed, Observed::Signal(Signal::LinkLost(_)));
    assert!(std::iter::from_fn(|| talk.conversation.next_observed()).any(lost));
}
