//! Replays a turn from the agent's transcript with the same rules as a live one, so that its items have the
//! same keys.

use super::{Conversation, ConversationSettings, SentPrompt};
use crate::claude::wire::Line;
use std::collections::HashSet;
use turnstream_adapter::Observed;
use turnstream_model::event::{ErrorClass, Outcome, TurnError};
use turnstream_model::signal::{Ending, Signal};

/// One turn of a transcript.
pub(in crate::claude) struct StoredTurn {
    /// The prompt that began it, if a prompt did.
    pub(in crate::claude) prompt: Option<String>,
    pub(in crate::claude) steps: Vec<StoredStep>,
    /// Its result; `None` for a turn that the agent did not finish.
    pub(in crate::claude) result: Option<Line<'static>>,
}

/// One step of a stored turn.
pub(in crate::claude) enum StoredStep {
    Line(Box<Line<'static>>),
    /// The model call that the log has last was repeated.
    Repeated,
}

impl Conversation {
    /// What a stored turn says, as signals.
    pub(in crate::claude) fn replay(turn: StoredTurn) -> Vec<Observed> {
        let mut replay = Self::new(ConversationSettings { native_id: String::new() });
        if let Some(native_id) = turn.prompt {
            replay.prompts.push_back(SentPrompt { native_id, echoed: true, unwanted: false });
        }
        replay.begin_turn();
        // Texts without a stop reason were cut off by an interrupt.
        let mut cut = HashSet::new();
        let is_aborted = turn.result.as_ref().is_some_and(Line::is_aborted);
        let is_message =
            |step: &StoredStep| matches!(step, StoredStep::Line(line) if line.kind == "assistant");
        let last_message = turn.steps.iter().rposition(is_message);
        for (place, step) in turn.steps.into_iter().enumerate() {
            // An interrupt came after the last message.
            if let Some(open) = replay.turn.as_mut().filter(|_| is_aborted && Some(place) > last_message) {
                open.interrupted = true;
            }
            match step {
                StoredStep::Line(line) => {
                    let message = line.message.as_ref().filter(|_| line.kind == "assistant");
                    if let Some(message) = message.filter(|message| message.stop_reason.is_none()) {
                        cut.insert(message.id.clone());
                    }
                    replay.read(*line);
                }
                StoredStep::Repeated => replay.signal(Signal::Retrying {
                    attempt: None,
                    reason: None,
                    until: None,
                    message: Some("the stream broke; the request was repeated".to_owned()),
                }),
            }
        }
        match turn.result {
            Some(result) => replay.result(&result),
            None => {
                let message = "Claude Code ended before it finished the turn";
                let error = TurnError::new(ErrorClass::AgentExited, message);
                replay.end_work(Outcome::Lost);
                replay.signal(Signal::TurnDone { native_id: None, ending: Ending::lost(error) });
            }
        }
        replay.observed.into_iter().filter(|observed| is_content(observed, &cut)).collect()
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
