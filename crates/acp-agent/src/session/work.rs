//! What the agent works on, as a cancel of an editor without a prompt of its own means it.

use turnstream_client::CancelTarget;
use turnstream_model::event::{Aside, Body, Draft};
use turnstream_model::fold::State;
use turnstream_model::id::{PromptId, TurnId};

/// What a cancel ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// The open turn.
    turn: Option<TurnId>,
    /// The failed turn that the session waits to continue.
    parked: Option<TurnId>,
    /// The prompt that continues a failed turn, and that turn, until the prompt has a turn of its own.
    continuation: Option<(PromptId, TurnId)>,
}

impl Work {
    /// In this state.
    pub(super) fn of(state: &State) -> Self {
        let parked = state.session.unattended.as_ref().and_then(|it| it.parked.as_ref());
        let mut queue = state.queue.iter();
        Self {
            turn: state.open_turn().map(|turn| turn.turn.clone()),
            parked: parked.map(|parked| parked.continuation.of.clone()),
            continuation: queue
                .find_map(|prompt| Some((prompt.prompt.clone(), prompt.continues.as_ref()?.of.clone()))),
        }
    }

    /// Notes what an event changes.
    pub(super) fn note(&mut self, draft: &Draft) {
        match &draft.body {
            Body::TurnStarted { .. } => self.turn.clone_from(&draft.turn),
            Body::TurnEnded { .. } => self.turn = None,
            Body::Aside(Aside::UnattendedParked { continuation, .. }) => {
                self.parked = Some(continuation.of.clone());
            }
            Body::Aside(Aside::UnattendedReleased { .. }) => self.parked = None,
            Body::Aside(Aside::PromptContinues { prompt, continuation }) => {
                self.continuation = Some((prompt.clone(), continuation.of.clone()));
            }
            Body::PromptTaken { prompt } | Body::PromptWithdrawn { prompt } => {
                self.continuation.take_if(|(continuation, _)| continuation == prompt);
            }
            _ => {}
        }
    }

    /// What the gateway is asked to cancel: the first of these that it still can. Only what the editor can
    /// mean: the next turn may begin before the request arrives.
    pub(super) fn targets(&self) -> Vec<CancelTarget<'_>> {
        match (self.turn.as_ref().or(self.parked.as_ref()), &self.continuation) {
            (Some(open), _) => vec![CancelTarget::Turn(open.as_str())],
            // By its turn until it is sent, and then by its own name.
            (None, Some((prompt, of))) => {
                vec![CancelTarget::Turn(of.as_str()), CancelTarget::Prompt(prompt.as_str())]
            }
            (None, None) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Work;
    use turnstream_model::event::Event;

    #[test]
    fn a_turn_that_the_agent_began_itself_does_not_end_the_wait_for_another_one() {
        let mut work = Work::default();
        let mut after = |body: &str| {
            let line = format!(r#"{{"seq":1,"time":1,{body}}}"#);
            work.note(&Event::from_json(&line).unwrap().draft);
            format!("{:?}", work.targets())
        };
        let of = r#""of":"t1","because":"limit","reason":"rate_limited","limits":1,"since":1"#;
        assert_eq!(after(&format!(r#""type":"unattended.parked","until":9,{of}"#)), r#"[Turn("t1")]"#);
        let started = r#""type":"turn.started","turn":"t2","origin":"agent""#;
        assert_eq!(after(started), r#"[Turn("t2")]"#);
        assert_eq!(after(r#""type":"turn.ended","turn":"t2","outcome":"completed""#), r#"[Turn("t1")]"#);
        let released = r#""type":"unattended.released","of":"t1","outcome":"due","by":"policy""#;
        assert_eq!(after(released), "[]");
        let continues = format!(r#""type":"prompt.continues","prompt":"p2",{of}"#);
        assert_eq!(after(&continues), r#"[Turn("t1"), Prompt("p2")]"#);
        assert_eq!(after(r#""type":"prompt.taken","turn":"t3","prompt":"p2""#), "[]");
    }
}
