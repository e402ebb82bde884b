//! Approvals and questions that wait for a person: which answers fit, and since when they wait.

use crate::error::RequestError;
use crate::request::{AnswerQuestion, ResolveApproval};
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;
use turnstream_adapter::Command;
use turnstream_model::event::{ApprovalOption, ApprovalOutcome, OptionKind, Question, QuestionOutcome};
use turnstream_model::fold::{Approval, Asked, State};
use turnstream_model::id::{ApprovalId, Key, QuestionId};

/// An approval that waits for an answer.
pub(super) struct OpenAsk {
    pub(super) options: Vec<ApprovalOption>,
    pub(super) since: Instant,
}

/// A question that waits for an answer.
pub(super) struct OpenQuestion {
    pub(super) questions: Vec<Question>,
    pub(super) since: Instant,
}

/// Open approvals and questions, and the keys of answers that are not durable yet.
#[derive(Default)]
pub(super) struct OpenWaits {
    pub(super) asks: HashMap<ApprovalId, OpenAsk>,
    pub(super) questions: HashMap<QuestionId, OpenQuestion>,
    pub(super) ask_keys: HashMap<ApprovalId, String>,
    pub(super) question_keys: HashMap<QuestionId, String>,
}

impl OpenWaits {
    /// Reads them from the log. Their deadlines begin now: nobody could answer while no gateway ran.
    pub(super) fn resume(state: &State) -> Self {
        let mut waits = Self::default();
        let since = Instant::now();
        let open = state.open();
        for Approval { approval, options, .. } in open.approvals {
            waits.asks.insert(approval.clone(), OpenAsk { options: options.clone(), since });
        }
        for Asked { question, questions, .. } in open.questions {
            let questions = questions.clone();
            waits.questions.insert(question.clone(), OpenQuestion { questions, since });
        }
        waits
    }

    /// The answers are durable: their keys are in the log.
    pub(super) fn forget_keys(&mut self) {
        self.ask_keys.clear();
        self.question_keys.clear();
    }

    /// Moves all deadlines.
    pub(super) fn postpone(&mut self, by: Duration) {
        let asks = self.asks.values_mut().map(|ask| &mut ask.since);
        for since in asks.chain(self.questions.values_mut().map(|question| &mut question.since)) {
            *since += by;
        }
    }

    /// Since when the oldest waits.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let asks = self.asks.values().map(|ask| ask.since);
        asks.chain(self.questions.values().map(|question| question.since)).min()
    }
}

/// Answers of the open turn, by the agent's names. The agent may not have received them before a crash.
pub(super) fn decisions(state: &State) -> HashMap<Key, Command> {
    let mut decided = HashMap::new();
    let Some(open) = state.open_turn().map(|turn| &turn.turn) else { return decided };
    for ask in state.approvals.iter().filter(|ask| ask.turn.as_ref() == Some(open)) {
        let (Some(native), Some(outcome)) = (&ask.native_id, ask.outcome) else { continue };
        // For the agent, an expired approval is a rejected one.
        let outcome = if outcome == ApprovalOutcome::Expired { ApprovalOutcome::Reject } else { outcome };
        if is_answer(outcome) {
            let key = Key::from(native.as_str());
            let (option, message) = (ask.option.clone(), ask.message.clone());
            decided.insert(key.clone(), Command::Approve { key, outcome, option, message });
        }
    }
    for asked in state.questions.iter().filter(|asked| asked.turn.as_ref() == Some(open)) {
        let (Some(native), Some(outcome)) = (&asked.native_id, asked.outcome) else { continue };
        let outcome = if outcome == QuestionOutcome::Expired { QuestionOutcome::Rejected } else { outcome };
        if matches!(outcome, QuestionOutcome::Answered | QuestionOutcome::Rejected) {
            let key = Key::from(native.as_str());
            let answers = asked.answers.clone();
            decided.insert(key.clone(), Command::Answer { key, outcome, answers });
        }
    }
    decided
}

/// Whether the outcome is a decision that the agent must receive.
pub(super) fn is_answer(outcome: ApprovalOutcome) -> bool {
    match outcome {
        ApprovalOutcome::AllowOnce | ApprovalOutcome::AllowAlways | ApprovalOutcome::Reject => true,
        ApprovalOutcome::Cancelled | ApprovalOutcome::Expired | ApprovalOutcome::Lost => false,
    }
}

/// The offered option for this outcome; `None` when the agent offered none.
pub(crate) fn option_for(options: &[ApprovalOption], outcome: ApprovalOutcome) -> Option<String> {
    let kinds: &[OptionKind] = match outcome {
        ApprovalOutcome::AllowOnce => &[OptionKind::AllowOnce],
        ApprovalOutcome::AllowAlways => &[OptionKind::AllowAlways],
        ApprovalOutcome::Reject
        | ApprovalOutcome::Expired
        | ApprovalOutcome::Cancelled
        | ApprovalOutcome::Lost => &[OptionKind::RejectOnce, OptionKind::RejectAlways],
    };
    let of_kind = |kind: &OptionKind| options.iter().find(|option| option.kind == *kind);
    kinds.iter().find_map(of_kind).map(|option| option.id.clone())
}

/// Checks an answer against the offered options, and returns the chosen one.
pub(super) fn check_answer(ask: &OpenAsk, answer: &ResolveApproval) -> Result<Option<String>, RequestError> {
    let outcome = answer.outcome;
    if !is_answer(outcome) {
        return Err(RequestError::BadAnswer(format!(
            "outcome {outcome} is not an answer; use allow_once, allow_always or reject"
        )));
    }
    let Some(wanted) = &answer.option else { return Ok(option_for(&ask.options, outcome)) };
    let Some(option) = ask.options.iter().find(|option| option.id == *wanted) else {
        let offered: Vec<&str> = ask.options.iter().map(|option| option.id.as_str()).collect();
        let offered = if offered.is_empty() { "none".to_owned() } else { offered.join(", ") };
        return Err(RequestError::BadAnswer(format!(
            "option {wanted:?} was not offered; offered: {offered}"
        )));
    };
    let fits = match option.kind {
        OptionKind::AllowOnce => outcome == ApprovalOutcome::AllowOnce,
        OptionKind::AllowAlways => outcome == ApprovalOutcome::AllowAlways,
        OptionKind::RejectOnce | OptionKind::RejectAlways => outcome == ApprovalOutcome::Reject,
    };
    if !fits {
        let kind = option.kind;
        return Err(RequestError::BadAnswer(format!("option {wanted:?} is {kind}, which is not {outcome}")));
    }
    Ok(Some(wanted.clone()))
}

/// Checks answers against the questions.
pub(super) fn check_answers(asked: &OpenQuestion, answer: &AnswerQuestion) -> Result<(), RequestError> {
    match answer.outcome {
        QuestionOutcome::Rejected => return Ok(()),
        QuestionOutcome::Answered => {}
        QuestionOutcome::Cancelled | QuestionOutcome::Expired | QuestionOutcome::Lost => {
            let outcome = answer.outcome;
            return Err(RequestError::BadAnswer(format!(
                "outcome {outcome} is not an answer; give answers, or the outcome rejected"
            )));
        }
    }
    let Some(answers) = &answer.answers else {
        return Err(RequestError::BadAnswer("give answers, or the outcome rejected".to_owned()));
    };
    for (id, values) in answers {
        if asked.questions.iter().all(|question| question.id != *id) {
            let known: Vec<&str> = asked.questions.iter().map(|question| question.id.as_str()).collect();
            let known = known.join(", ");
            return Err(RequestError::BadAnswer(format!(
                "there is no question {id:?} here; the questions are {known}"
            )));
        }
        let texts = values.as_array().is_some_and(|values| values.iter().all(Value::is_string));
        if !texts {
            return Err(RequestError::BadAnswer(format!("the answer to {id:?} must be an array of strings")));
        }
    }
    match asked.questions.iter().find(|question| !answers.contains_key(&question.id)) {
        Some(missing) => Err(RequestError::BadAnswer(format!("question {:?} has no answer", missing.id))),
        None => Ok(()),
    }
}
