//! The last moment of a log at which nothing was open: up to there it may be exported (L10), and an import has nothing to
//! take up.

use crate::cursor::Seq;
use crate::event::{Body, Event, Status};
use crate::fold::{Activity, ItemStage, State};
use crate::id::{ApprovalId, ItemId, PromptId, QuestionId, TurnId};
use std::collections::BTreeSet;

/// Takes in a log event by event, and keeps what is open.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    turns: BTreeSet<TurnId>,
    items: BTreeSet<ItemId>,
    approvals: BTreeSet<ApprovalId>,
    questions: BTreeSet<QuestionId>,
    prompts: BTreeSet<PromptId>,
    busy: bool,
    last: Option<Seq>,
}

impl Settled {
    /// A log that goes on from this state: what is open in it is open.
    pub fn after(base: &State) -> Self {
        let mut settled = Self {
            turns: (base.turns.iter().filter(|turn| turn.outcome.is_none()))
                .map(|turn| turn.turn.clone())
                .collect(),
            items: (base.items.iter().filter(|item| item.state == ItemStage::Streaming))
                .map(|item| item.id.clone())
                .collect(),
            approvals: (base.approvals.iter().filter(|ask| ask.outcome.is_none()))
                .map(|ask| ask.approval.clone())
                .collect(),
            questions: (base.questions.iter().filter(|asked| asked.outcome.is_none()))
                .map(|asked| asked.question.clone())
                .collect(),
            prompts: base.queue.iter().map(|prompt| prompt.prompt.clone()).collect(),
            busy: base.session.status != Activity::Idle,
            last: None,
        };
        // Before the first event there is nothing to export.
        settled.last = (base.seq > Seq(0) && settled.open().is_none()).then_some(base.seq);
        settled
    }

    /// The last event after which nothing was open; `None` when there was no such moment.
    pub fn last(&self) -> Option<Seq> {
        self.last
    }

    /// What is open now, in words; `None` when nothing is.
    pub fn open(&self) -> Option<String> {
        let Self { turns, items, approvals, questions, prompts, busy, last: _ } = self;
        let turn = turns.first().map(|turn| format!("turn {turn}"));
        let item = || items.first().map(|item| format!("item {item}"));
        let approval = || approvals.first().map(|approval| format!("approval {approval}"));
        let question = || questions.first().map(|question| format!("question {question}"));
        let prompt = || prompts.first().map(|prompt| format!("prompt {prompt}"));
        let status = || busy.then(|| "the session, which is not idle,".to_owned());
        turn.or_else(item).or_else(approval).or_else(question).or_else(prompt).or_else(status)
    }

    /// The next event of the log.
    pub fn apply(&mut self, event: &Event) {
        let draft = &event.draft;
        match &draft.body {
            Body::TurnStarted { .. } => self.turns.extend(draft.turn.clone()),
            Body::TurnEnded { .. } => remove(&mut self.turns, draft.turn.as_ref()),
            Body::ItemStarted { .. } => self.items.extend(draft.item.clone()),
            Body::ItemEnded { .. } | Body::ItemRemoved => remove(&mut self.items, draft.item.as_ref()),
            Body::AttemptSuperseded { by: _, items } => {
                items.iter().for_each(|item| remove(&mut self.items, Some(item)));
            }
            Body::ApprovalRequested { approval, .. } => drop(self.approvals.insert(approval.clone())),
            Body::ApprovalResolved { approval, .. } => remove(&mut self.approvals, Some(approval)),
            Body::QuestionAsked { question, .. } => drop(self.questions.insert(question.clone())),
            Body::QuestionAnswered { question, .. } => remove(&mut self.questions, Some(question)),
            Body::PromptAccepted { prompt, .. } => drop(self.prompts.insert(prompt.clone())),
            Body::PromptTaken { prompt } | Body::PromptWithdrawn { prompt } => {
                remove(&mut self.prompts, Some(prompt));
            }
            Body::SessionStatus(status) => match status {
                Status::Idle => self.busy = false,
                Status::Busy | Status::Waiting | Status::Recovering | Status::Retrying { .. } => {
                    self.busy = true;
                }
            },
            Body::SessionCreated { .. }
            | Body::SessionUpdated(_)
            | Body::SessionEnded { .. }
            | Body::PromptSent { .. }
            | Body::PromptCancelling { .. }
            | Body::TurnCancelling { .. }
            | Body::AttemptStarted { .. }
            | Body::AttemptEnded { .. }
            | Body::ItemDelta { .. }
            | Body::ItemReplaced { .. }
            | Body::ItemUpdated { .. }
            | Body::ItemRevised { .. }
            | Body::Notice { .. }
            | Body::Unknown { .. } => {}
        }
        if self.open().is_none() {
            self.last = Some(event.seq);
        }
    }
}

fn remove<T: Ord>(open: &mut BTreeSet<T>, gone: Option<&T>) {
    if let Some(gone) = gone {
        open.remove(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::Fold;

    fn after(lines: &[&str]) -> (Option<u64>, Option<String>) {
        let mut settled = Settled::default();
        for (index, line) in lines.iter().enumerate() {
            let line = format!(r#"{{"seq":{},"time":1,{}"#, index + 1, &line[1..]);
            settled.apply(&Event::from_json(&line).unwrap());
        }
        (settled.last().map(|seq| seq.0), settled.open())
    }

    #[test]
    fn a_log_is_settled_when_nothing_is_open_in_it_and_it_is_idle() {
        let log = [
            r#"{"type":"session.created","session":"s","agent":"a","cwd":"/w"}"#,
            r#"{"type":"prompt.accepted","prompt":"p1","content":[]}"#,
            r#"{"type":"turn.started","turn":"t1","origin":"prompt","prompts":["p1"]}"#,
            r#"{"type":"prompt.taken","prompt":"p1","turn":"t1"}"#,
            r#"{"type":"session.status","status":"busy"}"#,
            r#"{"type":"item.started","turn":"t1","item":"i1","kind":"message","text":""}"#,
            r#"{"type":"item.ended","turn":"t1","item":"i1","state":"completed"}"#,
            r#"{"type":"turn.ended","turn":"t1","outcome":"completed"}"#,
            r#"{"type":"session.status","status":"idle"}"#,
            r#"{"type":"item.started","item":"i2","parent":"i1","kind":"message","text":""}"#,
            r#"{"type":"item.ended","item":"i2","state":"completed"}"#,
        ];
        let open = |open: &str| Some(open.to_owned());
        assert_eq!(after(&log[..1]), (Some(1), None));
        assert_eq!(after(&log[..2]), (Some(1), open("prompt p1")));
        assert_eq!(after(&log[..7]), (Some(1), open("turn t1")));
        assert_eq!(after(&log[..8]), (Some(1), open("the session, which is not idle,")));
        assert_eq!(after(&log[..9]), (Some(9), None));
        assert_eq!(after(&log[..10]), (Some(9), open("item i2")));
        assert_eq!(after(&log), (Some(11), None));
    }

    #[test]
    fn what_is_open_in_a_base_is_open_after_it() {
        assert_eq!(Settled::after(&State::default()).last(), None);
        let log = [
            r#"{"seq":1,"time":1,"type":"session.created","session":"s","agent":"a","cwd":"/w"}"#,
            r#"{"seq":2,"time":1,"type":"prompt.accepted","prompt":"p1","content":[]}"#,
            r#"{"seq":3,"time":1,"type":"item.started","item":"i1","kind":"message","text":""}"#,
            r#"{"seq":4,"time":1,"type":"session.status","status":"busy"}"#,
            r#"{"seq":5,"time":1,"type":"prompt.withdrawn","prompt":"p1"}"#,
            r#"{"seq":6,"time":1,"type":"item.ended","item":"i1","state":"completed"}"#,
            r#"{"seq":7,"time":1,"type":"session.status","status":"idle"}"#,
        ]
        .map(|line| Event::from_json(line).unwrap());
        for cut in 1..=log.len() {
            let base = Fold::of(&log[..cut]).into_state();
            let (mut whole, mut rest) = (Settled::default(), Settled::after(&base));
            log[..cut].iter().for_each(|event| whole.apply(event));
            assert_eq!(rest.open(), whole.open(), "cut after {cut}");
            for event in &log[cut..] {
                whole.apply(event);
                rest.apply(event);
            }
            assert_eq!((rest.last(), rest.open()), (Some(Seq(7)), None), "cut after {cut}");
        }
    }
}
