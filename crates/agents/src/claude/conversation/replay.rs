//! Replays turns from the agent's transcript with the same rules as a live one, so that its items have the
//! same keys.

use super::{Conversation, ConversationSettings, SentPrompt};
use crate::claude::usage::Used;
use crate::claude::wire::Line;
use std::collections::HashSet;
use turnstream_adapter::Observed;
use turnstream_model::event::{ErrorClass, Outcome, TurnError};
use turnstream_model::signal::{Ending, Signal};

/// One turn of a transcript.
#[derive(Default)]
pub(in crate::claude) struct StoredTurn {
    /// The prompts that it took.
    pub(in crate::claude) prompts: Vec<String>,
    /// The notification of background work that woke the agent for it.
    pub(in crate::claude) woken_by: Option<String>,
    pub(in crate::claude) steps: Vec<StoredStep>,
    /// Its result; `None` for a turn that the agent did not finish.
    pub(in crate::claude) result: Option<Line<'static>>,
    /// What it used, if that is more than its own model calls.
    pub(in crate::claude) used: Used,
    /// What subagents in the background did after its end.
    pub(in crate::claude) after: Vec<StoredStep>,
}

/// One step of a stored turn.
pub(in crate::claude) enum StoredStep {
    Line(Box<Line<'static>>),
    /// The model call that the log has last was repeated.
    Repeated,
}

impl Conversation {
    /// What stored turns say, as signals.
    pub(in crate::claude) fn replay(turns: Vec<StoredTurn>) -> Vec<Observed> {
        let mut replay = Self::new(ConversationSettings { native_id: String::new() });
        // Texts without a stop reason were cut off by an interrupt.
        let mut cut = HashSet::new();
        for turn in turns {
            replay.replay_turn(turn, &mut cut);
        }
        replay.observed.into_iter().filter(|observed| is_content(observed, &cut)).collect()
    }

    fn replay_turn(&mut self, turn: StoredTurn, cut: &mut HashSet<String>) {
        if let Some(native_id) = turn.prompts.into_iter().next() {
            self.prompts.push_back(SentPrompt { native_id, echoed: true, unwanted: false });
        }
        self.woken_by = turn.woken_by;
        self.begin_turn();
        let is_aborted = turn.result.as_ref().is_some_and(Line::is_aborted);
        let is_message =
            |step: &StoredStep| matches!(step, StoredStep::Line(line) if line.kind == "assistant");
        let last_message = turn.steps.iter().rposition(is_message);
        for (place, step) in turn.steps.into_iter().enumerate() {
            // An interrupt came after the last message.
            if let Some(open) = self.turn.as_mut().filter(|_| is_aborted && Some(place) > last_message) {
                open.interrupted = true;
            }
            self.replay_step(step, cut);
        }
        // Subagents that go on are known after the end of the turn.
        for step in &turn.after {
            if let StoredStep::Line(line) = step {
                self.tasks.extend(line.parent_tool_use_id.clone().map(|call| (call.clone(), call)));
            }
        }
        match turn.result {
            Some(result) => self.end_turn(&result, turn.used),
            None => {
                let message = "Claude Code ended before it finished the turn";
                let error = TurnError::new(ErrorClass::AgentExited, message);
                self.end_work(Outcome::Lost);
                let (usage, cost) = turn.used;
                let ending = Ending { usage, cost, ..Ending::lost(error) };
                self.signal(Signal::TurnDone { native_id: None, ending });
            }
        }
        turn.after.into_iter().for_each(|step| self.replay_step(step, cut));
    }

    fn replay_step(&mut self, step: StoredStep, cut: &mut HashSet<String>) {
        match step {
            StoredStep::Line(line) => {
                let message = line.message.as_ref().filter(|_| line.kind == "assistant");
                if let Some(message) = message.filter(|message| message.stop_reason.is_none()) {
                    cut.insert(message.id.clone());
                }
                self.read(*line);
            }
            StoredStep::Repeated => self.signal(Signal::Retrying {
                attempt: None,
                reason: None,
                until: None,
                message: Some("the stream broke; the request was repeated".to_owned()),
            }),
        }
    }
}

/// A transcript knows nothing of the session's settings and of the size of the context.
fn is_content(observed: &Observed, cut: &HashSet<String>) -> bool {
    match observed {
        Observed::Signal(Signal::Session(_) | Signal::Usage { .. }) => false,
        Observed::Signal(Signal::ItemEnded { key, .. }) => {
            !key.as_str().rsplit_once(':').is_some_and(|(message, _)| cut.contains(message))
        }
        Observed::Signal(_)
        | Observed::Fate { .. }
        | Observed::CaughtUp
        | Observed::Away(_)
        | Observed::Back => true,
    }
}
