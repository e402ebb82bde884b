//! The prompts that the editor sent and that have no answer yet.

use agent_client_protocol_schema::v1::RequestId;
use std::convert::Infallible;
use tokio::sync::oneshot;
use tokio::time::Instant;
use turnstream_model::event::{Body, Draft};
use turnstream_model::fold::{Prompt, PromptStage, State};
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

/// A prompt that has not ended.
#[derive(Debug)]
pub(super) struct InFlight {
    /// The request of the editor, until it is answered. One that is answered before its prompt has ended was
    /// given up: the gateway was away for too long.
    pub(super) request: Option<RequestId>,
    /// The key with which the gateway knows it. The log names it, so that no answer has to be waited for.
    pub(super) key: String,
    pub(super) prompt: Option<PromptId>,
    pub(super) stage: Stage,
    pub(super) cancel: Option<Cancel>,
    /// Dropped when the prompt must not be sent again.
    sending: Option<oneshot::Sender<Infallible>>,
    /// When the editor sent it.
    since: Instant,
}

/// The prompts of the editor that have not ended, oldest first.
#[derive(Debug, Default)]
pub(super) struct Prompts {
    open: Vec<InFlight>,
    /// Keys of prompts that were given up while they were sent. The gateway may have accepted them: then the
    /// log names them, and they are cancelled.
    in_doubt: Vec<String>,
}

impl Prompts {
    pub(super) fn add(&mut self, request: RequestId, key: String) {
        let (prompt, stage, cancel, sending) = (None, Stage::Accepting, None, None);
        let (request, since) = (Some(request), Instant::now());
        self.open.push(InFlight { request, key, prompt, stage, cancel, sending, since });
    }

    /// Whether none is left, not even one in doubt.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.in_doubt.is_empty()
    }

    /// Whether one of them has not ended.
    pub(super) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// When the oldest prompt without an answer was sent.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.open.iter().filter(|one| one.request.is_some()).map(|one| one.since).min()
    }

    /// The prompt is being sent. The receiver fails when it must not be sent again.
    pub(super) fn send(&mut self, key: &str) -> oneshot::Receiver<Infallible> {
        let (sender, stopped) = oneshot::channel();
        if let Some(one) = self.by_key(key).filter(|one| one.cancel.is_none()) {
            one.sending = Some(sender);
        }
        stopped
    }

    pub(super) fn is_ours(&self, prompt: &PromptId) -> bool {
        self.open.iter().any(|one| one.prompt.as_ref() == Some(prompt))
    }

    pub(super) fn take(&mut self, prompt: &PromptId) -> Option<InFlight> {
        let at = self.open.iter().position(|one| one.prompt.as_ref() == Some(prompt))?;
        Some(self.open.remove(at))
    }

    /// Takes a prompt that the gateway refused.
    pub(super) fn take_refused(&mut self, key: &str) -> Option<InFlight> {
        let at = self.open.iter().position(|one| one.key == key && one.stage == Stage::Accepting)?;
        Some(self.open.remove(at))
    }

    /// The same for a prompt that the gateway may have accepted.
    pub(super) fn take_in_doubt(&mut self, key: &str) -> Option<InFlight> {
        let one = self.take_refused(key)?;
        self.in_doubt.push(one.key.clone());
        Some(one)
    }

    /// Takes a prompt that is to be cancelled.
    pub(super) fn take_cancelled(&mut self, key: &str) -> Option<InFlight> {
        let at = self.open.iter().position(|one| one.key == key && one.cancel.is_some())?;
        Some(self.open.remove(at))
    }

    pub(super) fn take_all(&mut self) -> Vec<InFlight> {
        std::mem::take(self).open
    }

    /// Takes the prompts without an answer. Those that were given up stay.
    pub(super) fn take_unanswered(&mut self) -> Vec<RequestId> {
        let unanswered = self.open.extract_if(.., |one| one.request.is_some());
        unanswered.filter_map(|one| one.request).collect()
    }

    /// Gives up those of which this is true, by the time when they were sent. Returns their requests, and
    /// whether the editor has cancelled them itself.
    pub(super) fn give_up(&mut self, is_due: impl Fn(Instant) -> bool) -> Vec<(RequestId, bool)> {
        let give_up = |one: &mut InFlight| {
            let request = one.request.take_if(|_| is_due(one.since))?;
            let is_cancelled = one.cancel.is_some();
            one.want_cancel();
            Some((request, is_cancelled))
        };
        self.open.iter_mut().filter_map(give_up).collect()
    }

    /// The log is followed from this state on. All of them were given up: those that have ended are left out,
    /// and those that the gateway never got, unless one is being sent.
    pub(super) fn catch_up(&mut self, state: &State, is_sending: bool) {
        let Self { open, in_doubt } = std::mem::take(self);
        let known = |key: &String| {
            let mut prompts = state.queue.iter().chain(&state.prompts);
            prompts.find(|prompt| prompt.key.as_ref() == Some(key))
        };
        for key in open.into_iter().map(|one| one.key).chain(in_doubt) {
            match known(&key) {
                None if is_sending => self.in_doubt.push(key),
                None => {}
                Some(prompt) => self.open.extend(stage_of(prompt, state).map(|stage| {
                    let (request, prompt) = (None, Some(prompt.prompt.clone()));
                    let (cancel, since) = (Some(Cancel::Wanted), Instant::now());
                    InFlight { request, key, prompt, stage, cancel, sending: None, since }
                })),
            }
        }
    }

    pub(super) fn by_key(&mut self, key: &str) -> Option<&mut InFlight> {
        self.open.iter_mut().find(|one| one.key == key)
    }

    /// Wants all of them, or the one of this request, to be cancelled. Returns whether there is one
    /// without an answer.
    pub(super) fn cancel(&mut self, request: Option<&RequestId>) -> bool {
        let mut is_any = false;
        let is_meant = |one: &&mut InFlight| request.is_none() || one.request.as_ref() == request;
        for one in self.open.iter_mut().filter(is_meant) {
            one.want_cancel();
            is_any |= one.request.is_some();
        }
        is_any
    }

    /// Whether the editor has cancelled all of its prompts.
    pub(super) fn is_cancelled(&self) -> bool {
        !self.open.is_empty() && self.open.iter().all(|one| one.cancel.is_some())
    }

    /// The prompts whose cancel the gateway can be asked for now. Those in the queue come first: once the
    /// turn before them has ended, the gateway would send them.
    pub(super) fn take_cancels(&mut self) -> Vec<(String, PromptId, Stage)> {
        let mut asked = Vec::new();
        for one in &mut self.open {
            let is_waiting = one.is_cancel_open_in_queue();
            if let (Some(Cancel::Wanted), Some(prompt), true) = (&one.cancel, &one.prompt, is_waiting) {
                asked.push((one.key.clone(), prompt.clone(), one.stage.clone()));
                one.cancel = Some(Cancel::Asked(one.stage.clone()));
            }
        }
        if self.open.iter().any(InFlight::is_cancel_open_in_queue) {
            return asked;
        }
        for one in &mut self.open {
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
                if let Some(at) = self.in_doubt.iter().position(|one| one == key) {
                    let (request, key, stage) = (None, self.in_doubt.swap_remove(at), Stage::Accepting);
                    let (cancel, since) = (Some(Cancel::Wanted), Instant::now());
                    let (prompt, sending) = (None, None);
                    self.open.push(InFlight { request, key, prompt, stage, cancel, sending, since });
                }
                if let Some(one) = self.open.iter_mut().find(|one| one.key == *key) {
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
        if let Some(one) = self.open.iter_mut().find(|one| one.prompt.as_ref() == Some(prompt)) {
            one.reach(stage.clone());
        }
    }
}

/// How far a prompt has come in a state. None if it has ended.
fn stage_of(prompt: &Prompt, state: &State) -> Option<Stage> {
    match prompt.state {
        PromptStage::Waiting => Some(Stage::Queued),
        PromptStage::Sent => Some(Stage::Sent),
        PromptStage::Taken => {
            let turn = state.open_turn().filter(|turn| prompt.turn.as_ref() == Some(&turn.turn))?;
            Some(Stage::InTurn(turn.turn.clone()))
        }
        PromptStage::Withdrawn => None,
    }
}

impl InFlight {
    fn want_cancel(&mut self) {
        self.cancel.get_or_insert(Cancel::Wanted);
        self.sending = None;
    }

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
    use tokio::sync::oneshot::error::TryRecvError;
    use turnstream_model::event::Event;
    use turnstream_model::fold::Fold;

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

    #[test]
    fn a_prompt_that_was_given_up_is_cancelled_when_the_log_names_it() {
        let mut prompts = Prompts::default();
        prompts.add(RequestId::Number(1), "a".to_owned());
        prompts.add(RequestId::Number(2), "b".to_owned());
        let accepted = r#""type":"prompt.accepted","prompt":"p1","key":"a","content":[]"#;
        note(&mut prompts, accepted);
        let mut stopped = prompts.send("b");
        assert!(stopped.try_recv().is_err_and(|error| error == TryRecvError::Empty));
        prompts.cancel(Some(&RequestId::Number(2)));
        assert_eq!(stopped.try_recv(), Err(TryRecvError::Closed), "it is not sent again");
        assert_eq!(prompts.give_up(|_| false), [], "they may wait longer");
        let answered = prompts.give_up(|_| true);
        assert_eq!(answered, [(RequestId::Number(1), false), (RequestId::Number(2), true)]);
        assert!(prompts.waiting_since().is_none() && !prompts.is_empty());
        // Nobody knows whether the gateway has the second one.
        assert!(prompts.take_in_doubt("b").unwrap().request.is_none());
        let stages = |prompts: &mut Prompts| -> Vec<(String, Stage)> {
            prompts.take_cancels().into_iter().map(|(key, _, stage)| (key, stage)).collect()
        };
        assert_eq!(stages(&mut prompts), [("a".to_owned(), Stage::Queued)]);
        note(&mut prompts, r#""type":"prompt.accepted","prompt":"p2","key":"b","content":[]"#);
        assert_eq!(stages(&mut prompts), [("b".to_owned(), Stage::Queued)]);
        // The same when the log is followed from a later place.
        let mut fold = Fold::default();
        for (seq, body) in [
            r#""type":"session.created","session":"s","agent":"a","cwd":"/w""#,
            accepted,
            r#""type":"prompt.withdrawn","prompt":"p1""#,
            r#""type":"prompt.accepted","prompt":"p2","key":"b","content":[]"#,
        ]
        .into_iter()
        .enumerate()
        {
            fold.apply(&Event::from_json(&format!(r#"{{"seq":{},"time":1,{body}}}"#, seq + 1)).unwrap());
        }
        prompts.catch_up(fold.state(), false);
        assert_eq!(stages(&mut prompts), [("b".to_owned(), Stage::Queued)]);
        // A log that is put in the place of this one keeps what was given up, and nothing else.
        prompts.add(RequestId::Number(3), "c".to_owned());
        assert_eq!(prompts.take_unanswered(), [RequestId::Number(3)]);
        assert!(prompts.by_key("b").is_some() && prompts.by_key("c").is_none());
    }
}
