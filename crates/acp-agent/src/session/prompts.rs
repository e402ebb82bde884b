//! The prompts that the editor sent and that have no answer yet.

use agent_client_protocol_schema::v1::RequestId;
use turnstream_model::event::{Body, Draft};
use turnstream_model::id::{PromptId, TurnId};

/// How far a prompt has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The gateway has not accepted it yet.
    Accepting,
    /// It waits in the queue of the session.
    Queued,
    /// The agent has it, and no turn has taken it.
    Sent,
    /// A turn has taken it.
    InTurn(TurnId),
}

/// The cancel of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cancel {
    /// The editor wants it, and the gateway has not been asked.
    Wanted,
    /// The gateway was asked when the prompt was at this stage.
    Asked(Stage),
    /// The gateway refused it at this stage. The next stage is to come.
    Refused(Stage),
    /// The gateway has accepted it. The end of the turn follows.
    Accepted,
}

/// A prompt without an answer.
#[derive(Debug)]
pub(super) struct InFlight {
    /// The request of the editor.
    pub(super) request: RequestId,
    /// The key with which the gateway knows it. The log names it, so that no answer has to be waited for.
    pub(super) key: String,
    pub(super) prompt: Option<PromptId>,
    pub(super) stage: Stage,
    pub(super) cancel: Option<Cancel>,
}

/// All prompts without an answer, oldest first.
#[derive(Debug, Default)]
pub(super) struct Prompts(Vec<InFlight>);

impl Prompts {
    pub(super) fn add(&mut self, request: RequestId, key: String) {
        self.0.push(InFlight { request, key, prompt: None, stage: Stage::Accepting, cancel: None });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn is_ours(&self, prompt: &PromptId) -> bool {
        self.0.iter().any(|one| one.prompt.as_ref() == Some(prompt))
    }

    pub(super) fn take(&mut self, prompt: &PromptId) -> Option<InFlight> {
        let at = self.0.iter().position(|one| one.prompt.as_ref() == Some(prompt))?;
        Some(self.0.remove(at))
    }

    /// Takes a prompt that the gateway has not accepted.
    pub(super) fn take_refused(&mut self, key: &str) -> Option<InFlight> {
        let at = self.0.iter().position(|one| one.key == key && one.stage == Stage::Accepting)?;
        Some(self.0.remove(at))
    }

    /// Takes a prompt that is to be cancelled.
    pub(super) fn take_cancelled(&mut self, key: &str) -> Option<InFlight> {
        let at = self.0.iter().position(|one| one.key == key && one.cancel.is_some())?;
        Some(self.0.remove(at))
    }

    pub(super) fn take_all(&mut self) -> Vec<InFlight> {
        std::mem::take(&mut self.0)
    }

    pub(super) fn by_key(&mut self, key: &str) -> Option<&mut InFlight> {
        self.0.iter_mut().find(|one| one.key == key)
    }

    /// Wants all of them, or the one of this request, to be cancelled. Returns whether there is one.
    pub(super) fn cancel(&mut self, request: Option<&RequestId>) -> bool {
        let mut is_any = false;
        for one in self.0.iter_mut().filter(|one| request.is_none_or(|request| one.request == *request)) {
            one.cancel.get_or_insert(Cancel::Wanted);
            is_any = true;
        }
        is_any
    }

    /// Whether the editor has cancelled all of its prompts.
    pub(super) fn is_cancelled(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|one| one.cancel.is_some())
    }

    /// The prompts whose cancel the gateway can be asked for now. Those in the queue come first: once the
    /// turn before them has ended, the gateway would send them.
    pub(super) fn take_cancels(&mut self) -> Vec<(String, PromptId, Stage)> {
        let mut asked = Vec::new();
        for one in &mut self.0 {
            let is_waiting = one.is_cancel_open_in_queue();
            if let (Some(Cancel::Wanted), Some(prompt), true) = (&one.cancel, &one.prompt, is_waiting) {
                asked.push((one.key.clone(), prompt.clone(), one.stage.clone()));
                one.cancel = Some(Cancel::Asked(one.stage.clone()));
            }
        }
        if self.0.iter().any(InFlight::is_cancel_open_in_queue) {
            return asked;
        }
        for one in &mut self.0 {
            if let (Some(Cancel::Wanted), Some(prompt)) = (&one.cancel, &one.prompt) {
                asked.push((one.key.clone(), prompt.clone(), one.stage.clone()));
                one.cancel = Some(Cancel::Asked(one.stage.clone()));
            }
        }
        asked
    }

    /// Notes what an event says about them.
    pub(super) fn note(&mut self, draft: &Draft) {
        match &draft.body {
            Body::PromptAccepted { prompt, key: Some(key), .. } => {
                if let Some(one) = self.0.iter_mut().find(|one| one.key == *key) {
                    one.prompt = Some(prompt.clone());
                    one.reach(Stage::Queued);
                }
            }
            Body::PromptSent { prompt, .. } => self.reach(prompt, &Stage::Sent),
            Body::PromptTaken { prompt } => {
                if let Some(turn) = &draft.turn {
                    self.reach(prompt, &Stage::InTurn(turn.clone()));
                }
            }
            _ => {}
        }
    }

    fn reach(&mut self, prompt: &PromptId, stage: &Stage) {
        if let Some(one) = self.0.iter_mut().find(|one| one.prompt.as_ref() == Some(prompt)) {
            one.reach(stage.clone());
        }
    }
}

impl InFlight {
    /// It is to be cancelled, and neither the agent has it nor has the gateway agreed.
    fn is_cancel_open_in_queue(&self) -> bool {
        let is_open = matches!(self.cancel, Some(Cancel::Wanted | Cancel::Asked(_)));
        is_open && matches!(self.stage, Stage::Accepting | Stage::Queued)
    }

    fn reach(&mut self, stage: Stage) {
        self.stage = stage;
        if let Some(Cancel::Refused(_)) = self.cancel {
            self.cancel = Some(Cancel::Wanted);
        }
    }

    /// The gateway refused a cancel. It is asked again at the next stage, or now if that has come.
    pub(super) fn cancel_refused(&mut self, at: &Stage) {
        let is_over = self.stage != *at;
        self.cancel = Some(if is_over { Cancel::Wanted } else { Cancel::Refused(at.clone()) });
    }
}

#[cfg(test)]
mod tests {
    use super::{Cancel, Prompts, Stage};
    use agent_client_protocol_schema::v1::RequestId;
    use turnstream_model::event::Event;

    fn note(prompts: &mut Prompts, body: &str) {
        let line = format!(r#"{{"seq":1,"time":1,{body}}}"#);
        prompts.note(&Event::from_json(&line).unwrap().draft);
    }

    #[test]
    fn a_cancel_is_asked_for_once_at_each_stage_until_the_gateway_accepts_it() {
        let mut prompts = Prompts::default();
        prompts.add(RequestId::Number(1), "k".to_owned());
        assert!(prompts.cancel(None));
        assert!(prompts.take_cancels().is_empty(), "the gateway does not know it yet");
        note(&mut prompts, r#""type":"prompt.accepted","prompt":"p1","key":"k","content":[]"#);
        let stages: Vec<Stage> = prompts.take_cancels().into_iter().map(|(_, _, stage)| stage).collect();
        assert_eq!(stages, [Stage::Queued]);
        assert!(prompts.take_cancels().is_empty());
        // It left the queue meanwhile.
        prompts.by_key("k").unwrap().cancel_refused(&Stage::Queued);
        assert!(prompts.take_cancels().is_empty());
        note(&mut prompts, r#""type":"prompt.sent","prompt":"p1""#);
        assert_eq!(prompts.take_cancels()[0].2, Stage::Sent);
        note(&mut prompts, r#""type":"prompt.taken","turn":"t1","prompt":"p1""#);
        prompts.by_key("k").unwrap().cancel_refused(&Stage::Sent);
        assert!(matches!(&prompts.take_cancels()[0].2, Stage::InTurn(turn) if turn.as_str() == "t1"));
    }

    #[test]
    fn what_waits_in_the_queue_is_cancelled_before_the_turn_that_it_waits_for() {
        let mut prompts = Prompts::default();
        for (request, key) in [(1, "a"), (2, "b")] {
            prompts.add(RequestId::Number(request), key.to_owned());
        }
        note(&mut prompts, r#""type":"prompt.accepted","prompt":"p1","key":"a","content":[]"#);
        note(&mut prompts, r#""type":"prompt.taken","turn":"t1","prompt":"p1""#);
        note(&mut prompts, r#""type":"prompt.accepted","prompt":"p2","key":"b","content":[]"#);
        prompts.cancel(None);
        let first = prompts.take_cancels();
        assert_eq!(first.iter().map(|(key, ..)| key.as_str()).collect::<Vec<_>>(), ["b"]);
        assert!(prompts.take_cancels().is_empty());
        prompts.by_key("b").unwrap().cancel = Some(Cancel::Accepted);
        let then = prompts.take_cancels();
        assert_eq!(then.iter().map(|(key, ..)| key.as_str()).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn prompts_of_others_are_not_ours() {
        let mut prompts = Prompts::default();
        prompts.add(RequestId::Number(1), "k".to_owned());
        note(&mut prompts, r#""type":"prompt.accepted","prompt":"p1","key":"other","content":[]"#);
        assert!(!prompts.is_ours(&"p1".into()));
        assert!(prompts.take_refused("k").is_some());
        assert!(prompts.is_empty());
    }
}
